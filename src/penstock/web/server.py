"""The web server of one pipeline's page, where the file says, with bounds for everything a client may do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import uvicorn

from penstock.config.web import WebSpec
from penstock.schematizer.http.patience import PatientProtocol
from penstock.schematizer.security.users import read_users
from penstock.schematizer.server import Tls, check_tls, listen
from penstock.web.application import create_app
from penstock.web.watcher import Watcher

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from pathlib import Path

    from penstock.config.specs import PipelineSpec

_CONNECTIONS_MAX = 64
_READ_SECONDS = 10.0


class PromptProtocol(PatientProtocol):
    """A protocol that cuts clients which do not take what they asked for, and makes room for those who ask.

    Where as many connections are open as we hold, the oldest without a request is cut:
    who only connects could keep others from /healthz otherwise.
    """

    head_seconds = 5.0
    read_seconds = _READ_SECONDS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to look whether what is written is read."""
        super().connection_made(transport)
        self.made_at = self.loop.time()
        self._make_room()
        self._watched: asyncio.TimerHandle | None = None
        self._left = 0
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Look no more."""
        super().connection_lost(exc)
        if self._watched is not None:
            self._watched.cancel()

    def _make_room(self) -> None:
        others = (each for each in self.connections if isinstance(each, PromptProtocol) and each is not self)
        idle = [each for each in others if each.cycle is None or each.cycle.response_complete]
        if len(self.connections) >= _CONNECTIONS_MAX and idle:
            oldest = min(idle, key=lambda each: each.made_at)
            oldest.transport.abort()
            # Uvicorn counts it until the event loop comes round, and would refuse a request meanwhile.
            self.connections.discard(oldest)

    def _look(self) -> None:
        left = self.transport.get_write_buffer_size()
        if left and left >= self._left > 0:
            self.transport.abort()
            return
        self._left = left
        self._watched = self.loop.call_later(self.read_seconds, self._look)


def serve_page(spec: PipelineSpec, file: Path, port: int, announce: Callable[[str], None]) -> None:
    """Serve the page of the pipeline that `file` describes, until SIGTERM or SIGINT; `announce` gets the URL.

    Raises UsageError for a port that cannot be had, a certificate and a users file that cannot work.
    """
    web = spec.web or WebSpec()
    tls = web.tls and Tls(web.tls.cert, web.tls.key)
    if tls:
        check_tls(tls)
    if web.users:
        read_users(web.users)
    with listen(web.host, port) as listener, Watcher(spec, file) as watcher:
        announce(web.url(listener.getsockname()[1]))
        uvicorn.Server(web_settings(watcher)).run(sockets=[listener])


def web_settings(watcher: Watcher, protocol: type[Any] = PromptProtocol) -> uvicorn.Config:
    """How the web server runs the page."""
    web = watcher.spec.web or WebSpec()
    return uvicorn.Config(
        create_app(watcher),
        ssl_certfile=web.tls.cert if web.tls else None,
        ssl_keyfile=web.tls.key if web.tls else None,
        # Whoever is not a proxy of ours could say to be anybody.
        proxy_headers=web.behind_proxy is not None,
        forwarded_allow_ips=web.behind_proxy,
        http=protocol,
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=_CONNECTIONS_MAX,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=1,
    )

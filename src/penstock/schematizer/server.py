"""The web server around the application."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import uvicorn

from penstock.core.errors import UsageError
from penstock.schematizer.app import create_app

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fastapi import FastAPI

_CONNECTIONS_WAITING_MAX = 1024
_SHUTDOWN_SECONDS = 2


def serve(database_url: str, host: str, port: int, announce: Callable[[str, int], None]) -> None:
    """Serve until SIGTERM or SIGINT; open requests get two seconds to end.

    Port 0 picks a free one. `announce` is called with the URL and the port as
    soon as requests are answered. Raises UsageError for an address or a database
    URL that cannot work, and UnavailableError for a database that does not answer.
    """
    with _listen(host, port) as listener:
        app = create_app(database_url)
        chosen = listener.getsockname()[1]
        url = f"http://[{host}]:{chosen}" if ":" in host else f"http://{host}:{chosen}"
        _Announced(app, lambda: announce(url, chosen)).run(sockets=[listener])


def write_port_file(file: Path, port: int) -> None:
    """Write `port` to `file` in one step, so that nobody reads half of it."""
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    unfinished.write_text(f"{port}\n")
    unfinished.replace(file)


class _Announced(uvicorn.Server):
    """A server that says when it is ready."""

    def __init__(self, app: FastAPI, announce: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_level="warning",
                access_log=False,
                timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
                server_header=False,
            )
        )
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Announce once the listener is taken over."""
        await super().startup(sockets)
        if self.started:
            self._announce()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The event loop turns Nagle's delay off only where the protocol is named: else each answer waits 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_CONNECTIONS_WAITING_MAX)
    except OSError as error:
        listener.close()
        message = f"cannot listen on {host}:{port}: {error.strerror or error}"
        raise UsageError(message, "choose another --host or --port; --port 0 takes a free one") from error
    return listener

"""The web server around the application: one process, or several on one socket."""

from __future__ import annotations

import os
import socket
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import uvicorn

from penstock.core.errors import UsageError
from penstock.schematizer.http.patience import PatientProtocol
from penstock.schematizer.http.protection import Protection
from penstock.schematizer.security.users import read_users
from penstock.schematizer.workers import run_workers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fastapi import FastAPI

_CONNECTIONS_WAITING_MAX = 1024
_SHUTDOWN_SECONDS = 2


@dataclass(frozen=True, slots=True)
class Tls:
    """How connections are encrypted: files in PEM; with `client_ca`, clients need a certificate of it."""

    certificate: Path
    key: Path | None = None
    client_ca: Path | None = None


@dataclass(frozen=True, slots=True)
class Service:
    """What is served, and where.

    Port 0 is a free one; `proxies` are those whose word on the client is taken;
    `kafka` is where live figures are asked for, "" for nowhere.
    """

    database_url: str
    host: str
    port: int
    workers: int = 1
    protection: Protection = field(default_factory=Protection)
    tls: Tls | None = None
    proxies: str = ""
    kafka: str = ""


def serve(service: Service, announce: Callable[[str, int], None]) -> None:
    """Serve until SIGTERM or SIGINT; open requests get two seconds to end.

    `announce` is called with the URL and the port as soon as requests are
    answered. Raises UsageError for an address, a database URL, a certificate or
    a users file that cannot work, and UnavailableError for a database that does
    not answer.
    """
    # A pipeline's live page listens as this does, and has no use for the registry: a second and 16 MB.
    from penstock.schematizer.app import create_app  # noqa: PLC0415
    from penstock.schematizer.storage.database import open_database  # noqa: PLC0415

    if service.tls:
        check_tls(service.tls)
    with listen(service.host, service.port) as listener:
        chosen = listener.getsockname()[1]
        host = f"[{service.host}]" if ":" in service.host else service.host
        url = f"{'https' if service.tls else 'http'}://{host}:{chosen}"

        def work(ready: Callable[[], None]) -> None:
            app = create_app(service.database_url, service.protection, service.kafka)
            _Announced(web_settings(app, service), ready).run(sockets=[listener])

        if service.workers == 1:
            work(lambda: announce(url, chosen))
        else:
            # Mistakes are told once, by the process that can be seen.
            if service.protection.users_file:
                read_users(service.protection.users_file)
            open_database(service.database_url).close()
            run_workers(service.workers, work, lambda: announce(url, chosen))


def write_port_file(file: Path, port: int) -> None:
    """Write `port` to `file` in one step, so that nobody reads half of it."""
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    unfinished.write_text(f"{port}\n")
    unfinished.replace(file)


class _Announced(uvicorn.Server):
    """A server that says when it is ready."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Announce once the listener is taken over."""
        await super().startup(sockets)
        if self.started:
            self._announce()


def web_settings(app: FastAPI, service: Service) -> uvicorn.Config:
    """Return how the web server runs an application."""
    tls = service.tls
    return uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        server_header=False,
        # Whoever is not a proxy of ours could say to be anybody.
        proxy_headers=bool(service.proxies),
        forwarded_allow_ips=service.proxies or None,
        ssl_certfile=tls.certificate if tls else None,
        ssl_keyfile=tls.key if tls else None,
        ssl_ca_certs=str(tls.client_ca) if tls and tls.client_ca else None,
        ssl_cert_reqs=ssl.CERT_REQUIRED if tls and tls.client_ca else ssl.CERT_NONE,
    )


def check_tls(tls: Tls) -> None:
    """Raise UsageError for files that are none of a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # A key with a passphrase would be asked for at a terminal that a service does not have.
        context.load_cert_chain(tls.certificate, tls.key, password="")
        if tls.client_ca:
            context.load_verify_locations(tls.client_ca)
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(str(file) for file in (tls.certificate, tls.key, tls.client_ca) if file)
        message = f"TLS cannot be served with {files}: {error}"
        raise UsageError(message, "give the certificate and its key in PEM, the key without a passphrase") from error


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 picks a free one. Raises UsageError for an address that cannot be had."""
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

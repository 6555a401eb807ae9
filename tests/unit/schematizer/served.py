"""A Schematizer that a thread of this process serves."""

from __future__ import annotations

import contextlib
import functools
import socket
import ssl
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import uvicorn
from starlette.routing import Route

from penstock.schematizer.app import create_app
from penstock.schematizer.http.patience import PatientProtocol
from penstock.schematizer.storage.database import open_database

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fastapi import FastAPI
    from starlette.middleware import Middleware
    from starlette.routing import BaseRoute

    from penstock.schematizer.http.protection import Protection


# Every application has the same parts. Only the first of a process makes their routes ready, in 0.2 s of CPU.
_PARTS: list[BaseRoute] = []
# A client would read every certificate anew, in 0.02 s of CPU, and never use one.
_TLS = ssl.create_default_context()


class HastyProtocol(PatientProtocol):
    """The service's protocol, which waits for heads of requests for less long."""

    head_seconds = 1.0


@contextlib.contextmanager
def served(
    database_url: str, protection: Protection | None = None, kafka: str = "", inner: Sequence[Middleware] = ()
) -> Iterator[httpx.Client]:
    """A client of an application on the database at `database_url`, which asks `kafka` for live figures.

    Middleware of `inner` stands next to its routes.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        begin_migrated(database_url)
        app = create_app(database_url, protection, kafka)
        _share_parts(app)
        app.user_middleware.extend(inner)
        server = uvicorn.Server(uvicorn.Config(app, http=HastyProtocol, log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            with httpx.Client(
                base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", verify=_TLS, timeout=60
            ) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join()


def begin_migrated(database_url: str) -> None:
    """Put an empty registry where a file will be: to copy it takes less than to run every migration."""
    file = Path(database_url.removeprefix("sqlite:///"))
    if database_url.startswith("sqlite:///") and file.parent.is_dir() and not file.exists():
        file.write_bytes(_empty_registry())


@functools.cache
def _empty_registry() -> bytes:
    """A file that every migration was run on."""
    with tempfile.TemporaryDirectory() as home:
        open_database(f"sqlite:///{home}/registry.db").close()
        return Path(home, "registry.db").read_bytes()


def _share_parts(app: FastAPI) -> None:
    """Take the parts of the first application of this process; each keeps its own /docs and /openapi.json."""
    routes = app.router.routes
    places = [number for number, route in enumerate(routes) if not isinstance(route, Route)]
    if not _PARTS:
        _PARTS.extend(routes[number] for number in places)
    for number, part in zip(places, _PARTS, strict=True):
        routes[number] = part

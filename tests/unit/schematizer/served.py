"""A Schematizer that a thread of this process serves."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

import httpx
import uvicorn

from penstock.schematizer.app import create_app
from penstock.schematizer.patience import PatientProtocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from starlette.middleware import Middleware

    from penstock.schematizer.protection import Protection


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
        app = create_app(database_url, protection, kafka)
        app.user_middleware.extend(inner)
        server = uvicorn.Server(uvicorn.Config(app, http=HastyProtocol, log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=60) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join()

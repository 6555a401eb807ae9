"""The routes: the page, its events, metrics, and two answers for those who look after processes."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from fastapi import FastAPI, Response
from fastapi.responses import HTMLResponse, PlainTextResponse
from fastapi.staticfiles import StaticFiles

from penstock.web.actions import TableActionRoute
from penstock.web.exposition import CONTENT_TYPE
from penstock.web.page import HEADERS, render_page

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from penstock.web.watcher import Watcher

_EVENT_SECONDS = 1.0
_STREAMS_MAX = 16
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


def create_app(watcher: Watcher) -> FastAPI:
    """An application that tells what `watcher` saw last."""
    app = FastAPI(openapi_url=None)

    # All of them are coroutines that wait for nothing: no request takes a thread.
    @app.get("/")
    async def page() -> Response:
        return HTMLResponse(render_page(watcher.snapshot, watcher.unanswered), headers=HEADERS)

    @app.get("/metrics")
    async def metrics() -> Response:
        snapshot = watcher.snapshot
        if snapshot is None or snapshot.is_stale:
            return PlainTextResponse(f"{_why_nothing(watcher)}\n", 503)
        return Response(snapshot.metrics, media_type=CONTENT_TYPE)

    @app.get("/healthz")
    async def healthz() -> Response:
        return _answer(not_alive(watcher))

    @app.get("/readyz")
    async def readyz() -> Response:
        return _answer(not_ready(watcher))

    app.add_route("/tables", TableActionRoute(watcher.spec).answer, methods=["POST"])
    app.mount("/events", Events(watcher))
    app.mount("/look", StaticFiles(packages=[("penstock.schematizer.web", "static")]))
    app.mount("/static", StaticFiles(packages=[("penstock.web", "static")]))
    app.add_middleware(LoopbackNamesOnly)
    return app


def not_alive(watcher: Watcher) -> list[str]:
    """Why the pipeline does not live: nobody runs it, or whoever does gives no sign."""
    snapshot = watcher.snapshot
    if snapshot is None or snapshot.is_stale:
        return [_why_nothing(watcher)]
    overview = snapshot.overview
    if not overview.is_running:
        return [overview.status.unanswered or f"nobody runs {overview.pipeline}"]
    return [each.text for each in overview.problems if each.level == "error" and each.subject == "pipeline"]


def not_ready(watcher: Watcher) -> list[str]:
    """Why not everything is carried now: what is not alive, not up, or not well."""
    dead, snapshot = not_alive(watcher), watcher.snapshot
    if dead or snapshot is None:
        return dead
    overview = snapshot.overview
    waiting = [] if snapshot.has_asked else ["the sources have not been asked yet"]
    waiting += [f"{stage.name}: {stage.state}" for stage in overview.stages if stage.state != "running"]
    waiting += [f"{each.server}: {each.state}" for each in overview.status.servers if each.state != "running"]
    waiting += [f"{each.source}: {each.unanswered}" for each in overview.status.sources if each.unanswered]
    return waiting + [f"{each.subject}: {each.text}" for each in overview.problems if each.level == "error"]


def _answer(reasons: list[str]) -> Response:
    return PlainTextResponse("\n".join(reasons or ["ok"]) + "\n", 503 if reasons else 200)


def _why_nothing(watcher: Watcher) -> str:
    return watcher.unanswered or "the state database has not answered for a while"


class Events:
    """Server-sent events (HTML Living Standard, 9.2): the page's parts, whenever they have changed.

    A connection that takes nothing is cut by the protocol, see `penstock.web.server`.
    """

    def __init__(self, watcher: Watcher) -> None:
        """Serve what `watcher` sees."""
        self._watcher = watcher
        self._streams = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one client until it goes away."""
        if self._streams >= _STREAMS_MAX:
            busy = PlainTextResponse("too many pages are open\n", 503, headers={"Retry-After": "30"})
            await busy(scope, receive, send)
            return
        self._streams += 1
        gone = asyncio.ensure_future(_wait_until_gone(receive))
        try:
            await self._serve(send, gone)
        finally:
            self._streams -= 1
            gone.cancel()

    async def _serve(self, send: Send, gone: asyncio.Future[None]) -> None:
        headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        sent = ""
        while not gone.done():
            snapshot = self._watcher.snapshot
            parts = "" if snapshot is None or snapshot.is_stale else snapshot.parts
            # A comment keeps the connection, and tells us when nobody is there any more.
            event = f"data: {json.dumps(parts)}\n\n" if parts != sent else ": \n\n"
            sent = parts
            await send({"type": "http.response.body", "body": event.encode(), "more_body": True})
            await asyncio.wait([gone], timeout=_EVENT_SECONDS)
        await send({"type": "http.response.body", "body": b""})


async def _wait_until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class LoopbackNamesOnly:
    """Answers nobody who took us for another name: a page from elsewhere could have its name lead here."""

    def __init__(self, app: ASGIApp) -> None:
        """Stand before `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse requests whose Host is not this machine's loopback."""
        if scope["type"] == "http":
            host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
            name = host if host.endswith("]") else host.rpartition(":")[0] or host
            if name.lower() not in _LOOPBACK_NAMES:
                refusal = PlainTextResponse("ask for localhost: this page is served on loopback alone\n", 421)
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)

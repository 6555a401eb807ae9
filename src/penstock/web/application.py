"""The routes: the page, its events, metrics, and two answers for those who look after processes."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles

from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.security.rights import user_of
from penstock.web.actions import TableActionRoute
from penstock.web.exposition import CONTENT_TYPE
from penstock.web.guard import ACTIONS, Guarded, is_anonymous, may_act_somewhere, may_read, refusal
from penstock.web.metrics import describe_staleness
from penstock.web.page import HEADERS, render_page

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Receive, Scope, Send

    from penstock.web.watcher import Watcher

_EVENT_SECONDS = 1.0
_STREAMS_MAX = 16
_STREAM_SECONDS = 300.0
"""Whoever still may read asks again then, and who was taken out of the users file reads no longer."""


def create_app(watcher: Watcher) -> FastAPI:
    """An application that tells what `watcher` saw last."""
    app = FastAPI(openapi_url=None)

    # All of them are coroutines that wait for nothing: no request takes a thread.
    @app.get("/")
    async def page(request: Request) -> Response:
        parts = _parts_for(watcher, request.scope)
        pipeline, is_nameless = watcher.spec.pipeline, is_anonymous(request.scope, watcher.spec)
        html = render_page(pipeline, parts, watcher.unanswered, signs_in=is_nameless)
        return HTMLResponse(html, headers=HEADERS)

    @app.get("/sign-in")
    async def sign_in(request: Request) -> Response:
        if is_anonymous(request.scope, watcher.spec):
            return refusal(RefusedError(Code.UNAUTHENTICATED, "nobody has signed in", "sign in"), is_json=False)
        return RedirectResponse("/", 303)

    @app.get("/metrics")
    async def metrics() -> Response:
        snapshot = watcher.newest()
        if snapshot is None or snapshot.is_stale:
            # The page is up, and whether anybody runs the pipeline is not known: an error would say that nobody does.
            read_at_ms = 0 if snapshot is None else snapshot.overview.status.now_ms
            return Response(describe_staleness(watcher.spec.pipeline, read_at_ms), media_type=CONTENT_TYPE)
        return Response(snapshot.metrics, media_type=CONTENT_TYPE)

    @app.get("/healthz")
    async def healthz(request: Request) -> Response:
        return _answer(not_alive(watcher), tells=may_read(user_of(request.scope), watcher.spec))

    @app.get("/readyz")
    async def readyz(request: Request) -> Response:
        return _answer(not_ready(watcher), tells=may_read(user_of(request.scope), watcher.spec))

    app.add_route(ACTIONS, TableActionRoute(watcher).answer, methods=["POST"])
    app.mount("/events", Events(watcher))
    app.mount("/look", StaticFiles(packages=[("penstock.schematizer.web", "static")]))
    app.mount("/static", StaticFiles(packages=[("penstock.web", "static")]))
    app.add_middleware(Guarded, spec=watcher.spec)
    return app


def not_alive(watcher: Watcher) -> list[str]:
    """Why the pipeline does not live: nobody runs it, or whoever does gives no sign."""
    snapshot = watcher.newest()
    if snapshot is None or snapshot.is_stale:
        return [_why_nothing(watcher)]
    overview = snapshot.overview
    if not overview.is_running:
        return [overview.status.unanswered or f"nobody runs {overview.pipeline}"]
    return [each.text for each in overview.problems if each.level == "error" and each.subject == "pipeline"]


def not_ready(watcher: Watcher) -> list[str]:
    """Why not everything is carried now: what is not alive, not up, or not well."""
    dead, snapshot = not_alive(watcher), watcher.newest()
    if dead or snapshot is None:
        return dead
    overview = snapshot.overview
    waiting = [] if snapshot.has_asked else ["the sources have not been asked yet"]
    waiting += [f"{stage.name}: {stage.state}" for stage in overview.stages if stage.state != "running"]
    waiting += [f"{each.server}: {each.state}" for each in overview.status.servers if each.state != "running"]
    waiting += [f"{each.source}: {each.unanswered}" for each in overview.status.sources if each.unanswered]
    return waiting + [f"{each.subject}: {each.text}" for each in overview.problems if each.level == "error"]


def _answer(reasons: list[str], *, tells: bool) -> Response:
    told = reasons if tells or not reasons else ["not well; sign in to see why"]
    return PlainTextResponse("\n".join(told or ["ok"]) + "\n", 503 if reasons else 200)


def _why_nothing(watcher: Watcher) -> str:
    return watcher.unanswered or "the state database has not answered for a while"


def _parts_for(watcher: Watcher, scope: Scope) -> Mapping[str, str]:
    """The page's parts as whoever asks may see them; none while nobody knows anything."""
    snapshot = watcher.newest()
    if snapshot is None or snapshot.is_stale:
        return {}
    return snapshot.parts if may_act_somewhere(user_of(scope)) else snapshot.parts_to_read


class Events:
    """Server-sent events (HTML Living Standard, 9.2): the names of the page's parts, and those that have changed.

    A connection that takes nothing is cut by the protocol, see `penstock.web.server`.
    """

    def __init__(self, watcher: Watcher) -> None:
        """Serve what `watcher` sees."""
        self._watcher = watcher
        self._streams = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one client until it goes away, or has to ask again."""
        if self._streams >= _STREAMS_MAX:
            busy = PlainTextResponse("too many pages are open\n", 503, headers={"Retry-After": "30"})
            await busy(scope, receive, send)
            return
        self._streams += 1
        gone = asyncio.ensure_future(_wait_until_gone(receive))
        try:
            await self._serve(scope, send, gone)
        finally:
            self._streams -= 1
            gone.cancel()

    async def _serve(self, scope: Scope, send: Send, gone: asyncio.Future[None]) -> None:
        headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        # Browsers come back by themselves, this many milliseconds later.
        await send({"type": "http.response.body", "body": b"retry: 1000\n\n", "more_body": True})
        sent: Mapping[str, str] | None = None
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + _STREAM_SECONDS
        while not gone.done() and loop.time() < ends_at:
            parts = _parts_for(self._watcher, scope)
            changed = {name: html for name, html in parts.items() if sent is None or sent.get(name) != html}
            # A comment keeps the connection, and tells us when nobody is there any more.
            told = json.dumps({"names": list(parts), "changed": changed})
            event = f"data: {told}\n\n" if parts != sent else ": \n\n"
            sent = parts
            await send({"type": "http.response.body", "body": event.encode(), "more_body": True})
            await asyncio.wait([gone], timeout=_EVENT_SECONDS)
        await send({"type": "http.response.body", "body": b""})


async def _wait_until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

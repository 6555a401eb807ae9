"""What the page may have done to tables: for its own scripts alone, and not where the file says `actions: false`.

A page from elsewhere that a browser on this machine shows may send requests here,
too. Browsers say where a request comes from (Fetch Metadata, and Origin of RFC
6454), and ask first (CORS) before they send JSON for another site; nobody here
answers that.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fastapi.responses import JSONResponse

from penstock.core.errors import PenstockError
from penstock.ports.table_actions import Action
from penstock.wiring.table_requests import ask_for_action

if TYPE_CHECKING:
    from fastapi import Request, Response

    from penstock.config.specs import PipelineSpec

_BODY_BYTES_MAX = 4096
_AT_ONCE = 2


class TableActionRoute:
    """Takes requests for tables, a few at a time: each waits for the state database in a thread."""

    def __init__(self, spec: PipelineSpec) -> None:
        """Serve the pipeline of `spec`."""
        self._spec = spec
        self._under_way = 0

    async def answer(self, request: Request) -> Response:
        """Ask for what the body says: `table`, `link` and `action`, as JSON."""
        if not may_act(self._spec):
            return _refuse(403, "actions are turned off: `web: {actions: false}`", "use penstock table")
        if not comes_from_the_page(request):
            return _refuse(403, "this request does not come from the page itself", "use the page, or penstock table")
        asked = _parse(await _body(request))
        if asked is None:
            return _refuse(400, "this is no request for a table", "send table, link and action as JSON")
        if self._under_way >= _AT_ONCE:
            return _refuse(503, "other requests are under way", "try again in a moment")
        self._under_way += 1
        try:
            return await asyncio.to_thread(self._ask, *asked)
        finally:
            self._under_way -= 1

    def _ask(self, table: str, link: str, action: Action) -> Response:
        try:
            ask_for_action(self._spec, table, action, link, "somebody at the page")
        except PenstockError as error:
            return _refuse(409, error.message, error.hint)
        return JSONResponse({"told": f"asked to {action} {table} at {link}"})


def may_act(spec: PipelineSpec) -> bool:
    """Whether the page offers actions."""
    return spec.web is None or spec.web.actions


def comes_from_the_page(request: Request) -> bool:
    """Whether a script of this very page sent the request, as far as a browser tells."""
    headers = request.headers
    origin = urlsplit(headers.get("origin", ""))
    site = headers.get("sec-fetch-site", "same-origin")
    is_json = headers.get("content-type", "").partition(";")[0].strip() == "application/json"
    return is_json and site == "same-origin" and origin.scheme == "http" and origin.netloc == headers.get("host")


async def _body(request: Request) -> bytes:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _BODY_BYTES_MAX:
            return b""
    return body


def _parse(body: bytes) -> tuple[str, str, Action] | None:
    try:
        asked = json.loads(body)
        table, link, action = asked["table"], asked["link"], Action(asked["action"])
    except (ValueError, KeyError, TypeError):
        return None
    return (table, link, action) if isinstance(table, str) and isinstance(link, str) else None


def _refuse(status: int, message: str, hint: str) -> Response:
    return JSONResponse({"error": message, "hint": hint}, status)

"""What the page may have done to tables: for its own scripts and who may act, and not with `actions: false`.

A page from elsewhere that a browser shows may send requests here, too. Browsers
say where a request comes from (Fetch Metadata, and Origin of RFC 6454), which
`penstock.web.guard` holds against our own address, and ask first (CORS) before
they send JSON for another site; nobody here answers that.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog
from fastapi.responses import JSONResponse

from penstock.core.commands import name_file, shell_word
from penstock.core.errors import PenstockError, UsageError
from penstock.core.snapshots import SnapshotOptions
from penstock.ports.table_actions import Action
from penstock.schematizer.refusals import RefusedError
from penstock.schematizer.security.rights import user_of
from penstock.web.guard import may_act, refusal, require_to_act, require_to_act_somewhere
from penstock.web.replays import LetterReplays
from penstock.wiring.snapshots import ask_for_snapshots
from penstock.wiring.table_requests import ask_for_action
from penstock.wiring.table_sources import sources_with

if TYPE_CHECKING:
    from fastapi import Request, Response

    from penstock.schematizer.security.access import User
    from penstock.web.watcher import Watcher

_log = structlog.get_logger()

_BODY_BYTES_MAX = 4096
_BODY_SECONDS = 5.0
_AT_ONCE = 2
SNAPSHOT: Final = "snapshot"
REPLAY: Final = "replay"
_ACTIONS = (SNAPSHOT, REPLAY, *Action)
_THEN: Final[dict[str, str]] = {
    Action.RESUME: ": if it stopped it is tried again, and its row here tells whether it goes on"
}


@dataclass(frozen=True, slots=True)
class _Asked:
    """What somebody asks for.

    An `Action` at a link; a snapshot, whose `link` is the table's source; or that dead letters be
    replayed, of the spolt that is `link`.
    """

    table: str
    link: str
    action: str


class TableActionRoute:
    """Takes requests, a few at a time: each waits for the state database in a thread, and one replays dead letters."""

    def __init__(self, watcher: Watcher) -> None:
        """Serve the pipeline that `watcher` watches."""
        self._watcher = watcher
        self._spec = watcher.spec
        self._replays = LetterReplays(watcher.file)
        self._under_way = 0

    async def answer(self, request: Request) -> Response:
        """Ask for what the body says: `table`, `link` and `action`, as JSON."""
        if not may_act(self._spec):
            return _refuse(403, "actions are turned off: `web: {actions: false}`", "use penstock table")
        if not comes_from_the_page(request):
            return _refuse(403, "this request does not come from the page itself", "use the page, or penstock table")
        user = user_of(request.scope)
        try:
            require_to_act_somewhere(user)
            if self._under_way >= _AT_ONCE:
                return _refuse(503, "other requests are under way", "try again in a moment")
            self._under_way += 1
            try:
                return await self._take(request, user)
            finally:
                self._under_way -= 1
        except RefusedError as refused:
            return refusal(refused, is_json=True)

    async def _take(self, request: Request, user: User) -> Response:
        """Read the body and do what it says. Raises RefusedError for a user who lacks the role."""
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                asked = _parse(await _body(request))
        except TimeoutError:
            answer = _refuse(408, "the body of the request does not come", "send table, link and action as JSON")
            # Whoever sends so slowly is waited for no more.
            answer.headers["Connection"] = "close"
            return answer
        if asked is None:
            return _refuse(400, "this is no request for a table", "send table, link and action as JSON")
        if asked.action == REPLAY:
            return await self._replay(asked.link, user)
        require_to_act(user, self._spec, asked.link)
        return await asyncio.to_thread(self._ask, asked, user.name or "somebody")

    async def _replay(self, spolt: str, user: User) -> Response:
        # What comes of letters may be of any source.
        for source in self._spec.sources:
            require_to_act(user, self._spec, source.name)
        try:
            self._require_servers(spolt)
            counts = await self._replays.replay(spolt)
        except PenstockError as error:
            return self._refuse(503 if error.retryable else 409, error)
        name = user.name or "somebody"
        _log.info("dead letters were replayed at the page", spolt=spolt, user=name, **counts.for_log())
        return JSONResponse({"told": counts.sentence(spolt)})

    def _require_servers(self, spolt: str) -> None:
        """Raise UsageError for what is no spolt, and where the servers that a replay needs run with the pipeline."""
        names = [each.name for each in self._spec.spolts]
        if spolt not in names:
            message = f'there is no spolt "{spolt[:80]}" in this pipeline'
            raise UsageError(message, f"its spolts are: {', '.join(names) or 'none'}")
        snapshot = self._watcher.newest()
        is_private = self._spec.is_embedded("kafka") or self._spec.is_embedded("schematizer")
        if is_private and not (snapshot and snapshot.overview.is_running):
            message = f"nobody runs {self._spec.pipeline}, and its broker and Schematizer run with it"
            file = self._watcher.file
            raise UsageError(
                message,
                f"type: penstock run {shell_word(file)}; or penstock deadletters replay {shell_word(file)} {spolt}",
            )

    def _ask(self, asked: _Asked, user: str) -> Response:
        try:
            if asked.action == SNAPSHOT:
                self._ask_for_snapshot(asked, user)
            else:
                ask_for_action(self._spec, asked.table, Action(asked.action), asked.link, f"{user} at the page")
        except PenstockError as error:
            return self._refuse(409, error)
        then = _THEN.get(asked.action, "")
        return JSONResponse({"told": f"asked to {asked.action} {asked.table} at {asked.link}{then}"})

    def _refuse(self, status: int, error: PenstockError) -> Response:
        file = str(self._watcher.file)
        return _refuse(status, name_file(error.message, file), name_file(error.hint, file))

    def _ask_for_snapshot(self, asked: _Asked, user: str) -> None:
        # The user's role was looked for in the source that the request names.
        names = sources_with(self._spec, asked.table)
        if asked.link not in names:
            message = f"{asked.table} is a table of {', '.join(names)}, and not of {asked.link}"
            raise UsageError(message, f"send {' or '.join(names)} as link")
        ask_for_snapshots(self._spec, [asked.table], SnapshotOptions(), asked.link)
        _log.info("a snapshot was asked for at the page", table=asked.table, user=user)


def comes_from_the_page(request: Request) -> bool:
    """Whether a script in a browser sent the request; which page it was on, the guard has looked at."""
    headers = request.headers
    is_json = headers.get("content-type", "").partition(";")[0].strip() == "application/json"
    return is_json and ("origin" in headers or "sec-fetch-site" in headers)


async def _body(request: Request) -> bytes:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _BODY_BYTES_MAX:
            return b""
    return body


def _parse(body: bytes) -> _Asked | None:
    try:
        told = json.loads(body)
        table, link, action = told["table"], told["link"], told["action"]
    except (ValueError, KeyError, TypeError):
        return None
    are_texts = isinstance(table, str) and isinstance(link, str)
    return _Asked(table, link, action) if are_texts and action in _ACTIONS else None


def _refuse(status: int, message: str, hint: str) -> Response:
    return JSONResponse({"error": message, "hint": hint}, status)

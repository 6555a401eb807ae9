"""Who writes waits for a turn: one at a time for a subject, a few for the whole registry, in the order of arrival.

Without it a crowd would take every thread and every connection, wait there for
each other's locks, and hold up whoever only reads.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from penstock.schematizer.confluent_paths import CONTEXT
from penstock.schematizer.http.error_answers import error_answer
from penstock.schematizer.refusals import Code, RefusedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import ASGIApp, Receive, Scope, Send

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_WAITING_MAX = 1_000
_WAIT_SECONDS = 20.0
_RETRY_SECONDS = 5.0


class Turns:
    """Middleware next to the routes; at most `at_once` requests write at the same time."""

    def __init__(self, app: ASGIApp, at_once: int, wait_seconds: float = _WAIT_SECONDS) -> None:
        """Stand before `app`. A request that has waited for `wait_seconds` is refused."""
        self._app = app
        self._wait_seconds = wait_seconds
        self._writers = asyncio.Semaphore(at_once)
        self._subjects: defaultdict[tuple[str, str], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._waiting: Counter[tuple[str, str]] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on: at once where it reads, else when it is its turn."""
        if scope["type"] != "http" or scope["method"] in _SAFE or _only_reads(scope):
            await self._app(scope, receive, send)
            return
        try:
            async with self._turn((scope.get(CONTEXT, ""), _subject(scope["path"]))):
                await self._app(scope, receive, send)
        except RefusedError as refused:
            await error_answer(refused, scope)(scope, receive, send)

    @contextlib.asynccontextmanager
    async def _turn(self, subject: tuple[str, str]) -> AsyncIterator[None]:
        if self._waiting.total() >= _WAITING_MAX:
            message = f"{_WAITING_MAX} changes are waiting already"
            raise _busy(message)
        self._waiting[subject] += 1
        try:
            async with contextlib.AsyncExitStack() as held:
                try:
                    async with asyncio.timeout(self._wait_seconds):
                        if subject[1]:
                            await held.enter_async_context(self._subjects[subject])
                        await held.enter_async_context(self._writers)
                except TimeoutError:
                    message = f"the change was not its turn within {self._wait_seconds:g} seconds"
                    raise _busy(message) from None
                yield
        finally:
            self._waiting[subject] -= 1
            if not self._waiting[subject]:
                del self._waiting[subject]
                self._subjects.pop(subject, None)


def _busy(message: str) -> RefusedError:
    hint = "try again, with fewer at once; a schema that is registered already is answered without waiting"
    return RefusedError(Code.BUSY, message, hint, retry_after=_RETRY_SECONDS)


def _subject(path: str) -> str:
    """Return the subject that a change is of, "" where it is of something else."""
    first, _, rest = path.removeprefix("/").partition("/")
    return rest.partition("/")[0] if first == "subjects" else ""


def _only_reads(scope: Scope) -> bool:
    """Tell whether a request looks something up, and has only its question in a body."""
    path = str(scope["path"])
    is_lookup = scope["method"] == "POST" and path.count("/") == 2 and path.startswith("/subjects/")  # noqa: PLR2004 - the path of a subject itself
    return is_lookup or path.startswith(("/compatibility/", "/v1/compatibility/"))

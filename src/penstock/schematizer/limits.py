"""How much and for how long a request may ask: middleware before everything else.

A body is read whole before its route is called, so that no thread ever waits
for a slow client; one that is too large is refused as soon as that is known.
Source: RFC 9110, section 15.5 (408, 413, 414); RFC 6585 (429, 431).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.schematizer.error_answers import error_answer
from penstock.schematizer.refusals import Code, RefusedError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one request; of its headers, names and values together."""

    body_bytes: int = 4 << 20
    url_bytes: int = 8 << 10
    header_bytes: int = 32 << 10
    body_seconds: float = 30.0
    answer_seconds: float = 60.0


class Limited:
    """Refuses what is too large or too slow."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        """Stand before `app`."""
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on with its whole body, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            if self._check_head(scope):
                receive = Replayed(await self._read_body(receive), receive)
        except RefusedError as refused:
            await error_answer(refused, scope)(scope, receive, send)
            return
        await self._app(scope, receive, _Timed(send, self._limits.answer_seconds))

    def _check_head(self, scope: Scope) -> bool:
        """Tell whether there is a body; raises RefusedError for a head that is too large, or says that its body is."""
        limits = self._limits
        url_bytes = len(scope["raw_path"]) + len(scope["query_string"])
        if url_bytes > limits.url_bytes:
            message = f"the URL has {url_bytes} bytes, and {limits.url_bytes} are allowed"
            raise RefusedError(Code.URL_TOO_LONG, message, "use shorter names, or ask for less at once")
        header_bytes, has_body = 0, False
        for name, value in scope["headers"]:
            header_bytes += len(name) + len(value)
            if name == b"content-length":
                # The server has checked that it is a number.
                has_body = True
                self._check_body(int(value))
            elif name == b"transfer-encoding":
                has_body = True
        if header_bytes > limits.header_bytes:
            message = f"the headers have {header_bytes} bytes, and {limits.header_bytes} are allowed"
            raise RefusedError(Code.HEADERS_TOO_LARGE, message, "send fewer or shorter headers")
        return has_body

    def _check_body(self, size_bytes: int) -> None:
        if size_bytes > self._limits.body_bytes:
            message = f"the body has more than the {self._limits.body_bytes} bytes that are allowed"
            raise RefusedError(Code.BODY_TOO_LARGE, message, "send less, or serve with a greater --body-bytes")

    async def _read_body(self, receive: Receive) -> bytes:
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                while True:
                    message = await receive()
                    body += message.get("body", b"")
                    self._check_body(len(body))
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            reason = f"the body was not here after {self._limits.body_seconds:g} s"
            raise RefusedError(Code.REQUEST_TIMEOUT, reason, "send it faster") from None


class Replayed:
    """A body that was read already, then whatever the client does next."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        """Tell `body` first, and then what `receive` does."""
        self._first: Message | None = {"type": "http.request", "body": body, "more_body": False}
        self._receive = receive

    async def __call__(self) -> Message:
        """Return the next message."""
        first, self._first = self._first, None
        return first if first is not None else await self._receive()


async def take_body(receive: Receive) -> tuple[bytes, Receive]:
    """Return a body that `Limited` has read, and what tells it again."""
    body = (await receive()).get("body", b"")
    return body, Replayed(body, receive)


class _Timed:
    """Sends an answer, and gives up on a client that does not take it."""

    def __init__(self, send: Send, seconds: float) -> None:
        self._send = send
        self._seconds = seconds

    async def __call__(self, message: Message) -> None:
        async with asyncio.timeout(self._seconds):
            await self._send(message)

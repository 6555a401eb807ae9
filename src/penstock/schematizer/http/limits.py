"""How much and for how long a request may ask: its head before everything else, its body behind the sign-in.

A body is read whole before its route is called, so that no thread ever waits
for a slow client; one that is too large is refused as soon as that is known.
Source: RFC 9110, section 15.5 (408, 413, 414); RFC 6585 (429, 431).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.schematizer.http.error_answers import error_answer
from penstock.schematizer.refusals import Code, RefusedError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one request; of its headers, names and values together.

    `all_bodies_bytes` is what all the requests that a process answers at once may have sent.
    """

    body_bytes: int = 4 << 20
    all_bodies_bytes: int = 64 << 20
    url_bytes: int = 8 << 10
    header_bytes: int = 32 << 10
    body_seconds: float = 30.0
    answer_seconds: float = 60.0


class Limited:
    """Refuses heads of requests that are too large, and clients that take no answer."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        """Stand before `app`."""
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            self._check_head(scope)
        except RefusedError as refused:
            await error_answer(refused, scope)(scope, receive, send)
            return
        await self._app(scope, receive, _Timed(send, self._limits.answer_seconds))

    def _check_head(self, scope: Scope) -> None:
        limits = self._limits
        url_bytes = len(scope["raw_path"]) + len(scope["query_string"])
        if url_bytes > limits.url_bytes:
            message = f"the URL has {url_bytes} bytes, and {limits.url_bytes} are allowed"
            raise RefusedError(Code.URL_TOO_LONG, message, "use shorter names, or ask for less at once")
        header_bytes = sum(len(name) + len(value) for name, value in scope["headers"])
        if header_bytes > limits.header_bytes:
            message = f"the headers have {header_bytes} bytes, and {limits.header_bytes} are allowed"
            raise RefusedError(Code.HEADERS_TOO_LARGE, message, "send fewer or shorter headers")


class Bodies:
    """Reads the bodies of requests, and bounds what is held of all of them. For use from one thread."""

    def __init__(self, limits: Limits) -> None:
        """Begin with nothing held."""
        self._limits = limits
        self._held_bytes = 0

    async def read(self, scope: Scope, receive: Receive) -> bytes | None:
        """Return the whole body, which is held until `let_go`; None where a request has none.

        Raises RefusedError for one that is too large, too slow, or too much beside those of others.
        """
        headers = dict(scope["headers"])
        if b"content-length" not in headers and b"transfer-encoding" not in headers:
            return None
        # The server has checked that it is a number.
        self._check(int(headers.get(b"content-length", b"0")))
        body = bytearray()
        try:
            await self._read_into(body, receive)
        except BaseException:
            self.let_go(body)
            raise
        return bytes(body)

    def let_go(self, body: bytes | bytearray) -> None:
        """Hold a body no more."""
        self._held_bytes -= len(body)

    async def _read_into(self, body: bytearray, receive: Receive) -> None:
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                while True:
                    message = await receive()
                    piece = message.get("body", b"")
                    self._check(len(body) + len(piece))
                    self._held_bytes += len(piece)
                    body += piece
                    if self._held_bytes > self._limits.all_bodies_bytes:
                        reason = "this registry is busy with other requests that have large bodies"
                        raise RefusedError(Code.BUSY, reason, "try again", retry_after=1)
                    if not message.get("more_body", False):
                        return
        except TimeoutError:
            reason = f"the body was not here after {self._limits.body_seconds:g} s"
            raise RefusedError(Code.REQUEST_TIMEOUT, reason, "send it faster") from None

    def _check(self, size_bytes: int) -> None:
        if size_bytes > self._limits.body_bytes:
            message = f"the body has more than the {self._limits.body_bytes} bytes that are allowed"
            raise RefusedError(Code.BODY_TOO_LARGE, message, "send less, or serve with a greater --body-bytes")


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
    """Return a body that `Bodies` has read, and what tells it again."""
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

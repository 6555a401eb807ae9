"""A connection that does not wait for ever for the head of a request, nor takes one without end.

Uvicorn bounds how long a connection may be idle between two requests, but not
how slowly a client may send the first bytes, nor the lines of a head; and its
faster parser not how many lines there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from penstock.schematizer.http.error_answers import error_answer
from penstock.schematizer.refusals import Code, RefusedError

if TYPE_CHECKING:
    import asyncio

_HEAD_SECONDS = 15.0
_HEAD_BYTES_MAX = 64 << 10


class PatientProtocol(HttpToolsProtocol):
    """Uvicorn's protocol, which closes connections whose request does not come."""

    head_seconds = _HEAD_SECONDS

    def __init__(self, *given: Any, **named: Any) -> None:  # noqa: ANN401 - uvicorn's own, handed on
        """Make the protocol of one connection."""
        super().__init__(*given, **named)
        self._deadline: asyncio.TimerHandle | None = None
        self._head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take bytes; wait for more if they are only a part of a request's head."""
        before = self.cycle
        super().data_received(data)
        is_new = self.cycle is not before
        if is_new:
            self._stop_waiting()
            return
        if getattr(before, "response_complete", True) and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > _HEAD_BYTES_MAX:
                self.send_400_response("the head of the request is too long")
                return
        if self._deadline is None and getattr(before, "response_complete", True):
            self._wait()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, in the form of every other error, and hang up."""
        refused = RefusedError(Code.INVALID_REQUEST, msg, "send HTTP/1.1, with a head of less than 64 KiB")
        body = bytes(error_answer(refused, {"path": ""}).body)
        head = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n"
        self.transport.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._deadline = self.loop.call_later(self.head_seconds, self.transport.close)

    def _stop_waiting(self) -> None:
        self._head_bytes = 0
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

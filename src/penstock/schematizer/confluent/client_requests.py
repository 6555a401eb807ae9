"""Requests as some of Confluent's clients send them, made into those that the routes know.

Source: RFC 9110, section 9.3.2 (HEAD is answered as GET, without the content);
Confluent Schema Registry API reference, "Content types": a body may be called
`application/octet-stream`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_TYPE = b"content-type"
_BYTES = b"application/octet-stream"


class ClientRequests:
    """Middleware that lets HEAD be answered, and reads bodies of bytes as JSON."""

    def __init__(self, app: ASGIApp) -> None:
        """Stand before `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand on the request."""
        if scope["type"] == "http" and any(_is_bytes(*header) for header in scope["headers"]):
            headers = [(_TYPE, b"application/json") if _is_bytes(*each) else each for each in scope["headers"]]
            scope = {**scope, "headers": headers}
        if scope["type"] == "http" and scope["method"] == "HEAD":

            async def send_head(message: Message) -> None:
                await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

            await self._app({**scope, "method": "GET"}, receive, send_head)
            return
        await self._app(scope, receive, send)


def _is_bytes(name: bytes, value: bytes) -> bool:
    return name == _TYPE and value.partition(b";")[0].strip().lower() == _BYTES

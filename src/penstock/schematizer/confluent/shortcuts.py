"""The two requests that make up nearly all of a registry's work, answered without the framework.

A schema that was asked for lately, and a registration that was answered lately
and changes nothing: the answer is the one that the route gave. Everything else
goes on to the routes, which put into the caches what is found here.

This stands behind every other middleware: who may ask is decided before.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from penstock.schematizer.confluent_paths import MEDIA_TYPE
from penstock.schematizer.http.limits import take_body
from penstock.schematizer.ids import parse_id
from penstock.schematizer.registry.known_answers import Known, KnownAnswer

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from penstock.schematizer.registry.known_answers import KnownAnswers
    from penstock.schematizer.registry.schema_cache import SchemaCache

_KNOWN = "penstock_known"
_SCHEMAS = b"/schemas/ids/"
_TABLES = b"/v1/tables"
_SUBJECTS, _VERSIONS = b"/subjects/", b"/versions"
_JSON = b"application/json"
_BODY_BYTES_MAX = 1 << 20


def remember(scope: Scope, known: Known) -> None:
    """Say that the answer to a request holds for as long as `known` does."""
    scope[_KNOWN] = known


class Shortcuts:
    """Middleware that answers what is known."""

    def __init__(self, app: ASGIApp, schemas: SchemaCache, registrations: KnownAnswers) -> None:
        """Stand before `app`."""
        self._app = app
        self._schemas = schemas
        self._registrations = registrations

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on."""
        if scope["type"] == "http":
            path = scope["raw_path"]
            if scope["method"] == "GET" and path.startswith(_SCHEMAS):
                body = self._find_schema(path, scope["query_string"])
                if body is not None:
                    await _answer(send, body, MEDIA_TYPE.encode())
                    return
            elif scope["method"] == "POST" and _is_registration(path):
                await self._register(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _find_schema(self, path: bytes, query: bytes) -> bytes | None:
        try:
            schema_id = parse_id(path[len(_SCHEMAS) :].decode("latin-1"))
        except ValueError:
            return None
        # What a client says of the subject changes nothing; whatever else it says is the route's to read.
        if query and not all(part.startswith(b"subject=") or part == b"fetchMaxId=false" for part in query.split(b"&")):
            return None
        return self._schemas.get(schema_id)

    async def _register(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        if not _is_short(headers.get(b"content-length", b"")):
            await self._app(scope, receive, send)
            return
        body, receive = await take_body(receive)
        parts = (scope["raw_path"], scope["query_string"], headers.get(b"content-type", b""), body)
        request = hashlib.sha256(b"\0".join(parts)).digest()
        known = await self._registrations.get(request)
        if known is not None:
            own_face = scope["raw_path"] == _TABLES
            await _answer(send, known, _JSON if own_face else MEDIA_TYPE.encode())
            return
        heard = _Heard(send)
        await self._app(scope, receive, heard)
        if _KNOWN in scope and heard.status == 200:  # noqa: PLR2004 - the status of success
            self._registrations.put(request, KnownAnswer(scope[_KNOWN], heard.body))


class _Heard:
    """Hands an answer on, and keeps what it was."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0
        self.body = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["type"] == "http.response.body":
            self.body += message.get("body", b"")
        await self._send(message)


def _is_registration(path: bytes) -> bool:
    return path == _TABLES or (path.startswith(_SUBJECTS) and path.endswith(_VERSIONS))


def _is_short(length: bytes) -> bool:
    return length.isdigit() and len(length) <= len(str(_BODY_BYTES_MAX)) and int(length) <= _BODY_BYTES_MAX


async def _answer(send: Send, body: bytes, media_type: bytes) -> None:
    headers = [(b"content-length", str(len(body)).encode()), (b"content-type", media_type)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})

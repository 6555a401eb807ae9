"""The registry over HTTP."""

from __future__ import annotations

import time
import weakref
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

import httpx

from penstock.core.avro.schemas import key_schema, value_schema
from penstock.core.errors import PenstockError, TableStoppedError, UnavailableError, UsageError
from penstock.ports.registry import RegisteredTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.core.tables import TableId, TableSchema

_ATTEMPTS = 5
_FIRST_PAUSE_SECONDS = 0.1
_TIMEOUT_SECONDS = 10.0
_REFUSES_THE_TABLE = frozenset({HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY})

JsonBody: TypeAlias = "Mapping[str, str | None]"


class HttpRegistry:
    """A client of the Schematizer, with what it was told kept in memory.

    It travels as its URL: a copy in another process opens its own connections
    when it is first used. Any number of threads may share one.
    """

    def __init__(self, url: str, timeout_seconds: float = _TIMEOUT_SECONDS) -> None:
        """Name the service; nothing is sent yet. Raises UsageError for what is not an HTTP URL."""
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            message = f"{url!r} is not the URL of a schematizer"
            raise UsageError(message, "write it like http://127.0.0.1:8081")
        self._url = url.rstrip("/")
        self._timeout_seconds = timeout_seconds
        self._client = httpx.Client(base_url=self._url, timeout=timeout_seconds)
        # Whoever holds a registry knows the port, which has nothing to close: connections end with their holder.
        self._finalizer = weakref.finalize(self, self._client.close)
        # A table's newest shape only: one that comes back after another must be asked for again.
        self._tables: dict[tuple[str, TableId], RegisteredTable] = {}
        self._schemas: dict[int, str] = {}

    def __reduce__(self) -> tuple[type[HttpRegistry], tuple[str, float]]:
        """Travel without connections and caches."""
        return HttpRegistry, (self._url, self._timeout_seconds)

    def register(self, source: str, schema: TableSchema) -> RegisteredTable:
        """Register one table of `source`.

        Register a table's shapes in the order in which it took them: each answer
        is where the table goes on from there. Raises UnavailableError when the
        registry cannot be reached, TableStoppedError when it refuses the table.
        """
        known = self._tables.get((source, schema.table))
        if known is not None and known.schema == schema:
            return known
        body = {"namespace": source, "key_schema": key_schema(schema), "value_schema": value_schema(schema)}
        response = self._send("POST", "/v1/tables", body)
        if response.status_code in _REFUSES_THE_TABLE:
            message, hint = _refusal(response)
            raise TableStoppedError(str(schema.table), "", "the registration of its schema", message, hint)
        registered = _registered(schema, _object(self._checked(response)))
        self._tables[source, schema.table] = registered
        return registered

    def value_schema(self, schema_id: int) -> str:
        """Return the Avro schema (JSON text) with this id.

        Raises PenstockError if there is none, and UnavailableError when the
        registry cannot be reached; a schema that was asked for once is known for good.
        """
        known = self._schemas.get(schema_id)
        if known is None:
            response = self._send("GET", f"/schemas/ids/{schema_id}")
            known = str(_object(self._checked(response)).get("schema"))
            self._schemas[schema_id] = known
        return known

    def close(self) -> None:
        """Drop the connections. Safe to call twice."""
        self._finalizer()

    def _send(self, method: str, path: str, body: JsonBody | None = None) -> httpx.Response:
        """Ask a few times, waiting longer each time, while the registry is away. Every request may be repeated."""
        reason = ""
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(_FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))
            try:
                response = self._client.request(method, path, json=body)
            except httpx.TransportError as error:
                reason = str(error) or type(error).__name__
                continue
            if not response.is_server_error:
                return response
            reason = f"it answers {response.status_code}: {_refusal(response)[0]}"
        message = f"the schematizer at {self._url} cannot be used: {reason}"
        raise UnavailableError(message, "check that it runs, that its database does, and that its URL is right")

    def _checked(self, response: httpx.Response) -> httpx.Response:
        if response.is_success:
            return response
        reason, hint = _refusal(response)
        message = f"the schematizer at {self._url} says {response.status_code}: {reason}"
        raise PenstockError(message, hint)


def _registered(schema: TableSchema, answer: Mapping[str, object]) -> RegisteredTable:
    topic, key_id, value_id = answer.get("topic"), answer.get("key_schema_id"), answer.get("value_schema_id")
    follows = answer.get("follows")
    if not isinstance(topic, str) or not isinstance(value_id, int) or not isinstance(follows, str):
        raise _foreign(answer)
    if not isinstance(key_id, int | None):
        raise _foreign(answer)
    return RegisteredTable(schema, topic, key_id, value_id, follows)


def _object(response: httpx.Response) -> Mapping[str, object]:
    try:
        answer = response.json()
    except ValueError as error:
        raise _foreign(response.text) from error
    if not isinstance(answer, dict):
        raise _foreign(answer)
    return answer


def _refusal(response: httpx.Response) -> tuple[str, str]:
    """Return the message and the hint of an error, or what else there is."""
    try:
        answer = _object(response)
    except PenstockError:
        return response.text[:200], "check that the URL is that of a schematizer"
    message = str(answer.get("message", response.reason_phrase))
    return message, str(answer.get("hint", "see the schematizer's log"))


def _foreign(answer: object) -> PenstockError:
    message = f"what answers is no schematizer: {str(answer)[:200]}"
    return PenstockError(message, "check that the URL is that of a schematizer")

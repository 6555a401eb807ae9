"""The registry over HTTP, and what is known of it while it is away."""

from __future__ import annotations

import json
import time
import weakref
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote, urlencode

import httpx

from penstock.adapters.registry.access import RegistryAccess
from penstock.adapters.registry.schema_file import SchemaFile
from penstock.core.avro.schemas import key_schema, value_schema
from penstock.core.errors import PenstockError, TableStoppedError, UnavailableError
from penstock.core.spolts.key_schemas import require_same_key
from penstock.ports.registry import RegisteredTable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from penstock.core.tables import TableId, TableSchema

_ATTEMPTS = 5
_FIRST_PAUSE_SECONDS = 0.1
_TIMEOUT_SECONDS = 10.0
# Once it was found away, what is on disk is taken from there without asking first, for so long.
_AWAY_SECONDS = 5.0
_REFUSES_THE_TABLE = frozenset({HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY})

_UNKNOWN_TOPIC = "unknown_topic"
_SIGN_IN = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})

JsonBody: TypeAlias = "Mapping[str, str | None]"


class HttpRegistry:
    """A client of the Schematizer, with what it was told kept in memory, and schemas by id on disk as well.

    It travels as its URL, the names of its secrets and the place on disk: a copy
    in another process opens its own connections when it is first used. Any number
    of threads may share one.

    A schema never changes, so one that is on disk stands in while the registry is
    away, in a new process too. While it is there it is asked, once for each id and
    process: if it tells another schema than it told before, it was exchanged, and
    what was written with the old one must not be read with the new one.

    Registrations are known in memory alone. A table's shape that comes back after
    another opens a new topic, and only the registry knows what others registered
    since this process began.
    """

    def __init__(
        self,
        access: RegistryAccess | str,
        timeout_seconds: float = _TIMEOUT_SECONDS,
        cache_directory: Path | None = None,
    ) -> None:
        """Name the service, by its URL if nobody signs in there, and where schemas are kept (nowhere for None).

        Nothing is sent yet. Raises UsageError for what is not an HTTP URL, and for
        secrets that are not there.
        """
        self._access = access if isinstance(access, RegistryAccess) else RegistryAccess(access)
        self._url = self._access.url.rstrip("/")
        self._timeout_seconds = timeout_seconds
        self._cache_directory = cache_directory
        self._file = SchemaFile(cache_directory, self._url) if cache_directory is not None else None
        self._client = self._access.open_client(timeout_seconds)
        # Whoever holds a registry knows the port, which has nothing to close: connections end with their holder.
        self._finalizer = weakref.finalize(self, self._client.close)
        # A table's newest shape only: one that comes back after another must be asked for again.
        self._tables: dict[tuple[str, TableId], RegisteredTable] = {}
        self._schemas: dict[int, str] = {}
        self._subjects: dict[tuple[str, str], int] = {}
        self._away_until = 0.0

    def __reduce__(self) -> tuple[type[HttpRegistry], tuple[RegistryAccess, float, Path | None]]:
        """Travel without connections and what is in memory."""
        return HttpRegistry, (self._access, self._timeout_seconds, self._cache_directory)

    def register(self, source: str, schema: TableSchema) -> RegisteredTable:
        """Register one table of `source`.

        Register a table's shapes in the order in which it took them: each answer
        is where the table goes on from there. Raises UnavailableError when the
        registry cannot be reached, TableStoppedError when it refuses the table.
        """
        known = self._tables.get((source, schema.table))
        if known is not None and known.schema == schema:
            return known
        text = value_schema(schema)
        body = {"namespace": source, "key_schema": key_schema(schema), "value_schema": text}
        response = self._send("POST", "/v1/tables", body)
        if response.status_code in _REFUSES_THE_TABLE:
            message, hint = _refusal(response)
            raise TableStoppedError(str(schema.table), "", "the registration of its schema", message, hint)
        registered = _registered(schema, _object(self._checked(response)))
        self._keep(registered.value_schema_id, text)
        self._tables[source, schema.table] = registered
        return registered

    def register_subject(self, subject: str, schema: str) -> int:
        """Register an Avro schema under a subject of the Confluent face; see ports/subjects.Subjects."""
        known = self._subjects.get((subject, schema))
        if known is not None:
            return known
        response = self._send("POST", f"/subjects/{quote(subject, safe='')}/versions", {"schema": schema})
        if response.status_code in _REFUSES_THE_TABLE:
            message, hint = _refusal(response)
            text = f"the schematizer takes no such schema for {subject}: {message}"
            raise PenstockError(
                text, f"write with a schema that goes with those before it, or to another topic; {hint}"
            )
        schema_id = _object(self._checked(response)).get("id")
        if not isinstance(schema_id, int):
            raise _foreign(schema_id)
        self._subjects[subject, schema] = schema_id
        return schema_id

    def register_key(self, subject: str, schema: str) -> int:
        """Register the schema of a table's keys; see ports/subjects.Subjects."""
        if (subject, schema) not in self._subjects:
            response = self._checked(self._send("GET", f"/schemas?{urlencode({'subjectPrefix': subject})}"))
            found = response.json()
            if not isinstance(found, list):
                raise _foreign(found)
            require_same_key(subject, [each["schema"] for each in found if each["subject"] == subject], schema)
        return self.register_subject(subject, schema)

    def value_schema(self, schema_id: int) -> str:
        """Return the Avro schema (JSON text) with this id.

        Raises PenstockError if there is none, or another one than before, and
        UnavailableError when the registry cannot be reached and never told it.
        """
        known = self._schemas.get(schema_id)
        if known is not None:
            return known
        on_disk = self._file.get(schema_id) if self._file is not None else None
        if on_disk is not None and time.monotonic() < self._away_until:
            return on_disk
        try:
            response = self._send("GET", f"/schemas/ids/{schema_id}", attempts=_ATTEMPTS if on_disk is None else 1)
        except UnavailableError as error:
            self._away_until = time.monotonic() + _AWAY_SECONDS
            if on_disk is not None:
                return on_disk
            message = f"schema {schema_id} was never read here, and {error.message}"
            raise UnavailableError(message, error.hint) from error
        self._away_until = 0.0
        text = str(_object(self._checked(response)).get("schema"))
        self._keep(schema_id, text)
        return text

    def read(self, *names: str, **asked: str) -> Mapping[str, object] | None:
        """Return what the service has at a path of /v1; None for a topic that it does not know.

        Raises UnavailableError when the registry cannot be reached, PenstockError when it refuses the question.
        """
        path = "/v1/" + "/".join(quote(name, safe="") for name in names)
        response = self._send("GET", f"{path}?{urlencode(asked)}" if asked else path)
        if response.status_code == HTTPStatus.NOT_FOUND and _object(response).get("code") == _UNKNOWN_TOPIC:
            return None
        return _object(self._checked(response))

    def _keep(self, schema_id: int, text: str) -> None:
        """Keep a schema that the registry told or took. Raises PenstockError if it told another one before."""
        if self._file is not None:
            before = self._file.get(schema_id)
            if before is None:
                self._file.put(schema_id, text)
            elif before != text and json.loads(before) != json.loads(text):
                message = f"the schematizer at {self._url} has another schema {schema_id} than it had before"
                hint = (
                    "it lost its data, or another one took its place: restore its database; "
                    f"if it was exchanged on purpose, for new topics too, delete {self._file.path}"
                )
                raise PenstockError(message, hint)
        self._schemas[schema_id] = text

    def close(self) -> None:
        """Drop the connections. Safe to call twice."""
        self._finalizer()

    def _send(self, method: str, path: str, body: JsonBody | None = None, attempts: int = _ATTEMPTS) -> httpx.Response:
        """Ask a few times, waiting longer each time, while the registry is away. Every request may be repeated."""
        reason = ""
        for attempt in range(attempts):
            if attempt:
                time.sleep(_FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))
            try:
                response = self._client.request(method, path, json=body)
            except httpx.TransportError as error:
                reason = str(error) or type(error).__name__
                continue
            if not response.is_server_error and response.status_code != HTTPStatus.TOO_MANY_REQUESTS:
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
    if response.status_code in _SIGN_IN:
        return message, "check schematizer.user, password_env and token_env, and the user's roles there"
    return message, str(answer.get("hint", "read the Schematizer's log"))


def _foreign(answer: object) -> PenstockError:
    message = f"what answers is no schematizer: {str(answer)[:200]}"
    return PenstockError(message, "check that the URL is that of a schematizer")

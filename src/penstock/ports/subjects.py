"""The registry of schemas for topics that people name: a subject for a topic's keys, and one for its values."""

from __future__ import annotations

from typing import Protocol


class Subjects(Protocol):
    """Registration is idempotent: the same text under the same subject gives the same id for ever."""

    def register_subject(self, subject: str, schema: str) -> int:
        """Register an Avro schema (JSON text) under `subject`, and return its id.

        Raises PenstockError when the registry refuses it, because readers of the
        schemas before it could not read on for example, and UnavailableError when it
        cannot be reached.
        """
        ...

    def register_key(self, subject: str, schema: str) -> int:
        """Register the schema of a table's keys, for keys that have its id in their bytes.

        Raises what `register_subject` does, and PenstockError where keys of the table
        were last written with another one: see core/spolts/key_schemas.
        """
        ...

    def value_schema(self, schema_id: int) -> str:
        """The schema (JSON text) with this id; PenstockError if there is none."""
        ...

    def close(self) -> None:
        """Drop the connections. Safe to call twice."""
        ...

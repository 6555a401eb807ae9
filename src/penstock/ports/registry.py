"""The registry that gives every table its schemas and its topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from penstock.core.tables import TableSchema


@dataclass(frozen=True, slots=True)
class RegisteredTable:
    """A table schema with the ids and the topic it was given.

    `key_schema_id` is None where the table has no primary key. `follows` is the
    topic that this one took over from, "" if it is the table's first.
    """

    schema: TableSchema
    topic: str
    key_schema_id: int | None
    value_schema_id: int
    follows: str


class Registry(Protocol):
    """Registration is idempotent: the same table gives the same answer for ever."""

    def register(self, source: str, schema: TableSchema) -> RegisteredTable:
        """Register one table of `source`; its `before` and `after` rows have `schema`.

        Raises UnavailableError when the registry cannot be reached, and
        TableStoppedError when it refuses the table.
        """
        ...

    def value_schema(self, schema_id: int) -> str:
        """The Avro schema (JSON text) of an envelope, by id; PenstockError if there is none."""
        ...

    def close(self) -> None:
        """Drop the connections. Safe to call twice."""
        ...

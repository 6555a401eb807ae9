"""The schemas topic: what a capture tells the rest of the pipeline about its tables."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from penstock.core.tables import TableId
from penstock.core.topic_fingerprints import read_own

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.core.changes import MessageFormat

_VERSION = 2


class SchemaChangeKind(StrEnum):
    """What a statement made of a table.

    SCHEMA    it has this schema from here on, and the rows that it had
    CREATE    it begins here, with this schema and without rows: what had its name before is gone
    TRUNCATE  it has no rows from here on, and the schema that it had
    DROP      it ends here: it was dropped, or got a name that is not carried
    RENAME    it has the rows of another table, and this schema: see `moves`
    """

    SCHEMA = "schema"
    CREATE = "create"
    TRUNCATE = "truncate"
    DROP = "drop"
    RENAME = "rename"


class Move(NamedTuple):
    """The rows of `origin` (`schema.name`) are those of `table`, which has `schema_id`."""

    origin: str
    table: str
    schema_id: int


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """What became of `table` at `order` in the source's log; it has `value_schema_id` and lives in `topic`.

    It is committed in the same Kafka transaction as the position it was made at,
    before the first change behind it. `order` is the (file number, offset, row)
    of the statement, which no other statement on this table has. `follows` is the
    topic that `topic` took over from, "" if it is the table's first. `file` is the
    log's name, and `timestamp_ms` when the statement was committed; "" and 0 in
    what older releases wrote. `moves` are all that the statement made at once: each
    of its schema-change events has them, and an origin that gets no rows has none then.
    `column_renames` are pairs of a column's old and its new name, given all at once.
    `format` is how the messages of `topic` are written. Where the table begins anew, as that of
    a join does with TRUNCATE, too, the partitions of `topic` ended at `begins`, whatever lies before those offsets.

    For the link `begins_for` the table begins here, without rows, as with CREATE: its rows
    come in a snapshot. For the link `ends_for` that snapshot ended before its last row, and the
    table is left as it is until it begins anew. For everybody else the event is what `kind` says.
    """

    source: str
    table: TableId
    topic: str
    follows: str
    key_schema_id: int | None
    value_schema_id: int
    partitions: int
    order: tuple[int, int, int]
    kind: SchemaChangeKind = SchemaChangeKind.SCHEMA
    file: str = ""
    timestamp_ms: int = 0
    moves: tuple[Move, ...] = ()
    column_renames: tuple[tuple[str, str], ...] = ()
    format: MessageFormat = "avro"
    begins: tuple[int, ...] = ()
    begins_for: str = ""
    ends_for: str = ""

    @property
    def for_all(self) -> SchemaChange:
        """What it says to everybody."""
        return replace(self, begins_for="", ends_for="")

    def to_json(self) -> bytes:
        """The message as it stands in the schemas topic."""
        fields = {"version": _VERSION, **asdict(self), "table": str(self.table)}
        # What older releases read.
        if self.format == "avro":
            del fields["format"]
        if not any(self.begins):
            del fields["begins"]
        return json.dumps(without_links(fields)).encode()

    @classmethod
    def from_json(cls, message: bytes) -> SchemaChange:
        """Read a message of the schemas topic, of version 1 too; ValueError for a version we do not know."""
        fields = json.loads(message)
        version = fields.pop("version", None)
        if version not in {1, _VERSION}:
            text = f"schema-change event of version {version}; this release reads versions 1 to {_VERSION}"
            raise ValueError(text)
        fields["table"] = TableId.parse(fields["table"])
        fields["order"] = tuple(fields["order"])
        fields["kind"] = SchemaChangeKind(fields.get("kind", SchemaChangeKind.SCHEMA))
        fields["moves"] = tuple(Move(*move) for move in fields.get("moves", ()))
        fields["column_renames"] = tuple((old, new) for old, new in fields.get("column_renames", ()))
        fields["begins"] = tuple(fields.get("begins", ()))
        return cls(**fields)


def without_links(fields: Mapping[str, object]) -> Mapping[str, object]:
    """Leave out the links that a message names where it names none, as older releases know no such fields."""
    return {key: value for key, value in fields.items() if value or key not in {"begins_for", "ends_for"}}


def read_schema_change(topic: str, offset: int, value: bytes) -> SchemaChange:
    """Read the message at `offset` of the schemas topic; PositionError if it is none of ours."""
    return read_own(topic, offset, value, SchemaChange.from_json)

"""The batch message: what the S3 spolt says about each file it wrote."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Self, TypeAlias

from penstock.core.csv_dialect import CsvDialect
from penstock.core.schema_changes import Move, SchemaChangeKind, without_links
from penstock.core.tables import TableId
from penstock.core.topic_fingerprints import read_own

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

BatchMessages: TypeAlias = "Sequence[tuple[int, bytes]]"
"""Offsets of the batch topic and the messages there, in order."""

ReadBatches: TypeAlias = "Callable[[int, int], Iterable[BatchMessages]]"
"""Reads the batch topic from one offset to before another."""

_VERSION = 4
_WITHOUT_CONTENT = 3
"""The version of messages without `content`: releases that do not know it read these."""
_DIGEST_LETTERS = 32
_TOPIC = "the batch topic"


@dataclass(frozen=True, slots=True)
class Batch:
    """One file of consecutive messages of one topic partition with one schema.

    `start_offset` is the first Kafka offset the file speaks for, `end_offset`
    the first that it does not: `[start_offset, end_offset)` follows on the
    batch before it with no hole, although control records and messages of other
    schemas may lie inside. `path` is the key in the object store; a batch with
    `rows == 0` has no file (`path == ""`): it announces what `kind` says, and all
    rows before that place in the source's log come in batches before it, all rows
    behind that place in batches behind it. `first_order` and `last_order` are the
    (file number, offset, row) of the first and the last change in the source's
    log, or of what is announced, in the log file `file`. `last_timestamp_ms` is
    the commit time of the newest change. `moves` are what the announced statement
    moved from name to name; the rows before it of all tables in there are before it.
    `column_renames` are (old, new) names of columns of an announced schema. `begins_for` and
    `ends_for` are links to which it says something else: see `SchemaChange`.

    `format` is "parquet" or "csv", `compression` "zstd" or "gzip", `dialect` how a
    CSV is to be read; `size_bytes` and `crc32` (of all of its bytes, as zlib counts
    it) tell a file that was damaged. `written_at_ms` is when it was written, by the
    clock of whoever did. Messages of older versions have none of these three.

    A small file may be in the message itself, as `content`. Then none is in the object
    store, and `path` is only its name.
    """

    source: str
    table: TableId
    topic: str
    partition: int
    start_offset: int
    end_offset: int
    rows: int
    path: str
    size_bytes: int
    format: str
    schema_id: int
    first_order: tuple[int, int, int]
    last_order: tuple[int, int, int]
    last_timestamp_ms: int
    kind: SchemaChangeKind = SchemaChangeKind.SCHEMA
    file: str = ""
    moves: tuple[Move, ...] = ()
    column_renames: tuple[tuple[str, str], ...] = ()
    compression: str = "zstd"
    dialect: CsvDialect | None = None
    crc32: int | None = None
    written_at_ms: int = 0
    begins_for: str = ""
    ends_for: str = ""
    content: bytes | None = None

    @property
    def is_stored(self) -> bool:
        """Whether it has a file in the object store."""
        return bool(self.path) and self.content is None

    @property
    def file_place(self) -> str:
        """Where its file is, as errors say it."""
        return self.path if self.content is None else f"{self.path} in its batch message"

    def seen_by(self, link: str) -> Batch:
        """What it says to `link`: that the table begins, or what it says to everybody."""
        kind = SchemaChangeKind.CREATE if self.begins_for == link else self.kind
        return replace(self, kind=kind, begins_for="") if self.begins_for else self

    def to_json(self) -> bytes:
        """The message as it stands in the batch topic."""
        fields = {"version": _WITHOUT_CONTENT, **asdict(self), "table": str(self.table)}
        del fields["content"]
        if self.content is not None:
            fields |= {"version": _VERSION, "content": base64.b64encode(self.content).decode()}
        return json.dumps(without_links(fields)).encode()

    @classmethod
    def from_json(cls, message: bytes) -> Batch:
        """Read a message of the batch topic, of older versions too; ValueError for a version we do not know."""
        fields = json.loads(message)
        version = fields.pop("version", None)
        if version not in range(1, _VERSION + 1):
            text = f"batch message of version {version}; this release reads versions 1 to {_VERSION}"
            raise ValueError(text)
        fields["table"] = TableId.parse(fields["table"])
        fields["first_order"] = tuple(fields["first_order"])
        fields["last_order"] = tuple(fields["last_order"])
        fields["kind"] = SchemaChangeKind(fields.get("kind", SchemaChangeKind.SCHEMA))
        fields["moves"] = tuple(Move(*move) for move in fields.get("moves", ()))
        fields["column_renames"] = tuple((old, new) for old, new in fields.get("column_renames", ()))
        dialect = fields.get("dialect")
        fields["dialect"] = None if dialect is None else CsvDialect.from_mapping(dialect)
        if "content" in fields:
            fields["content"] = base64.b64decode(fields["content"], validate=True)
        return cls(**fields)


class BatchOffset(int):
    """An offset of the batch topic up to which a target has loaded.

    `message` tells the one before it from any other that may come to be there, "" where that is not known: it names
    the offset, so that of an offset that somebody set back it says nothing.
    """

    message: str

    def __new__(cls, offset: int, message: str = "") -> Self:
        """Make one of a plain offset."""
        made = super().__new__(cls, offset)
        made.message = message if message.startswith(f"{offset}:") else ""
        return made

    @classmethod
    def behind(cls, offset: int, message: bytes) -> Self:
        """The one behind the `message` at `offset`."""
        return cls(offset + 1, f"{offset + 1}:{hashlib.sha256(message).hexdigest()[:_DIGEST_LETTERS]}")

    @classmethod
    def of(cls, offset: int) -> Self:
        """What is known of `offset`, which may be a plain one."""
        return cls(offset, offset.message if isinstance(offset, BatchOffset) else "")


def read_batch(offset: int, message: bytes) -> Batch:
    """Read the message at `offset` of the batch topic; PositionError if it is none of ours."""
    return read_own(_TOPIC, offset, message, Batch.from_json)

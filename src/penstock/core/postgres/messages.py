"""The messages of pgoutput.

Source: PostgreSQL 18 documentation, "Logical Replication Message Formats".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, TypeAlias

EPOCH_US: Final = 946_684_800_000_000
"""2000-01-01, from which PostgreSQL counts, in microseconds since 1970."""


class Unchanged(Enum):
    """What stands for a value that is stored apart (TOAST) and that an UPDATE did not touch: the log lacks it."""

    UNCHANGED = "u"


UNCHANGED = Unchanged.UNCHANGED
Cell: TypeAlias = bytes | Unchanged | None
"""A value as the server prints it, None for NULL."""
Cells: TypeAlias = tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Began:
    """BEGIN of a transaction, which is sent whole when it is committed: `commit_lsn` is where its COMMIT begins."""

    commit_lsn: int
    timestamp_us: int
    xid: int


@dataclass(frozen=True, slots=True)
class Committed:
    """COMMIT: `end_lsn` is behind it."""

    commit_lsn: int
    end_lsn: int
    timestamp_us: int


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """A column: its type's OID and modifier (-1 for none), and whether it is of the replica identity."""

    name: str
    type_oid: int
    modifier: int
    in_identity: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """A table, as it is for the rows that follow.

    `identity` is its REPLICA IDENTITY: of the primary key (`d`), nothing (`n`), the whole row (`f`), an index (`i`).
    """

    oid: int
    schema: str
    name: str
    identity: Literal["d", "n", "f", "i"]
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True, slots=True)
class TypeNamed:
    """A type that is not PostgreSQL's own; for a domain the name is that of the type below it."""

    oid: int
    schema: str
    name: str


@dataclass(frozen=True, slots=True)
class Inserted:
    """A new row."""

    oid: int
    new: Cells


@dataclass(frozen=True, slots=True)
class Updated:
    """A changed row. `old` is None where neither the key has changed nor the identity is the whole row."""

    oid: int
    old: Cells | None
    is_whole: bool
    new: Cells


@dataclass(frozen=True, slots=True)
class Deleted:
    """A row that is gone: the whole of it, or NULL but for its identity."""

    oid: int
    old: Cells
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Truncated:
    """Tables that have no rows any more."""

    oids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OtherMessage:
    """A logical message, where a transaction comes from, or that one was rolled back: nothing for us."""


PgoutputMessage: TypeAlias = (
    Began | Committed | Relation | TypeNamed | Inserted | Updated | Deleted | Truncated | OtherMessage
)

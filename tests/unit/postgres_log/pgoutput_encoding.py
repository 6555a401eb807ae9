"""pgoutput's messages as PostgreSQL writes them, for tests."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from penstock.core.postgres.messages import UNCHANGED, Cells, Relation, RelationColumn

if TYPE_CHECKING:
    from collections.abc import Sequence

INT4, TEXT, NUMERIC = 23, 25, 1700


def relation(
    columns: Sequence[tuple[str, int]], key: Sequence[str] = ("id",), *, oid: int = 16400, identity: str = "d"
) -> Relation:
    """A table public.t with columns of these names and type OIDs."""
    listed = tuple(RelationColumn(name, type_, -1, name in key) for name, type_ in columns)
    return Relation(oid, "public", "t", identity, listed)  # type: ignore[arg-type]


def encode_begin(lsn: int, xid: int = 7, timestamp_us: int = 1_000_000) -> bytes:
    return b"B" + struct.pack(">QqI", lsn, timestamp_us, xid)


def encode_commit(lsn: int, end: int) -> bytes:
    return b"C\0" + struct.pack(">QQq", lsn, end, 1_000_000)


def encode_relation(table: Relation) -> bytes:
    head = b"R" + struct.pack(">I", table.oid) + _text(table.schema) + _text(table.name) + table.identity.encode()
    columns = [
        bytes([c.in_identity]) + _text(c.name) + struct.pack(">Ii", c.type_oid, c.modifier) for c in table.columns
    ]
    return head + struct.pack(">H", len(columns)) + b"".join(columns)


def encode_insert(oid: int, new: Cells) -> bytes:
    return b"I" + struct.pack(">I", oid) + b"N" + _cells(new)


def encode_update(oid: int, old: Cells | None, new: Cells, *, whole: bool = False) -> bytes:
    before = b"" if old is None else (b"O" if whole else b"K") + _cells(old)
    return b"U" + struct.pack(">I", oid) + before + b"N" + _cells(new)


def encode_delete(oid: int, old: Cells, *, whole: bool = False) -> bytes:
    return b"D" + struct.pack(">I", oid) + (b"O" if whole else b"K") + _cells(old)


def encode_truncate(oids: Sequence[int]) -> bytes:
    return b"T" + struct.pack(">IB", len(oids), 0) + b"".join(struct.pack(">I", oid) for oid in oids)


def _text(value: str) -> bytes:
    return value.encode() + b"\0"


def _cells(cells: Cells) -> bytes:
    encoded = [
        b"n" if cell is None else b"u" if cell is UNCHANGED else b"t" + struct.pack(">I", len(cell)) + cell
        for cell in cells
    ]
    return struct.pack(">H", len(cells)) + b"".join(encoded)

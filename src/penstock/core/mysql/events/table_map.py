"""TABLE_MAP events: which table the rows events that follow belong to, and how its columns are laid out.

Source: MariaDB Knowledge Base, "Table_map_event"; MySQL internals, `Table_map_event`.
"""

from __future__ import annotations

from typing import Final

from penstock.core.mysql.events.table_metadata import parse_metadata
from penstock.core.mysql.types.bytes_reader import BytesReader, MalformedError
from penstock.core.mysql.types.column_codes import KNOWN, METADATA_BYTE, METADATA_LITTLE, METADATA_PAIR
from penstock.core.mysql.types.logged_rows import TableMap
from penstock.core.tables import TableId

_POST_HEADER_BYTES: Final = 8


def parse_table_id(body: bytes | memoryview) -> TableId:
    """Read only which table the event is about, so that one that nobody wants may have columns of any kind."""
    reader = BytesReader(body, _POST_HEADER_BYTES)
    return TableId(_name(reader), _name(reader))


def parse_table_map(body: bytes | memoryview, *, is_mariadb: bool) -> TableMap:
    """Read the event after its header (post-header first, checksum left out); MalformedError if it is not one.

    Of a table with columns of types that we do not know, only these are told.
    """
    reader = BytesReader(body, _POST_HEADER_BYTES)
    table = TableId(_name(reader), _name(reader))
    columns = reader.length()
    types = tuple(reader.take(columns))
    metadata = _all_metadata(BytesReader(reader.take(reader.length())), types)
    nullable = _bits(reader.take((columns + 7) // 8), columns)
    if len(metadata) != columns:
        return TableMap(table, types, (), nullable, (), ())
    said = parse_metadata(reader, types, metadata, is_mariadb=is_mariadb)
    return TableMap(table, types, metadata, nullable, said.names, said.unsigned, said.charsets, said.labels, said.key)


def _name(reader: BytesReader) -> str:
    """A name with its length before and a NUL behind it."""
    name = reader.text(reader.integer(1))
    reader.take(1)
    return name


def _all_metadata(reader: BytesReader, types: tuple[int, ...]) -> tuple[int, ...]:
    """Return what is said of each column; nothing where a type that we do not know, or more bytes, leave it open."""
    if not KNOWN.issuperset(types):
        return ()
    try:
        metadata = tuple(_metadata(reader, code) for code in types)
    except MalformedError:
        return ()
    return () if reader.left else metadata


def _metadata(reader: BytesReader, code: int) -> int:
    if code in METADATA_PAIR:
        return int.from_bytes(reader.take(2), "big")
    if code in METADATA_LITTLE:
        return reader.integer(2)
    return reader.integer(1) if code in METADATA_BYTE else 0


def _bits(raw: bytes, count: int) -> tuple[bool, ...]:
    if len(raw) * 8 < count:
        message = f"{len(raw)} bytes hold no {count} flags"
        raise MalformedError(message)
    return tuple(bool(raw[i >> 3] >> (i & 7) & 1) for i in range(count))

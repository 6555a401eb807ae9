"""TABLE_MAP events: which table the rows events that follow belong to, and how its columns are laid out.

Source: MariaDB Knowledge Base, "Table_map_event"; MySQL internals, `Table_map_event`.
"""

from __future__ import annotations

from typing import Final

from penstock.core.mysql.bytes_reader import BytesReader, MalformedError
from penstock.core.mysql.column_codes import KNOWN, METADATA_BYTE, METADATA_LITTLE, METADATA_PAIR, NUMERIC, YEAR
from penstock.core.mysql.log_items import TableMap
from penstock.core.tables import TableId

_POST_HEADER_BYTES: Final = 8
_SIGNEDNESS: Final = 1
_COLUMN_NAMES: Final = 4


def parse_table_id(body: bytes | memoryview) -> TableId:
    """Read only which table the event is about, so that one that nobody wants may have columns of any kind."""
    reader = BytesReader(body, _POST_HEADER_BYTES)
    return TableId(_name(reader), _name(reader))


def parse_table_map(body: bytes | memoryview, *, is_mariadb: bool) -> TableMap:
    """Read the event after its header (post-header first, checksum left out); MalformedError if it is not one.

    MariaDB writes a SIGNEDNESS bit for YEAR columns too, and so does MySQL in some
    versions: there it is not read where the table has one (`unsigned` stays empty).
    Of a table with columns of types that we do not know, only these are told.
    """
    reader = BytesReader(body, _POST_HEADER_BYTES)
    table = TableId(_name(reader), _name(reader))
    columns = reader.length()
    types = tuple(reader.take(columns))
    metadata = _all_metadata(BytesReader(reader.take(reader.length())), types)
    nullable = _bits(reader.take((columns + 7) // 8), columns, first_bit_is_high=False)
    if len(metadata) != columns:
        return TableMap(table, types, (), nullable, (), ())
    names, unsigned = _optional_metadata(reader, types, is_mariadb=is_mariadb)
    return TableMap(table, types, metadata, nullable, names, unsigned)


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


def _bits(raw: bytes, count: int, *, first_bit_is_high: bool) -> tuple[bool, ...]:
    if len(raw) * 8 < count:
        message = f"{len(raw)} bytes hold no {count} flags"
        raise MalformedError(message)
    if first_bit_is_high:
        return tuple(bool(raw[i >> 3] & 0x80 >> (i & 7)) for i in range(count))
    return tuple(bool(raw[i >> 3] >> (i & 7) & 1) for i in range(count))


def _optional_metadata(
    reader: BytesReader, types: tuple[int, ...], *, is_mariadb: bool
) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    """Return the columns' names and whether each is unsigned; empty where the server did not say."""
    names: tuple[str, ...] = ()
    unsigned: tuple[bool, ...] = ()
    while reader.left:
        field = reader.integer(1)
        value = reader.take(reader.length())
        if field == _SIGNEDNESS and (is_mariadb or YEAR not in types):
            unsigned = _signedness(value, types)
        elif field == _COLUMN_NAMES:
            names = _names(BytesReader(value), len(types))
    return names, unsigned


def _signedness(value: bytes, types: tuple[int, ...]) -> tuple[bool, ...]:
    """Spread the bits, which only numeric columns have, over all columns."""
    numeric = NUMERIC | {YEAR}
    bits = iter(_bits(value, sum(code in numeric for code in types), first_bit_is_high=True))
    return tuple(code in numeric and next(bits) for code in types)


def _names(reader: BytesReader, columns: int) -> tuple[str, ...]:
    names = []
    while reader.left:
        names.append(reader.text(reader.length()))
    if len(names) != columns:
        message = f"{len(names)} column names for {columns} columns"
        raise MalformedError(message)
    return tuple(names)

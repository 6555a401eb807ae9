"""How the rows of one table lie in its ROWS events, and whether that is what its schema says.

Sources: MariaDB Knowledge Base, "Rows_event_v1/v2" and "Table_map_event"; MySQL
internals, `Rows_event` and `Table_map_event`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from penstock.core.errors import READ_AGAIN, TableStoppedError
from penstock.core.mysql.types import column_codes as codes
from penstock.core.mysql.types.charsets import BYTES_PER_CHARACTER
from penstock.core.mysql.types.collations import BINARY
from penstock.core.mysql.types.packed_values import decimal_bytes
from penstock.core.tables import (
    BitType,
    BytesType,
    Column,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FloatType,
    GeometryType,
    IntegerType,
    PrintedType,
    SetType,
    TextType,
    TimestampType,
    TimeType,
    UnsupportedType,
    VectorType,
    YearType,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.mysql.types.logged_rows import TableMap
    from penstock.core.tables import TableSchema

_INTEGER_CODES: Final = {8: codes.TINY, 16: codes.SHORT, 24: codes.INT24, 32: codes.LONG, 64: codes.LONGLONG}
_FLOAT_CODES: Final = {32: codes.FLOAT, 64: codes.DOUBLE}
_ONE_BYTE_LENGTH_MAX: Final = 255
_LABELS_SHOWN: Final = 20
_SET_BYTES: Final = (1, 1, 2, 3, 4, 8, 8, 8, 8)
_ADDRESS_BYTES: Final[Mapping[str, int]] = {"uuid": 16, "inet4": 4, "inet6": 16}
_DIFFERS: Final = (
    "the table was changed in a way that the log does not show, or its definition was taken from another time: "
    f"{READ_AGAIN}"
)
_SAY_NAMES: Final = (
    "if it has a UNIQUE key on a BLOB, a TEXT or another long column, for which MariaDB logs a column of its own, "
    "set binlog_row_metadata=FULL before that"
)
_SAY_INDEX: Final = (
    "if it has a multi-valued index, an index on an expression such as CAST(... AS UNSIGNED ARRAY), for which early "
    f"releases of MySQL 8.0 log a column of its own, drop it; "
    f"else the server needs a newer release of Penstock; {READ_AGAIN}"
)
_HASH_NAME: Final = re.compile(r"DB_ROW_HASH_\d+")
_HASH: Final = IntegerType(64, unsigned=True)


@dataclass(frozen=True, slots=True)
class Cell:
    """One column of a row: `fixed_bytes` long, or with a length in `length_bytes` before it.

    `code` is the type code of the event, `old_format` says that it is one of the
    temporal types from before MySQL 5.6, `compressed` that the column is stored
    compressed, `in_key` that it is one of the primary key.
    """

    column: Column
    code: int
    fixed_bytes: int
    length_bytes: int = 0
    old_format: bool = False
    compressed: bool = False
    in_key: bool = False


@dataclass(frozen=True, slots=True)
class RowLayout:
    """A null bitmap of `null_bytes`, then the cells that are not NULL.

    The last `hidden` cells are of columns that the server keeps for itself.
    """

    cells: tuple[Cell, ...]
    null_bytes: int
    hidden: int = 0

    def only(self, columns: Sequence[int]) -> RowLayout:
        """The layout of an image that has these columns alone."""
        if len(columns) == len(self.cells):
            return self
        return RowLayout(tuple(self.cells[index] for index in columns), (len(columns) + 7) // 8)


def row_layout(schema: TableSchema, table_map: TableMap, position: str) -> RowLayout:
    """Lay out rows of `schema` as `table_map` says; TableStoppedError, naming `position`, where the two differ."""
    _check_shape(schema, table_map, position)
    cells = []
    for index, column in enumerate(schema.columns):
        if isinstance(column.type, UnsupportedType):
            raise TableStoppedError(
                str(schema.table),
                column.name,
                position,
                f"this release cannot carry the type {column.type.declaration}",
                f'change its type, then {READ_AGAIN}; or leave the table out with "!{schema.table}" under tables',
            )
        cell = _cell(column, table_map.types[index], table_map.metadata[index])
        if cell is None or _sign_differs(column, table_map, index):
            found = f"type code {table_map.types[index]} with metadata {table_map.metadata[index]}"
            reason = f"the log has {found} where {column.declaration or column.type} is expected"
            raise TableStoppedError(str(schema.table), column.name, position, reason, _DIFFERS)
        if difference := _difference(column, table_map, index):
            raise TableStoppedError(str(schema.table), column.name, position, difference, _DIFFERS)
        cells.append(replace(cell, in_key=True) if column.name in schema.key else cell)
    hidden = [Cell(Column(name, _HASH, nullable=True), codes.LONGLONG, 8) for name in _hashes(schema, table_map)]
    return RowLayout((*cells, *hidden), (len(cells) + len(hidden) + 7) // 8, len(hidden))


def _hashes(schema: TableSchema, table_map: TableMap) -> Sequence[str]:
    """Return the names of the columns at the end in which MariaDB keeps hashes for UNIQUE keys on long columns.

    A SELECT does not know them, nor does information_schema. They are told by
    their names, which only binlog_row_metadata=FULL logs.
    """
    count = len(schema.columns)
    names, types, unsigned = table_map.names[count:], table_map.types[count:], table_map.unsigned[count:]
    are_hashes = all(map(_HASH_NAME.fullmatch, names)) and set(types) == {codes.LONGLONG} and all(unsigned)
    return names if are_hashes else ()


def _check_shape(schema: TableSchema, table_map: TableMap, position: str) -> None:
    names = tuple(column.name for column in schema.columns)
    count = len(table_map.types) - len(_hashes(schema, table_map))
    logged, hint = table_map.names[:count], _DIFFERS
    if schema.table != table_map.table:
        reason = f"the rows are of {table_map.table}"
    elif len(table_map.metadata) != len(table_map.types):
        reason = f"the log has columns of types that this release does not know, among {list(table_map.types)}"
        hint = _SAY_INDEX
    elif not names:
        reason = "it has no columns"
    elif count != len(names):
        if not logged and set(table_map.types[len(names) :]) == {codes.LONGLONG}:
            hint = f"{_DIFFERS}; {_SAY_NAMES}"
        reason = f"the log has {len(table_map.types)} columns where {len(names)} are expected ({', '.join(names)})"
    elif logged and logged != names:
        reason = f"the log has the columns {', '.join(table_map.names)} where {', '.join(names)} are expected"
    elif (key := _key(schema, table_map)) != schema.key:
        found = f"the primary key ({', '.join(key)})" if key else "no primary key"
        reason = f"the log has {found} where the primary key ({', '.join(schema.key)}) is expected"
    else:
        return
    raise TableStoppedError(str(schema.table), "", position, reason, hint)


def _key(schema: TableSchema, table_map: TableMap) -> tuple[str, ...]:
    """Return the primary key that the log tells; the schema's where it tells none, or where the schema has none.

    Of a table without one, servers tell the first UNIQUE key without NULLs.
    """
    if table_map.key is None or not schema.key:
        return schema.key
    return tuple(table_map.names[index] for index in table_map.key)


def _sign_differs(column: Column, table_map: TableMap, index: int) -> bool:
    return (
        isinstance(column.type, IntegerType)
        and bool(table_map.unsigned)
        and table_map.unsigned[index] != column.type.unsigned
    )


def _difference(column: Column, table_map: TableMap, index: int) -> str:
    """Say where the text of a column is not what the schema says, though its type and length are; "" where it is."""
    match column.type:
        case TextType(_, charset):
            wanted = charset
        case BytesType():
            wanted = BINARY
        case EnumType(labels) | SetType(labels):
            logged = table_map.labels[index] if table_map.labels else labels
            return f"the log has the labels {_listed(logged)} where {_listed(labels)} are expected" * (logged != labels)
        case _:
            return ""
    found = table_map.charsets[index] if table_map.charsets else wanted
    return f"the log has text in {found} where {wanted} is expected" * (found not in {"", wanted})


def _listed(labels: Sequence[str]) -> str:
    """Print labels, of many the first ones and how many there are."""
    shown = ", ".join(map(repr, labels[:_LABELS_SHOWN]))
    return f"{shown} ... ({len(labels)} of them)" if len(labels) > _LABELS_SHOWN else shown


def _cell(column: Column, code: int, metadata: int) -> Cell | None:  # noqa: C901, PLR0911, PLR0912 - one return per member of the union
    """Lay out one column; None if its type in the log is not the one in the schema."""
    match column.type:
        case IntegerType(bits):
            return Cell(column, code, bits // 8) if code == _INTEGER_CODES[bits] else None
        case BitType(bits):
            fits = (code, metadata) == (codes.BIT, bits // 8 << 8 | bits % 8)
            return Cell(column, code, (bits + 7) // 8) if fits else None
        case FloatType(bits):
            return Cell(column, code, bits // 8) if code == _FLOAT_CODES[bits] else None
        case DecimalType(precision, scale):
            fits = (code, metadata) == (codes.NEWDECIMAL, precision << 8 | scale)
            return Cell(column, code, decimal_bytes(precision, scale)) if fits else None
        case TextType():
            return _string_cell(column, code, metadata)
        case BytesType(bytes_max, fixed):
            if fixed and (code != codes.STRING or codes.string_type(metadata) != (codes.STRING, bytes_max)):
                return None
            return _string_cell(column, code, metadata)
        case DateType() | PrintedType("date"):
            return Cell(column, code, 3) if code == codes.DATE else None
        case TimeType(digits):
            return _temporal_cell(column, (code, metadata), (codes.TIME2, 3), (codes.TIME, 3), digits)
        case DateTimeType(digits) | PrintedType("datetime", digits):
            return _temporal_cell(column, (code, metadata), (codes.DATETIME2, 5), (codes.DATETIME, 8), digits)
        case TimestampType(digits) | PrintedType("timestamp", digits):
            return _temporal_cell(column, (code, metadata), (codes.TIMESTAMP2, 4), (codes.TIMESTAMP, 4), digits)
        case YearType():
            return Cell(column, code, 1) if code == codes.YEAR else None
        case EnumType(labels):
            return _label_cell(column, code, metadata, codes.ENUM, 1 if len(labels) <= _ONE_BYTE_LENGTH_MAX else 2)
        case SetType(labels):
            return _label_cell(column, code, metadata, codes.SET, _SET_BYTES[(len(labels) + 7) // 8])
        case PrintedType("json"):
            return Cell(column, code, 0, metadata) if (code, metadata) == (codes.JSON, 4) else None
        case PrintedType("postgres"):
            return None
        case PrintedType(kind):
            fits = code == codes.STRING and codes.string_type(metadata) == (codes.STRING, _ADDRESS_BYTES[kind])
            return Cell(column, code, 0, 1) if fits else None
        case GeometryType():
            return Cell(column, code, 0, metadata) if (code, metadata) == (codes.GEOMETRY, 4) else None
        case VectorType():
            return Cell(column, code, 0, 4) if code == codes.VECTOR else _string_cell(column, code, metadata)
        case UnsupportedType():
            return None


def _string_cell(column: Column, code: int, metadata: int) -> Cell | None:
    """A string of at most `metadata` bytes, or a blob whose length has `metadata` bytes."""
    compressed = code in codes.COMPRESSED
    if code in codes.BLOBS or code == codes.BLOB_COMPRESSED:
        return Cell(column, code, 0, metadata, compressed=compressed) if metadata in {1, 2, 3, 4} else None
    if code in {codes.VARCHAR, codes.VAR_STRING, codes.VARCHAR_COMPRESSED}:
        bytes_max = metadata
    elif code == codes.STRING and codes.string_type(metadata)[0] == codes.STRING:
        bytes_max = codes.string_type(metadata)[1]
    else:
        return None
    if isinstance(column.type, TextType) and code in {codes.VARCHAR, codes.STRING}:
        # Another character set is another text, and the length is all that tells it.
        type_ = column.type
        if bytes_max != type_.characters_max * BYTES_PER_CHARACTER.get(type_.charset, 0):
            return None
    return Cell(column, code, 0, 1 if bytes_max <= _ONE_BYTE_LENGTH_MAX else 2, compressed=compressed)


def _temporal_cell(
    column: Column, found: tuple[int, int], new: tuple[int, int], old: tuple[int, int], digits: int
) -> Cell | None:
    """Lay out `found` (code, metadata) as the new or the old (code, bytes without fraction)."""
    code, metadata = found
    if code == new[0] and metadata == digits:
        return Cell(column, code, new[1] + (digits + 1) // 2)
    if code == old[0] and digits == 0:
        return Cell(column, code, old[1], old_format=True)
    return None


def _label_cell(column: Column, code: int, metadata: int, real_code: int, width: int) -> Cell | None:
    """An ENUM or a SET, which the log has as strings of another real type."""
    fits = code == codes.STRING and codes.string_type(metadata) == (real_code, width)
    return Cell(column, code, width) if fits else None

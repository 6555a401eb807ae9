"""What a target has of a source's value, as SQL of the source.

Of values that it cannot hold a link's `overflow` makes others (core/warehouse/overflow). A geometry is carried as
Extended WKB (core/mysql/types/special_values), and an array of PostgreSQL as JSON (core/audit/array_text).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.audit.array_text import array_in_sql
from penstock.core.charset_sizes import utf8_bytes_max
from penstock.core.tables import (
    BytesType,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    GeometryType,
    PrintedType,
    SetType,
    TextType,
    TimestampType,
)
from penstock.core.warehouse.delta import DELTA
from penstock.core.warehouse.dialect import DUCKDB
from penstock.core.warehouse.dialects import POSTGRES, REDSHIFT, SNOWFLAKE

if TYPE_CHECKING:
    from penstock.core.audit.dialects import AuditDialect
    from penstock.core.tables import Column, ColumnType
    from penstock.core.warehouse.dialect import Dialect
    from penstock.core.warehouse.load_plan import Overflow

AS_IT_IS: Final = "{0}"
"""The value of a column, which stands in place of `{0}`."""

_WAREHOUSES: Final = {
    "duckdb": DUCKDB,
    "postgres": POSTGRES,
    "redshift": REDSHIFT,
    "snowflake": SNOWFLAKE,
    "delta": DELTA,
}
_UTF8: Final = "CAST(CONVERT({0} USING utf8mb4) AS BINARY)"
_HAS_NUL: Final = f"INSTR({_UTF8}, CHAR(0)) > 0"
_WITHOUT_NUL: Final = f"CONVERT(REPLACE({_UTF8}, CHAR(0), '') USING utf8mb4)"
_EXTENDED_WKB: Final = (
    "UNHEX(CASE WHEN SUBSTR(HEX({0}), 1, 8) = '00000000' OR SUBSTR(HEX({0}), 9, 2) <> '01' THEN SUBSTR(HEX({0}), 9)"
    " ELSE CONCAT(SUBSTR(HEX({0}), 9, 8), '20', SUBSTR(HEX({0}), 1, 8), SUBSTR(HEX({0}), 19)) END)"
)
"""MySQL keeps the SRID before the WKB. There it stands behind the type, whose highest byte is 0 without it."""


def held_value(dialects: tuple[AuditDialect, AuditDialect], column: Column, overflow: Overflow) -> str | None:
    """Return what the target of `dialects` (source, target) has of a source's `column`, as the source's SQL.

    `{0}` stands for the column. None where no SQL of the source says it.
    """
    source, target = dialects
    warehouse = _WAREHOUSES.get(target.name)
    if overflow == "stop" or warehouse is None:
        return as_carried(column)
    is_mysql = source.has_concat
    match column.type:
        case DecimalType(precision, scale) if warehouse.decimal_precision_max < precision and scale < precision:
            return _decimal(warehouse.decimal_precision_max, scale, overflow)
        case DateType() | DateTimeType() | TimestampType() if warehouse.first_date:
            # Dates before the year 1 have a zero in them on MySQL, and so became NULL, or stopped their table, before.
            return AS_IT_IS if is_mysql else None
        case PrintedType("json") | TextType() | BytesType() | GeometryType() if _may_be_too_long(
            warehouse, column.type
        ):
            return None
        case TextType() | EnumType() | SetType() if not warehouse.text_has_nul and is_mysql:
            return _WITHOUT_NUL if overflow == "clamp" else f"CASE WHEN {_HAS_NUL} THEN NULL ELSE {AS_IT_IS} END"
        case _:
            return as_carried(column)


def as_carried(column: Column) -> str:
    """Return how a value is carried that every target can hold, as SQL of the source: as it is, for most types."""
    if isinstance(column.type, GeometryType):
        return _EXTENDED_WKB
    return array_in_sql(column.declaration) or AS_IT_IS


def _may_be_too_long(warehouse: Dialect, type_: ColumnType) -> bool:
    """Whether the warehouse cuts some values, or has NULL in their place: which ones, its own rules alone say."""
    match type_:
        case TextType(characters_max, charset):
            each = utf8_bytes_max(charset) if warehouse.text_length_is_bytes else 1
            return 0 < warehouse.text_length_max < characters_max * each
        case BytesType(bytes_max):
            return 0 < warehouse.binary_length_max < bytes_max
        case GeometryType():
            return warehouse.binary_length_max > 0
        case _:
            return warehouse.text_length_max > 0


def _decimal(precision_max: int, scale: int, overflow: Overflow) -> str:
    digits = precision_max - scale
    most = f"{'9' * digits or '0'}{'.' if scale else ''}{'9' * scale}"
    instead = f"CASE WHEN {{0}} < 0 THEN -{most} ELSE {most} END" if overflow == "clamp" else "NULL"
    return f"CASE WHEN ABS({{0}}) >= 1{'0' * digits} THEN {instead} ELSE {{0}} END"

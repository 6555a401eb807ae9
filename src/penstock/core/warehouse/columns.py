"""The columns of a target's table: the source's and ours, their types, and what they are filled with."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from penstock.core.errors import FULL_REFRESH, START_ANEW, TableStoppedError
from penstock.core.files import FILE, OP, POS, ROW, TS_MS
from penstock.core.tables import Column, DecimalType, IntegerType, TextType, TimestampType
from penstock.core.warehouse.dialect import Dialect, quote_name, render_type
from penstock.core.warehouse.fill_values import render_fill_value
from penstock.core.warehouse.widening import widens

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.core.tables import TableSchema
    from penstock.core.warehouse.load_plan import Deletes

REFRESH_OR_ANEW = f"{FULL_REFRESH}; without a primary key, --full-lock in its place (MySQL, MariaDB), or {START_ANEW}"
_ANEW = f"then {REFRESH_OR_ANEW}"
_LEAVE_OUT = "leave the table out of the link's `tables`"
CORRECT_VALUE = f"{_LEAVE_OUT}; or correct the value in the source, {_ANEW}"
"""What to do where a target refuses a value: the change that has it comes before the correction, for ever."""
LOG_COLUMNS = {
    OP: Column("_op", TextType(2, "ascii"), nullable=False),
    FILE: Column("_file", TextType(255, "utf8mb4"), nullable=False),
    POS: Column("_pos", IntegerType(64, unsigned=False), nullable=False),
    ROW: Column("_row", IntegerType(32, unsigned=False), nullable=False),
    TS_MS: Column("_committed_at", TimestampType(3), nullable=False),
}
"""What a change log has after the source's columns, by the column of a batch file that it comes from."""
DELETED_AT = Column("_deleted_at", TimestampType(3), nullable=True)
"""What a table with soft deletes has after the source's columns: NULL in a row that the source has."""


def own_columns(schema: TableSchema, deletes: Deletes) -> tuple[Column, ...]:
    """Return the columns of ours that the target's table has behind the source's."""
    if not schema.key:
        return tuple(LOG_COLUMNS.values())
    return (DELETED_AT,) if deletes == "soft" else ()


def by_name(schema: TableSchema) -> dict[str, Column]:
    """Return the source's columns by their names in small letters."""
    return {column.name.casefold(): column for column in schema.columns}


def define_columns(
    dialect: Dialect, schema: TableSchema, deletes: Deletes, encodings: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Return what stands between the brackets of CREATE TABLE; TableStoppedError for what the warehouse cannot hold."""
    encoded = {name.casefold(): f" ENCODE {encoding}" for name, encoding in encodings.items()}
    return ", ".join(
        f"{quote_name(dialect, column.name)} {column_type(dialect, schema, column)}"
        f"{encoded.get(column.name.casefold(), '')}"
        for column in (*schema.columns, *own_columns(schema, deletes))
    )


def column_type(dialect: Dialect, schema: TableSchema, column: Column) -> str:
    """Return the warehouse's type of a column; TableStoppedError where it has none."""
    try:
        return render_type(dialect, column.type)
    except ValueError as error:
        hint = f"{_LEAVE_OUT}; or change the column's type in the source, {_ANEW}"
        if can_fit(dialect, column):
            hint = f'set `overflow` of the link to "null" or clamp, for values that have more digits; {hint}'
        raise stopped(schema, column.name, str(error), hint) from error


def can_fit(dialect: Dialect, column: Column) -> bool:
    """Whether the warehouse can have the column, a decimal, with fewer digits before the point."""
    match column.type:
        case DecimalType(precision, scale):
            precision_max, scale_max = dialect.decimal_precision_max, dialect.decimal_scale_max
            return precision > precision_max > scale and scale <= scale_max
        case _:
            return False


def fill_value(dialect: Dialect, schema: TableSchema, column: Column) -> str:
    """Return the constant of a column in rows that are older than it; TableStoppedError where only the source knows."""
    try:
        return render_fill_value(dialect, column)
    except ValueError as error:
        reason = f"rows older than the column need its value, and {error}"
        raise stopped(schema, column.name, reason, REFRESH_OR_ANEW) from error


def staged_value(dialect: Dialect, schema: TableSchema, column: Column, staged: Column | None) -> str:
    """Return what fills `column` of `schema` from a row `s`, whose column is `staged`, if it has one."""
    if staged is None:
        return fill_value(dialect, schema, column)
    if not widens(staged.type, column.type):
        reason = f"a row with {declared(staged)} came after it had become {declared(column)}"
        raise stopped(schema, column.name, reason, REFRESH_OR_ANEW)
    return cast_value(dialect, schema, column, staged)


def cast_value(dialect: Dialect, schema: TableSchema, column: Column, old: Column) -> str:
    """Return the value of column `old` of a row `s` as one of `column`."""
    name = f"s.{quote_name(dialect, old.name)}"
    type_ = column_type(dialect, schema, column)
    return name if type_ == column_type(dialect, schema, old) else f"CAST({name} AS {type_})"


def check_names(dialect: Dialect, schema: TableSchema, deletes: Deletes) -> None:
    """Raise TableStoppedError for names that the warehouse would cut, keeps for itself, or takes for another."""
    seen = {column.name.casefold() for column in own_columns(schema, deletes)}
    for name in (schema.table.schema, schema.table.name, *(column.name for column in schema.columns)):
        if 0 < dialect.name_bytes_max < len(name.encode()):
            reason = f"{name!r} is longer than the {dialect.name_bytes_max} bytes that names have in {dialect.name}"
            raise stopped(schema, name, reason, f"{_LEAVE_OUT}; or give it a shorter name in the source, {_ANEW}")
    for column in schema.columns:
        if column.name.casefold() in dialect.reserved_columns:
            reason = f"{dialect.name} keeps this name for a column of its own"
            raise stopped(schema, column.name, reason, f"{_LEAVE_OUT}; or rename the column in the source, {_ANEW}")
        if column.name.casefold() in seen:
            reason = "the target's table has a column of this name already, but for upper and lower case"
            raise stopped(schema, column.name, reason, f"{_LEAVE_OUT}; or rename the column in the source, {_ANEW}")
        seen.add(column.name.casefold())


def declared(column: Column) -> str:
    """Return the type as the source writes it."""
    return column.declaration or repr(column.type)


def stopped(schema: TableSchema, column: str, reason: str, hint: str) -> TableStoppedError:
    """Return the error that stops a table at its target."""
    return TableStoppedError(str(schema.table), column, "the target's table", reason, hint)

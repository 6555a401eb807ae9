"""What becomes of dates that no calendar has, such as 0000-00-00 and 2024-00-15: the user says, and nobody else."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias, assert_never

from penstock.core.tables import DateTimeType, DateType, PrintedType, TimestampType

if TYPE_CHECKING:
    from penstock.core.tables import Column, ColumnType, TableSchema

ZeroDates: TypeAlias = Literal["stop", "to_null", "as_text"]
"""`stop` stops the table at the first such date, `to_null` carries NULL in its place (but never in a primary key,
where it stops), `as_text` carries all dates and times as the text that the source prints."""


def with_zero_dates(schema: TableSchema, policy: ZeroDates) -> TableSchema:
    """Return `schema` with its dates, datetimes and timestamps as `policy` wants them."""
    if policy == "stop":
        return schema
    return replace(schema, columns=tuple(_column(column, policy, schema.key) for column in schema.columns))


def _column(column: Column, policy: ZeroDates, key: tuple[str, ...]) -> Column:
    if not isinstance(column.type, DateType | DateTimeType | TimestampType):
        return column
    match policy:
        case "as_text":
            return replace(column, type=_printed(column.type))
        case "to_null":
            if column.name in key:
                return column
            return replace(column, type=replace(column.type, zero_is_null=True), nullable=True)
        case "stop":
            return column
        case _:
            assert_never(policy)


def _printed(type_: DateType | DateTimeType | TimestampType) -> ColumnType:
    match type_:
        case DateType():
            return PrintedType("date")
        case DateTimeType(digits):
            return PrintedType("datetime", digits)
        case TimestampType(digits):
            return PrintedType("timestamp", digits)
        case _:
            assert_never(type_)

"""What became of a table's columns between two relation messages, and whether its rows are still known.

PostgreSQL logs no statements, and no rows that a statement rewrites: a new type for a column, or a default that
is computed, changes rows that nobody is told of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.errors import READ_AGAIN
from penstock.core.postgres.partitions import without_old_rows
from penstock.core.refusals import Refusal
from penstock.core.tables import (
    BytesType,
    ColumnType,
    DateTimeType,
    DecimalType,
    FloatType,
    IntegerType,
    PrintedType,
    TableSchema,
    TextType,
    TimestampType,
    TimeType,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from penstock.core.postgres.partitions import Partition
    from penstock.core.tables import Column, TableId

_SHOWN_MAX: Final = 10
_NO_MODIFIER: Final = -1

CAME_BACK: Final = (
    "it was taken out of the publication and came back, or got another row filter or column list there, and what "
    "changed meanwhile is not in the log"
)
UNLOGGED: Final = Refusal(
    "",
    "it became UNLOGGED, or was so until here, and what changes meanwhile is not in the log",
    f"ALTER TABLE ... SET LOGGED, if it is not again; then {READ_AGAIN}",
)


def column_renames(before: TableSchema, after: TableSchema) -> tuple[tuple[str, str], ...]:
    """Return the columns that got other names, as (old, new): those that kept their numbers."""
    names = {column.number: column.name for column in before.columns if column.number}
    pairs = [(names.get(column.number, column.name), column.name) for column in after.columns]
    return tuple((old, new) for old, new in pairs if old != new)


def keeps_key(before: TableSchema, after: TableSchema) -> bool:
    """Whether rows are told apart by the same columns, which may have other names."""
    return before.with_columns_renamed(column_renames(before, after)).key == after.key


def refusal(before: TableSchema, after: TableSchema) -> Refusal | None:
    """Return why `before` cannot become `after` without reading its rows again, None if it can."""
    if came_back(before, after):
        return Refusal("", CAME_BACK, READ_AGAIN)
    if not keeps_key(before, after):
        keys = [", ".join(table.key) or "none" for table in (before, after)]
        reason = f"its key (primary key, or replica identity) changed from ({keys[0]}) to ({keys[1]})"
        return Refusal("", reason, READ_AGAIN)
    renamed = before.with_columns_renamed(column_renames(before, after))
    old = {column.name: column for column in renamed.columns}
    kept = {column.name for column in after.columns}
    # Targets do not tell upper from lower case, and would keep its values for the one that came.
    gone = {name.casefold(): column for name, column in old.items() if name not in kept}
    found = (
        _column_refusal(old.get(column.name) or gone.get(column.name.casefold()), column) for column in after.columns
    )
    return next((each for each in found if each is not None), None) or _modifier_refusal(before, after)


def partitions_refusal(
    table: TableId, key: Sequence[str], *, is_whole: bool, partitions: Collection[Partition]
) -> Refusal | None:
    """Return why changed rows of a table are not known from what its partitions log, None if they are.

    See partitions.without_old_rows.
    """
    lacking = without_old_rows(key, is_whole=is_whole, partitions=partitions)
    if not lacking:
        return None
    names = [each.name for each in lacking]
    wanted = f"its key ({', '.join(key)})" if key else "whole rows, and the table has no key"
    shown = ", ".join(names[:_SHOWN_MAX]) + (", ..." if len(names) > _SHOWN_MAX else "")
    reason = f"with their replica identity partitions of it do not log {wanted}: {shown}"
    alter = "; ".join(f"ALTER TABLE {each} REPLICA IDENTITY FULL" for each in (table, *names[:_SHOWN_MAX]))
    return Refusal("", reason, f"{alter}; then {READ_AGAIN}")


def came_back(before: TableSchema, after: TableSchema) -> bool:
    """Whether the table was published otherwise, or not at all, between the two: 0 says that nobody knows."""
    return bool(before.published and after.published) and before.published != after.published


def is_read_as_told(told: TableSchema, now: TableSchema) -> bool:
    """Whether rows of the table `now` are rows of the one that was `told` of.

    Comments and the names of types are no matter of rows, and the log does not describe a table again for them.
    """
    return (
        (told.table, told.number, told.key) == (now.table, now.number, now.key)
        and [_read(column) for column in told.columns] == [_read(column) for column in now.columns]
        and told.modifiers in {(), now.modifiers}
    )


def _read(column: Column) -> tuple[int, str, ColumnType]:
    return column.number, column.name, column.type


def _column_refusal(before: Column | None, after: Column) -> Refusal | None:
    if before is None:
        if not after.default_is_expression:
            return None
        reason = "it was added with values in existing rows that the source computed, and that the log does not have"
        return Refusal(after.name, reason, f"add columns with a constant default or none. Now {READ_AGAIN}")
    if before.number and after.number and before.number != after.number:
        return Refusal(after.name, "it was dropped, and added again under the same name", READ_AGAIN)
    if before.declaration == after.declaration:
        return None
    if holds(after.type, before.type) and not (_is_reprinted(before) or _is_reprinted(after)):
        return None
    reason = (
        f"its type changed from {before.declaration} to {after.declaration}, which rewrites rows outside of the log"
    )
    return Refusal(after.name, reason, READ_AGAIN)


def _modifier_refusal(before: TableSchema, after: TableSchema) -> Refusal | None:
    """Refuse another length, precision or SRID of a type whose declaration does not say it; none at all takes all."""
    old, new = (dict(each.split(":") for each in table.modifiers) for table in (before, after))
    for column in after.columns:
        was, now = (int(each.get(str(column.number), _NO_MODIFIER)) for each in (old, new))
        is_longer = column.declaration == "varchar[]" and now >= was >= 0
        if str(column.number) in old and now not in {was, _NO_MODIFIER} and not is_longer:
            reason = (
                f"its type {column.declaration} got another length, precision or SRID (type modifier {now} in place of "
                f"{was}), which rewrites rows outside of the log"
            )
            return Refusal(column.name, reason, READ_AGAIN)
    return None


def _is_reprinted(column: Column) -> bool:
    """Whether values are printed otherwise in another type: those that are padded, or carried as they are printed."""
    return column.is_padded or isinstance(column.type, PrintedType)


def holds(wide: ColumnType, narrow: ColumnType) -> bool:  # noqa: PLR0911 - one return per pair of types
    """Whether every value of `narrow` is a value of `wide`, written the same way."""
    match narrow, wide:
        case IntegerType(), IntegerType():
            return wide.bits >= narrow.bits and wide.unsigned == narrow.unsigned
        case DecimalType(), DecimalType():
            return wide.scale == narrow.scale and wide.precision >= narrow.precision
        case FloatType(), FloatType():
            return wide.bits >= narrow.bits
        case TextType(), TextType():
            return wide.characters_max >= narrow.characters_max
        case (
            (DateTimeType(digits), DateTimeType(more))
            | (TimestampType(digits), TimestampType(more))
            | (TimeType(digits), TimeType(more))
        ):
            return more >= digits
        case BytesType(), BytesType():
            return True
        case _:
            return narrow == wide

"""Which columns of a table are compared, given what the source and the target say of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.core.audit.array_text import array_in_sql, is_array
from penstock.core.audit.canonical_text import kind_of
from penstock.core.audit.conditions import translate_condition
from penstock.core.audit.findings import NotCompared
from penstock.core.audit.held_values import AS_IT_IS, as_carried, held_value
from penstock.core.audit.side import AuditColumn, AuditSide, Cut
from penstock.core.tables import DateTimeType, DateType, DecimalType, IntegerType, PrintedType, TimestampType
from penstock.core.transforms.column_history import PLAIN
from penstock.core.warehouse.columns import DELETED_AT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.core.audit.dialects import AuditDialect
    from penstock.core.tables import Column, ColumnType, TableSchema
    from penstock.core.warehouse.load_plan import Deletes, Overflow

_BOOLEAN = "boolean"
"""PostgreSQL's type, which arrives as 1 and 0. MySQL's is a number everywhere."""
_BLANKS = "character("
_UNSEEN = "the source has no such column, or does not show it to our user"


@dataclass(frozen=True, slots=True)
class KnownTarget:
    """What a target says of its table, which its `schema` names as the target does.

    `treated` has what the link does to columns, by their names in small letters.
    `out_of_range` counts values that became others, as `overflow` says, because the target cannot hold them.
    """

    schema: TableSchema
    deletes: Deletes
    ended: bool = False
    out_of_range: int = 0
    treated: Mapping[str, str] = field(default_factory=dict)
    overflow: Overflow = "stop"


@dataclass(frozen=True, slots=True)
class TablePlan:
    """The two sides of a table, and what was left out. `refusal` says why nothing can be compared, "" if it can."""

    source: AuditSide | None
    target: AuditSide | None
    not_compared: tuple[NotCompared, ...] = ()
    refusal: str = ""


def plan_table(
    schema: TableSchema,
    known: KnownTarget,
    dialects: tuple[AuditDialect, AuditDialect],
    excluded: Callable[[str], str],
    *,
    where: str = "",
) -> TablePlan:
    """Choose what is compared. `excluded` says why the config leaves a column out, "" if it does not.

    `where` is a condition on the rows that count, in the source's SQL. Raises UsageError as `translate_condition`.
    """
    if not schema.key:
        return TablePlan(None, None, refusal="it has no primary key, so its target is a log of its changes")
    theirs = {column.name.casefold(): column for column in known.schema.columns}
    left_out: dict[str, NotCompared] = {}
    pairs: list[tuple[Column, Column]] = []
    for column in schema.columns:
        other = theirs.pop(column.name.casefold(), None)
        found = _why_not(column, other, known, excluded) or _not_written(column, dialects)
        if found is None and is_array(column.declaration) and column.name in schema.key:
            found = NotCompared(column.name, "rows are not found by an array")
        if found is None and held_value(dialects, column, known.overflow) is None:
            why = f"with `overflow: {known.overflow}` its values may have become others, unknown to the source"
            found = NotCompared(column.name, why)
        if found is None and other is not None:
            pairs.append((column, other))
        elif found is not None:
            left_out[column.name] = found
    extra = tuple(NotCompared(each.name, _UNSEEN, is_wrong=True) for each in theirs.values())
    not_compared = (*left_out.values(), *extra)
    for name in schema.key:
        if name in left_out:
            refusal = f"its key has the column {name}, which is not compared: {left_out[name].why}"
            return TablePlan(None, None, not_compared, refusal)
    names = {mine.name.casefold(): (mine.name, other.name) for mine, other in pairs if as_carried(mine) == AS_IT_IS}
    conditions = translate_condition(where, dialects, names)
    return TablePlan(*_sides(schema, known, dialects, pairs, conditions), not_compared)


def _why_not(
    column: Column, other: Column | None, known: KnownTarget, excluded: Callable[[str], str]
) -> NotCompared | None:
    label = known.treated.get(column.name.casefold(), PLAIN)
    if why := excluded(column.name):
        return NotCompared(column.name, why, is_wanted=True)
    if label != PLAIN:
        return NotCompared(column.name, f"the link treats it: {label.partition(' ')[0]}", is_wanted=True)
    if other is None:
        return NotCompared(column.name, "the target's table has no such column", is_wrong=True)
    if not _same_values(column.type, other.type, known.overflow):
        why = f"it is {column.declaration or column.type} in the source, and {other.declaration or other.type} there"
        return NotCompared(column.name, why, is_wrong=True)
    if kind_of(column.type) is None or (is_array(column.declaration) and array_in_sql(column.declaration) is None):
        return NotCompared(column.name, f"values of {column.declaration or column.type} are not compared yet")
    return None


def _not_written(column: Column, dialects: tuple[AuditDialect, AuditDialect]) -> NotCompared | None:
    """Say that a database cannot write the column's values as the other one does."""
    kind = kind_of(column.type)
    for dialect in dialects:
        if kind in dialect.not_written:
            why = f"{dialect.name} does not write values of {column.declaration or column.type} as others do"
            return NotCompared(column.name, why)
    if column.type == PrintedType("json") and not all(dialect.keeps_json_text for dialect in dialects):
        return NotCompared(column.name, "the target keeps JSON without the text that it was written in")
    return None


def _same_values(type_: ColumnType, other: ColumnType, overflow: Overflow) -> bool:
    """Whether both are of one kind and written alike; only a decimal's scale shows in its text."""
    if kind_of(type_) != kind_of(other):
        return False
    if overflow != "stop" and isinstance(type_, DecimalType) and isinstance(other, DecimalType):
        return type_.scale == other.scale and type_.precision >= other.precision
    return kind_of(type_) not in {"decimal", None} or type_ == other


def _sides(
    schema: TableSchema,
    known: KnownTarget,
    dialects: tuple[AuditDialect, AuditDialect],
    pairs: list[tuple[Column, Column]],
    conditions: tuple[str, str],
) -> tuple[AuditSide, AuditSide]:
    mine, theirs = dialects
    cut = _cut(schema)
    columns = {
        column.name: replace(_of_source(column), held=held_value(dialects, column, known.overflow) or AS_IT_IS)
        for column, _ in pairs
    }
    others = {column.name: _audited(column, other.name) for column, other in pairs}
    living = [f"{theirs.quoted(DELETED_AT.name)} IS NULL"] if known.deletes == "soft" else []
    where = " AND ".join([*living, *([conditions[1]] if conditions[1] else [])])
    named = ((mine, schema.table), (theirs, known.schema.table))
    rows = [dialect.quoted(table.schema, table.name) for dialect, table in named]
    keys = [tuple(side[name] for name in schema.key) for side in (columns, others)]
    return (
        AuditSide(mine, rows[0], tuple(columns.values()), keys[0], cut, where=conditions[0]),
        AuditSide(theirs, rows[1], tuple(others.values()), keys[1], cut, where=where),
    )


def _audited(column: Column, name: str) -> AuditColumn:
    kind = kind_of(column.type)
    assert kind is not None  # noqa: S101 - others were left out
    zero_is_null = isinstance(column.type, DateType | DateTimeType | TimestampType) and column.type.zero_is_null
    return AuditColumn(name, kind, zero_is_null)


def _of_source(column: Column) -> AuditColumn:
    """PostgreSQL's cast cuts the blanks of a CHAR, and may write a type of its own otherwise than it is printed."""
    found = _audited(column, column.name)
    if column.declaration == _BOOLEAN:
        return replace(found, kind="boolean")
    is_cut = column.declaration.startswith(_BLANKS) or column.type == PrintedType("postgres")
    return replace(found, is_cast_text=not is_cut, collation=column.collation)


def _cut(schema: TableSchema) -> Cut:
    first = schema.column(schema.key[0])
    type_ = first.type
    if len(schema.key) > 1 or not isinstance(type_, IntegerType) or first.declaration == _BOOLEAN:
        return "hash"
    return "wide" if type_.unsigned else "integer"

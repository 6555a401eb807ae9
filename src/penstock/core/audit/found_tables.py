"""Tables of which nothing but their catalog is known, and what can be compared of two of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.audit.canonical_text import kind_of
from penstock.core.audit.conditions import translate_condition
from penstock.core.audit.findings import NotCompared
from penstock.core.audit.side import AuditColumn, AuditSide, Cut
from penstock.core.audit.table_plan import TablePlan
from penstock.core.errors import UsageError
from penstock.core.tables import DecimalType, IntegerType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.audit.dialects import AuditDialect, HashForm, Kind
    from penstock.core.tables import TableSchema

_KINDS: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(("smallint", "integer", "bigint", "tinyint", "utinyint", "usmallint", "uinteger"), "integer"),
    **dict.fromkeys(("ubigint", "hugeint", "uhugeint"), "integer"),
    **dict.fromkeys(("real", "double precision", "double", "float"), "float"),
    **dict.fromkeys(("text", "character varying", "varchar", "json", "uuid"), "text"),
    **dict.fromkeys(("bytea", "blob", "binary varying", "varbyte"), "bytes"),
    "boolean": "boolean",
    "date": "date",
    **dict.fromkeys(("timestamp", "timestamp without time zone"), "datetime"),
    "timestamp with time zone": "timestamp",
    "interval": "time",
}
"""By the names that information_schema has in PostgreSQL and in DuckDB. CHAR(n) is not in it: it pads."""
_DECIMAL: Final = re.compile(r"(?:decimal|numeric)\b")
_AS_NUMBERS: Final[Mapping[Kind, Kind]] = {"boolean": "integer", "time": "integer"}
"""Kinds that are written as whole numbers. Where there are no spans of time, they are numbers of microseconds."""
_INTEGER_BITS: Final = frozenset({"smallint", "integer", "bigint", "tinyint", "utinyint", "usmallint", "uinteger"})
_LONG_BITS: Final = 64


@dataclass(frozen=True, slots=True)
class FoundColumn:
    """A column, `kind` None if its values are not compared; `scale` of a decimal. `cut` is how a key of it is cut.

    `why_not` says why the table itself cannot tell its values, "" if it can; `collation` as of `AuditColumn`.
    """

    name: str
    kind: Kind | None
    declared: str
    scale: int = 0
    cut: Cut = "hash"
    why_not: str = ""
    collation: str = ""


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table of a catalog; `rows` is what stands behind FROM, `key` its primary key, empty if it has none."""

    dialect: AuditDialect
    rows: str
    columns: tuple[FoundColumn, ...]
    key: tuple[str, ...]


def printed_columns(rows: Sequence[Sequence[object]]) -> tuple[FoundColumn, ...]:
    """Return columns from (name, type) as PostgreSQL's and Redshift's format_type prints it: `numeric(20,4)`."""
    found = []
    for name, printed in rows:
        plain, _, arguments = str(printed).partition("(")
        scale = arguments.rstrip(")").partition(",")[2] if _DECIMAL.match(plain) else ""
        # What stands behind the digits: `timestamp(6) without time zone`.
        behind = arguments.partition(")")[2]
        found.append(_found(str(name), f"{plain}{behind}", scale or None))
    return tuple(found)


def found_columns(rows: Sequence[Sequence[object]]) -> tuple[FoundColumn, ...]:
    """Return columns of PostgreSQL or DuckDB from (name, type, scale) as information_schema has them."""
    return tuple(_found(str(name), str(type_), scale) for name, type_, scale in rows)


def columns_of(schema: TableSchema) -> tuple[FoundColumn, ...]:
    """Return the columns of a table as Penstock carries it."""
    return tuple(
        FoundColumn(
            column.name,
            "integer" if isinstance(column.type, DecimalType) and not column.type.scale else kind_of(column.type),
            column.declaration,
            column.type.scale if isinstance(column.type, DecimalType) else 0,
            _integer_cut(column.type) if isinstance(column.type, IntegerType) else "hash",
            collation=column.collation,
        )
        for column in schema.columns
    )


def plan_found(
    source: FoundTable, target: FoundTable, key: Sequence[str] = (), form: HashForm = "sha256", *, where: str = ""
) -> TablePlan:
    """Choose what is compared, by `key`, else by the primary key of either, else by all columns together.

    `where` is a condition on the rows that count, in the source's SQL. Raises UsageError as `translate_condition`, and
    for a `key` that neither table has.
    """
    theirs = {column.name.casefold(): column for column in target.columns}
    pairs: list[tuple[FoundColumn, FoundColumn]] = []
    left_out: list[NotCompared] = []
    for column in source.columns:
        other = theirs.pop(column.name.casefold(), None)
        if other is None:
            left_out.append(NotCompared(column.name, "the other table has no such column", is_wrong=True))
        elif why := column.why_not or other.why_not or _not_written(column, (source.dialect, target.dialect)):
            left_out.append(NotCompared(column.name, why))
        elif why := _why_not(column, other):
            both_known = column.kind is not None and other.kind is not None
            left_out.append(NotCompared(column.name, why, is_wrong=both_known))
        else:
            pairs.append((column, other))
    left_out += [NotCompared(name, "the first table has no such column", is_wrong=True) for name in theirs]
    names = [name.casefold() for name in key or source.key or target.key or [mine.name for mine, _ in pairs]]
    keyed = {mine.name.casefold(): (mine, other) for mine, other in pairs}
    columns = {column.name.casefold() for column in (*source.columns, *target.columns)}
    if strange := [name for name in names if name not in columns]:
        message = f"neither table has a column {', '.join(strange)}, which is to be the key"
        raise UsageError(message, "name columns that both tables have: --key COLUMN, once for each")
    unknown = [name for name in names if name not in keyed]
    if unknown or not pairs:
        refusal = f"the key has {', '.join(unknown)}, which is not compared" if pairs else "no column can be compared"
        return TablePlan(None, None, tuple(left_out), refusal)
    chosen = [keyed[name] for name in names]
    written = {name: (mine.name, other.name) for name, (mine, other) in keyed.items()}
    conditions = translate_condition(where, (source.dialect, target.dialect), written)
    sides = [
        AuditSide(
            table.dialect,
            table.rows,
            tuple(_audited(pair[place]) for pair in pairs),
            tuple(_audited(pair[place]) for pair in chosen),
            _cut(chosen),
            form,
            conditions[place],
        )
        for place, table in enumerate((source, target))
    ]
    return TablePlan(sides[0], sides[1], tuple(left_out))


def _found(name: str, type_: str, scale: object) -> FoundColumn:
    plain = type_.lower()
    if _DECIMAL.match(plain):
        digits = int(str(scale)) if scale is not None else 0
        # A NUMERIC of any scale writes each value with its own.
        kind: Kind | None = None if scale is None else "decimal" if digits else "integer"
        return FoundColumn(name, kind, type_, digits, "wide" if kind == "integer" else "hash")
    kind = "text" if plain.startswith("enum(") else _KINDS.get(plain)
    cut: Cut = "integer" if plain in _INTEGER_BITS else "wide" if plain == "ubigint" else "hash"
    return FoundColumn(name, kind, type_, 0, cut)


def _integer_cut(type_: IntegerType) -> Cut:
    return "wide" if type_.unsigned and type_.bits == _LONG_BITS else "integer"


def _why_not(column: FoundColumn, other: FoundColumn) -> str:
    if column.kind is None or other.kind is None:
        return f"values of {column.declared} and {other.declared} are not compared yet"
    kinds = [_AS_NUMBERS.get(each.kind, each.kind) for each in (column, other) if each.kind]
    if kinds[0] != kinds[1] or column.scale != other.scale:
        return f"it is {column.declared} in the first table, and {other.declared} in the other"
    return ""


def _not_written(column: FoundColumn, dialects: tuple[AuditDialect, AuditDialect]) -> str:
    """Say that a database cannot write the column's values as the other one does."""
    names = [dialect.name for dialect in dialects if column.kind in dialect.not_written]
    return f"{names[0]} does not write values of {column.declared} as others do" if names else ""


def _audited(column: FoundColumn) -> AuditColumn:
    assert column.kind is not None  # noqa: S101 - others were left out
    return AuditColumn(column.name, column.kind, collation=column.collation)


def _cut(chosen: Sequence[tuple[FoundColumn, FoundColumn]]) -> Cut:
    """By the key's value where both sides have whole numbers of one kind, so that both cut alike."""
    mine, other = chosen[0]
    return mine.cut if len(chosen) == 1 and mine.cut == other.cut else "hash"

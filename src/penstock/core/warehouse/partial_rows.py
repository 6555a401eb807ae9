"""Rows that lack columns, made whole before a merge: by older changes, by defaults, by the target's own rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.core.errors import FULL_REFRESH, TableStoppedError
from penstock.core.files import LACKS, OFFSET, OP
from penstock.core.warehouse.dialect import quote_name
from penstock.core.warehouse.fill_values import render_fill_value
from penstock.core.warehouse.row_keys import key_terms, same_key

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock.core.tables import Column, TableSchema
    from penstock.core.warehouse.dialect import Dialect
    from penstock.core.warehouse.target_table import TargetTable

WHOLE = "__penstock_whole"
"""The temporary table with one whole row for each key."""
_LATEST = "__penstock_latest"
_UNKNOWN = "__penstock_unknown"


@dataclass(frozen=True, slots=True)
class Lacking:
    """The columns that some staged rows lack, by name: rows that were created, and rows that were changed."""

    created: Collection[str]
    changed: Collection[str]

    def __bool__(self) -> bool:
        """Whether any row lacks anything."""
        return bool(self.created or self.changed)


@dataclass(frozen=True, slots=True)
class Completion:
    """Statements, in this order: make the table, if there is one, count rows that stay without a value, drop it.

    `whole` is the (quoted) name of the table with one whole row for each key, or the query for them in brackets.
    """

    whole: str
    create: str
    count_orphans: str
    drop: str


def plan_completion(
    dialect: Dialect, target: TargetTable, arriving: TableSchema, staged: str, lacking: Lacking
) -> Completion:
    """Return how to make rows of `staged`, laid out as files of `arriving`, whole.

    The temporary table `WHOLE`, or a query, has the newest change of each key, in the
    same layout but for `LACKS`, and can be merged in place of `staged`. A column that
    a changed row lacks has the value it had before: in an older staged row, else
    in the target. One that a created row lacks has its default. Raises
    TableStoppedError where only the source knows that.
    """
    newest = _Newest(dialect, arriving, lacking)
    there = {column.name.casefold(): column for column in target.schema.columns}
    columns = [newest.value(column, there.get(column.name.casefold())) for column in arriving.columns]
    op, offset, key = (quote_name(dialect, name) for name in (OP, OFFSET, arriving.key[0]))
    same_row = same_key(dialect, arriving, "r", "t")
    unknown = " OR ".join(f"r.{newest.unknown(column)} = 1" for column in newest.changed) or "1 = 0"
    whole, is_orphan = quote_name(dialect, WHOLE), quote_name(dialect, _UNKNOWN)
    query = (
        f"SELECT {', '.join(columns)}, r.{op}, r.{offset}, "  # noqa: S608 - names are quoted
        f"CASE WHEN r.{op} <> 'd' AND t.{key} IS NULL AND ({unknown}) THEN 1 ELSE 0 END AS {is_orphan} "
        f"FROM ({newest.select(staged)}) AS r LEFT JOIN {target.path(dialect)} AS t ON {same_row} "
        f"WHERE r.{quote_name(dialect, _LATEST)} = 1"
    )
    if dialect.scratch == "QUERY":
        count = f"SELECT COUNT(*) FROM ({query}) AS s WHERE {is_orphan} = 1"  # noqa: S608 - names are quoted
        return Completion(f"({query})", "", count, "")
    create = f"CREATE TEMPORARY {dialect.scratch} {whole} AS {query}"
    count = f"SELECT COUNT(*) FROM {whole} WHERE {is_orphan} = 1"  # noqa: S608 - names are quoted
    return Completion(whole, create, count, f"DROP {dialect.scratch} {whole}")


@dataclass(frozen=True, slots=True)
class _Newest:
    """A query for the newest change of each key, `r`, and the newest value that each column has in the staged rows."""

    dialect: Dialect
    schema: TableSchema
    lacking: Lacking

    @property
    def changed(self) -> list[Column]:
        """The columns whose value may have to be the target's."""
        return [column for column in self.schema.columns if column.name in self.lacking.changed]

    def unknown(self, column: Column) -> str:
        """Name the flag that no staged row of the key has a value of `column`."""
        return quote_name(self.dialect, f"{_UNKNOWN}_{self.schema.columns.index(column)}")

    def value(self, column: Column, in_target: Column | None) -> str:
        """Choose the value of `column` from `r`, or from the row `t` of the target."""
        name = quote_name(self.dialect, column.name)
        if column.name not in self.lacking.changed or in_target is None:
            return f"r.{name}"
        older = f"t.{quote_name(self.dialect, in_target.name)}"
        return f"CASE WHEN r.{self.unknown(column)} = 1 THEN {older} ELSE r.{name} END AS {name}"

    def select(self, staged: str) -> str:
        """Select all staged rows, `_LATEST` numbering those of a key from the newest on."""
        key = ", ".join(key_terms(self.dialect, self.schema, "s"))
        op, offset = (f"s.{quote_name(self.dialect, name)}" for name in (OP, OFFSET))
        latest = quote_name(self.dialect, _LATEST)
        listed = [op, offset, f"ROW_NUMBER() OVER (PARTITION BY {key} ORDER BY {offset} DESC) AS {latest}"]
        for index, column in enumerate(self.schema.columns):
            lacks = f"SUBSTR(s.{quote_name(self.dialect, LACKS)}, {index + 1}, 1) = '1'"
            name = quote_name(self.dialect, column.name)
            value = f"s.{name}"
            if column.name in self.lacking.created:
                default = _default(self.dialect, self.schema, column)
                value = f"CASE WHEN {lacks} AND {op} <> 'u' THEN {default} ELSE {value} END"
            if column.name in self.lacking.changed:
                unknown = f"CASE WHEN {lacks} AND {op} = 'u' THEN 1 ELSE 0 END"
                listed.append(f"MIN({unknown}) OVER (PARTITION BY {key}) AS {self.unknown(column)}")
                newest_first = f"ORDER BY {unknown}, {offset} DESC"
                rows = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
                value = f"FIRST_VALUE({value}) OVER (PARTITION BY {key} {newest_first} {rows})"
            listed.append(f"{value} AS {name}")
        return f"SELECT {', '.join(listed)} FROM {staged} AS s"  # noqa: S608 - names are quoted


def _default(dialect: Dialect, schema: TableSchema, column: Column) -> str:
    try:
        return render_fill_value(dialect, replace(column, filled=None))
    except ValueError as error:
        reason = f"a row was inserted without it, and {error}"
        hint = f"set binlog_row_image=FULL in the source; then {FULL_REFRESH}"
        raise TableStoppedError(str(schema.table), column.name, "the target's table", reason, hint) from error

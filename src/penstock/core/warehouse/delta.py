"""Delta tables: their dialect, which is Spark's, and the queries and statements that make their commits.

A table's columns are data in its log ("metaData"), so a change of them needs no
statement: `penstock.core.warehouse.delta_schema` makes it. Here is what writes rows.

Sources: Spark SQL reference, "Data Types" and "Literals"; Delta Lake
documentation, "Upsert into a table using merge"; Delta transaction log protocol,
"Primitive Types".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.files import FILE, OP, POS, ROW, TS_MS
from penstock.core.tables import taken_names
from penstock.core.warehouse.alter import plan_migration
from penstock.core.warehouse.columns import LOG_COLUMNS, REFRESH_OR_ANEW, by_name, cast_value, fill_value, stopped
from penstock.core.warehouse.dialect import Dialect, quote_name, quote_text, render_type
from penstock.core.warehouse.migration import Around
from penstock.core.warehouse.planner import check_key, newest_rows, plan_create, project_rows
from penstock.core.warehouse.row_keys import same_key
from penstock.core.warehouse.target_table import TargetTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.tables import Column, TableSchema
    from penstock.core.warehouse.load_plan import Deletes
    from penstock.core.warehouse.migration import Check
    from penstock.core.warehouse.target_table import LogPlace

DELTA: Final = Dialect(
    name="delta",
    integers={
        (8, False): "TINYINT",
        (8, True): "SMALLINT",
        (16, False): "SMALLINT",
        (16, True): "INT",
        (24, False): "INT",
        (24, True): "INT",
        (32, False): "INT",
        (32, True): "BIGINT",
        (64, False): "BIGINT",
        (64, True): "DECIMAL(20, 0)",
    },
    floats={32: "FLOAT", 64: "DOUBLE"},
    decimal="DECIMAL({precision}, {scale})",
    decimal_precision_max=38,
    text="STRING",
    binary="BINARY",
    date="DATE",
    time="BIGINT",
    time_is_microseconds=True,
    datetime="TIMESTAMP_NTZ",
    timestamp="TIMESTAMP",
    year="SMALLINT",
    printed={
        "json": "STRING",
        "uuid": "STRING",
        "inet4": "STRING",
        "inet6": "STRING",
        "date": "STRING",
        "datetime": "STRING",
        "timestamp": "STRING",
        "postgres": "STRING",
    },
    vector="ARRAY<FLOAT>",
    identifier_quote="`",
    blob="X'{hex}'",
    instant_of_ms="TIMESTAMP_MILLIS({ms})",
    utc="+00:00",
    escapes_backslash=True,
    fills_by_default=False,
    scratch="VIEW",
)
"""Spark SQL over Delta tables. DECIMAL ends at 38 digits; there are no unsigned integers and no spans of time."""


def check_table(schema: TableSchema, deletes: Deletes) -> None:
    """Raise TableStoppedError for a table that Delta cannot hold."""
    plan_create(DELTA, TargetTable("", schema, deletes))


def plan_checks(before: TargetTable, renames: Sequence[tuple[str, str]], after: TableSchema) -> tuple[Check, ...]:
    """Return what must be true before the rows of `before`, a table `at_path`, become those of one for `after`.

    First some columns get other names (old, new). Raises TableStoppedError where the rows cannot.
    """
    if bool(before.schema.key) != bool(after.key):
        reason = f"its primary key was {'added' if after.key else 'dropped'}, which makes it another kind of table"
        raise stopped(after, "", reason, REFRESH_OR_ANEW)
    renamed = before.schema.with_columns_renamed(renames)
    there = at_path(renamed, _renamed_rows(before, renames), before.deletes)
    return plan_migration(DELTA, there, after, Around(renames_are_told=True)).checks


def plan_no_rows(table: TargetTable) -> str:
    """Return a query with the columns of the table and without rows."""
    columns = (*table.schema.columns, *table.own_columns)
    values = (f"CAST(NULL AS {render_type(DELTA, c.type)}) AS {quote_name(DELTA, c.name)}" for c in columns)
    return f"SELECT {', '.join(values)} WHERE 1 = 0"


def plan_rewrite(before: TargetTable, renames: Sequence[tuple[str, str]], after: TableSchema) -> str:
    """Return the query for the rows of `before`, a table `at_path`, as the one for `after` has them.

    First some columns get other names (old, new), all at once.
    """
    names, values = _project_table(before.schema.with_columns_renamed(renames), after, before.deletes)
    return f"SELECT {_aliased(names, values)} FROM {_renamed_rows(before, renames)} AS s"  # noqa: S608 - names are quoted


def plan_append(schema: TableSchema, arriving: TableSchema, staged: str) -> str:
    """Return the query for the entries of a change log that the rows of `staged` are."""
    names, values = project_rows(DELTA, TargetTable("", schema), arriving)
    return f"SELECT {_aliased(names, values)} FROM {staged} AS s"  # noqa: S608 - names are quoted


def plan_truncate_entry(schema: TableSchema, place: LogPlace) -> str:
    """Return the query for the entry of a change log that says that the source emptied the table."""
    logged = {
        OP: "'t'",
        FILE: quote_text(place.file, DELTA),
        POS: f"CAST({place.pos} AS BIGINT)",
        ROW: f"CAST({place.row} AS INT)",
        TS_MS: DELTA.instant_of_ms.format(ms=place.timestamp_ms),
    }
    values = [f"CAST(NULL AS {render_type(DELTA, column.type)})" for column in schema.columns]
    names = [quote_name(DELTA, column.name) for column in (*schema.columns, *LOG_COLUMNS.values())]
    return f"SELECT {_aliased(names, [*values, *(logged[name] for name in LOG_COLUMNS)])}"


def plan_delta_merge(target: TargetTable, arriving: TableSchema, staged: str) -> str:
    """Return the MERGE that brings the newest change of each key among the rows of `staged` into a table `at_path`.

    `staged` and `arriving` are as in `plan_merge`. Raises TableStoppedError where the rows do not fit.
    """
    names, values = project_rows(DELTA, target, arriving)
    check_key(target.schema, arriving)
    same_row = same_key(DELTA, arriving, "s", "t")
    changes = ", ".join(f"t.{name} = {value}" for name, value in zip(names, values, strict=True))
    gone = f"s.{quote_name(DELTA, OP)} = 'd'"
    goes, comes = (
        (f"WHEN MATCHED AND {gone} THEN DELETE ", f"AND NOT ({gone}) ") if target.deletes == "hard" else ("", "")
    )
    return (
        f"MERGE INTO {target.path(DELTA)} AS t USING (SELECT s.* FROM {newest_rows(DELTA, arriving, staged)}) AS s "  # noqa: S608 - names are quoted
        f"ON {same_row} {goes}WHEN MATCHED THEN UPDATE SET {changes} "
        f"WHEN NOT MATCHED {comes}THEN INSERT ({', '.join(names)}) VALUES ({', '.join(values)})"
    )


def at_path(schema: TableSchema, path: str, deletes: Deletes = "hard") -> TargetTable:
    """Return the table as one whose name in statements is `path`, quoted already."""
    return TargetTable("", schema, deletes, known_as=path)


def _renamed_rows(before: TargetTable, renames: Sequence[tuple[str, str]]) -> str:
    new_names, taken = dict(renames), taken_names(renames)
    kept = [name for name in before.column_names if name.casefold() not in taken]
    listed = ", ".join(_named(quote_name(DELTA, name), new_names.get(name, name)) for name in kept)
    return f"(SELECT {listed} FROM {before.path(DELTA)})"  # noqa: S608 - names are quoted


def _project_table(before: TableSchema, after: TableSchema, deletes: Deletes) -> tuple[list[str], list[str]]:
    """Return the (quoted) columns of the table for `after`, and what each is in a row `s` of the table for `before`."""
    there = by_name(before)
    names = [quote_name(DELTA, column) for column in TargetTable("", after, deletes).column_names]
    values = []
    for name, column in by_name(after).items():
        old = there.get(name)
        values.append(cast_value(DELTA, after, column, old) if old else _typed_fill_value(after, column))
    return names, [*values, *(f"s.{name}" for name in names[len(values) :])]


def _typed_fill_value(after: TableSchema, column: Column) -> str:
    """A table that is made of a query would have a column of NULLs without a type, which no value can be written to."""
    value = fill_value(DELTA, after, column)
    return f"CAST(NULL AS {render_type(DELTA, column.type)})" if value == "NULL" else value


def _aliased(names: Sequence[str], values: Sequence[str]) -> str:
    return ", ".join(f"{value} AS {name}" for name, value in zip(names, values, strict=True))


def _named(quoted: str, name: str) -> str:
    return f"{quoted} AS {quote_name(DELTA, name)}"

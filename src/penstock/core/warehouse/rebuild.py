"""A table that is made anew: a new one, a copy of the rows into it, and the new one in the place of the old.

A change log that gets a primary key becomes the rows that it stands for, and a
table that loses its key becomes a change log whose first entries are its rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.core.files import FILE, OP, POS, ROW, TS_MS
from penstock.core.tables import TableId
from penstock.core.warehouse.attributes import Attributes, plan_attributes
from penstock.core.warehouse.columns import DELETED_AT, by_name, cast_value, column_type, fill_value, stopped
from penstock.core.warehouse.dialect import Dialect, quote_name, quote_text
from penstock.core.warehouse.key_index import plan_key_index
from penstock.core.warehouse.migration import Check, Migration
from penstock.core.warehouse.other_key import SIGN, behind_truncates
from penstock.core.warehouse.row_keys import value_terms

if TYPE_CHECKING:
    from penstock.core.tables import TableSchema
    from penstock.core.warehouse.migration import Around
    from penstock.core.warehouse.target_table import LogPlace, TargetTable

_COPY = "__penstock_copy"


def plan_rebuild(dialect: Dialect, target: TargetTable, after: TableSchema, around: Around) -> Migration:
    """Return how `target` is replaced by a table for `after`, with its rows if it has any.

    Raises TableStoppedError where something would be lost.
    """
    new = replace(target, schema=after)
    refuse_losses(target, around.attributes, "it has to be recreated")
    path, schema = target.path(dialect), after.table.schema if dialect.renames_to_path else ""
    name = quote_name(dialect, schema, after.table.name)
    copy = _copy_path(dialect, new, _copy_name(dialect, after.table))
    definition = new.definition(dialect, around.attributes.spread)
    select = _select(dialect, target, after, around.place) if around.has_rows else ""
    if dialect.replaced:
        forms = dialect.replaced_by_copy if select else (dialect.replaced,)
        statements = [form.format(path=path, copy=copy, columns=definition, select=select) for form in forms]
    else:
        names = ", ".join(quote_name(dialect, column) for column in new.column_names)
        statements = [f"CREATE TABLE {copy} {definition}"]
        statements += [f"INSERT INTO {copy} ({names}) {select}"] if select else []
        statements += [f"DROP TABLE {path}", f"ALTER TABLE {copy} RENAME TO {name}"]
    # Its indexes have their own names, which ours, that has none, must not take before them.
    statements += plan_attributes(dialect, path, new.column_names, replace(around.attributes, owner=""))
    if target.schema.key != after.key:
        statements += plan_key_index(dialect, path, after)
    statements += plan_attributes(dialect, path, (), Attributes(owner=around.attributes.owner))
    checks = [*_log_checks(dialect, target, after, around)]
    going = frozenset(by_name(target.schema)) - frozenset(by_name(after))
    return Migration(tuple(statements), tuple(checks), going=going, is_remade=True)


def plan_copy_drops(dialect: Dialect, target: TargetTable) -> list[str]:
    """Return the statements that drop what `plan_rebuild`, or an older release's, may have left half done."""
    names = dict.fromkeys([_copy_name(dialect, target.schema.table), _COPY])
    return [f"DROP TABLE IF EXISTS {_copy_path(dialect, target, name)}" for name in names]


def _copy_name(dialect: Dialect, table: TableId) -> str:
    # Where definitions are no part of a transaction, two tables may be made anew at once.
    return f"{_COPY}/{table.name}" if dialect.definitions_commit else _COPY


def _copy_path(dialect: Dialect, target: TargetTable, name: str) -> str:
    table = TableId(target.schema.table.schema, name)
    return replace(target, schema=replace(target.schema, table=table)).path(dialect)


def refuse_losses(target: TargetTable, kept: Attributes, why: str) -> None:
    """Raise TableStoppedError if another table is to be in the place of `target` and would lack some of `kept`."""
    ours = {name.casefold() for name in target.column_names}
    others = [name for name in kept.columns if name.casefold() not in ours]
    lost = [*kept.unkept, *(f"column {name}" for name in others)]
    if lost:
        reason = f"{why}, and would lose what somebody added to it: {', '.join(lost)}"
        raise stopped(target.schema, "", reason, "drop these, and make them again when the table has gone on")


def _log_checks(dialect: Dialect, target: TargetTable, after: TableSchema, around: Around) -> list[Check]:
    """A change log says what is behind a TRUNCATE by places in one server's log."""
    if target.schema.key or not after.key or not around.place.timeline:
        return []
    op = quote_name(dialect, "_op")
    query = f"SELECT {op} FROM {target.path(dialect)} WHERE {op} = 't' LIMIT 1"  # noqa: S608 - names are quoted
    return [Check(query, "", "it got a primary key, was once emptied, and has changes of more than one server")]


def _select(dialect: Dialect, target: TargetTable, after: TableSchema, place: LogPlace) -> str:
    """Return the SELECT of the rows that the new table begins with."""
    there, path = by_name(target.schema), target.path(dialect)
    values = []
    for name, column in by_name(after).items():
        old = there.get(name)
        values.append(cast_value(dialect, after, column, old) if old else fill_value(dialect, after, column))
    own = f"s.{quote_name(dialect, DELETED_AT.name)}"
    living = f" WHERE {own} IS NULL" if target.deletes == "soft" and target.schema.key and not after.key else ""
    if target.schema.key and after.key:
        values += [own] if target.deletes == "soft" else []
    elif target.schema.key:
        values += _entry(dialect, place)
    elif after.key:
        values += [f"CAST(NULL AS {dialect.timestamp})"] if target.deletes == "soft" else []
        path = f"({_present_rows(dialect, target)})"
    else:
        values += [f"s.{quote_name(dialect, column.name)}" for column in target.own_columns]
    return f"SELECT {', '.join(values)} FROM {path} AS s{living}"  # noqa: S608 - names are quoted


def _entry(dialect: Dialect, place: LogPlace) -> list[str]:
    """Return what a change log says of a row that is there when the log begins, in the order of `LOG_COLUMNS`."""
    committed_at = dialect.instant_of_ms.format(ms=place.timestamp_ms)
    by_column = {
        OP: "'r'",
        FILE: quote_text(place.file, dialect),
        POS: str(place.pos),
        ROW: str(place.row),
        TS_MS: committed_at,
    }
    return list(by_column.values())


def _present_rows(dialect: Dialect, log: TargetTable) -> str:
    """Return the query for the rows that a change log stands for."""
    listed, grouped = [], []
    for column in log.schema.columns:
        name = quote_name(dialect, column.name)
        type_ = column_type(dialect, log.schema, column)
        if type_ in dialect.not_grouped:
            text = f"CAST(s.{name} AS {dialect.text_type(1 << 30, 1 << 30)})"
            listed.append(f"CAST({text} AS {type_}) AS {name}")
            grouped.append(text)
        else:
            listed.append(f"s.{name}")
            grouped += value_terms(dialect, column.type, f"s.{name}")
    return (
        f"SELECT {', '.join(listed)} FROM {log.path(dialect)} AS s "  # noqa: S608 - names are quoted
        f"WHERE {behind_truncates(dialect, log)} GROUP BY {', '.join(grouped)} HAVING SUM({SIGN}) > 0"
    )

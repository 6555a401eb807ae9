"""Keeps a link's rules for columns in a lake, where what is known of a table's columns is part of its progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.tables import TableId
from penstock.core.transforms.column_patterns import copied_table
from penstock.links.warehouse.treatments import Histories, Treated, first_history, treat_moves, treat_step

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.schema_changes import Move
    from penstock.core.tables import TableSchema
    from penstock.core.transforms.column_history import ColumnHistory
    from penstock.core.transforms.column_rules import ColumnRules
    from penstock.core.warehouse.load_plan import Step
    from penstock.links.warehouse.lake_state import TableProgress
    from penstock.links.warehouse.lake_tables import LakeTables


def treat_step_of_lake(
    rules: ColumnRules, tables: LakeTables, known: TableProgress | None, step: Step, schema: TableSchema
) -> Treated:
    """Do what the link's rules say; where it has none, what was hidden by those that it had must not show."""
    if not (rules or (known and known.columns)):
        return Treated(step, schema)
    copied = copied_table(schema.table)
    original = None if copied is None else tables.look(copied)
    histories = Histories(_history(known), original.columns if original else None)
    return treat_step(rules, histories, known.state if known else None, step, schema)


def treat_moves_of_lake(
    rules: ColumnRules,
    moves: Sequence[Move],
    known: Mapping[TableId, TableProgress | None],
    schemas: Mapping[int, TableSchema],
) -> tuple[Mapping[int, TableSchema], Mapping[TableId, ColumnHistory]]:
    """Do as `treat_moves`, with what is `known` of the old names and of the new ones."""
    origins = {TableId.parse(move.origin): known[TableId.parse(move.origin)] for move in moves}
    if not (rules or any(progress and progress.columns for progress in origins.values())):
        return schemas, {}
    histories = {table: progress.columns for table, progress in known.items() if progress and progress.columns}
    histories |= {origin: _history(progress) for origin, progress in origins.items()}
    return treat_moves(rules, moves, histories, schemas)


def _history(known: TableProgress | None) -> ColumnHistory:
    return known.columns if known and known.columns else first_history(known.state if known else None)

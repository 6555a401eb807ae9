"""What a link's rules for columns do to the steps of a load, and what a target has to remember of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.tables import TableId
from penstock.core.transforms.column_history import ColumnHistory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.schema_changes import Move
    from penstock.core.tables import TableSchema
    from penstock.core.transforms.column_rules import ColumnRules, Treatment
    from penstock.core.warehouse.load_plan import Step
    from penstock.links.warehouse.progress import TableState


@dataclass(frozen=True, slots=True)
class Treated:
    """A step with what is to be done to its rows, the schema that they then have, and what is known of the table then.

    `history` is None where that is as before.
    """

    step: Step
    schema: TableSchema
    history: ColumnHistory | None = None


def first_history(known: TableState | None) -> ColumnHistory:
    """Return what is known of a table of which nothing was kept: before a link had any rules all came as it is."""
    return ColumnHistory() if known is None else ColumnHistory.of_plain(known.schema)


def treat_step(
    rules: ColumnRules, history: ColumnHistory, known: TableState | None, step: Step, schema: TableSchema
) -> Treated:
    """Treat a step, whose files have `schema`, of a table that the target has as `known`.

    Raises what `ColumnRules.treat` raises.
    """
    if known is None or (step.kind is SchemaChangeKind.CREATE and known.has_before_it(step)):
        if step.kind is not SchemaChangeKind.DROP:
            rules.require_known(schema)
        treatment, begun = rules.treat(schema, ColumnHistory())
        return Treated(_with_treatment(step, treatment, ()), treatment.schema, begun)
    if step.kind is not SchemaChangeKind.SCHEMA:
        # The table empties or ends; its columns stay as they are.
        return Treated(step, known.schema)
    if not known.in_place.gives_way_to(step):
        treatment, _ = rules.treat(schema, history)
        return Treated(_with_treatment(step, treatment, ()), treatment.schema)
    treatment, followed = rules.treat(schema, history.with_columns_renamed(step.column_renames))
    there = {column.name for column in known.schema.columns}
    renames = tuple((old, new) for old, new in step.column_renames if old in there)
    return Treated(_with_treatment(step, treatment, renames), treatment.schema, followed)


def treat_moves(
    rules: ColumnRules,
    moves: Sequence[Move],
    histories: Mapping[TableId, ColumnHistory],
    schemas: Mapping[int, TableSchema],
) -> tuple[dict[int, TableSchema], dict[TableId, ColumnHistory]]:
    """Follow tables that get other names: return what their `schemas` become, and what is known by their new names.

    `histories` are those of the old names. Raises as `ColumnRules.treat`.
    """
    treated: dict[int, TableSchema] = {}
    followed: dict[TableId, ColumnHistory] = {}
    for move in moves:
        origin = TableId.parse(move.origin)
        treatment, history = rules.treat(schemas[move.schema_id], histories[origin].with_table_renamed(origin))
        treated[move.schema_id] = treatment.schema
        followed[TableId.parse(move.table)] = history
    return treated, followed


def _with_treatment(step: Step, treatment: Treatment, renames: tuple[tuple[str, str], ...]) -> Step:
    """Return `step` with the treatment of its rows, and the renames of columns that the target has."""
    first, *rest = (replace(piece, treatment=treatment if treatment.steps else None) for piece in step.pieces)
    return replace(step, pieces=(replace(first, batch=replace(first.batch, column_renames=renames)), *rest))

"""What a link's rules for columns do to the steps of a load, and what a target has to remember of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.core.errors import FULL_REFRESH, TableStoppedError
from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.tables import TableId
from penstock.core.transforms.column_history import ColumnHistory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.schema_changes import Move
    from penstock.core.tables import TableSchema
    from penstock.core.transforms.column_rules import ColumnRules, Treatment
    from penstock.core.warehouse.load_plan import Step
    from penstock.links.warehouse.table_state import TableState


@dataclass(frozen=True, slots=True)
class Treated:
    """A step with what is to be done to its rows, the schema that they then have, and what is known of the table then.

    `history` is None where that is as before.
    """

    step: Step
    schema: TableSchema
    history: ColumnHistory | None = None


@dataclass(frozen=True, slots=True)
class Histories:
    """What is known of a table's columns, and of those of its `original`, where it is a copy to be swapped in."""

    own: ColumnHistory
    original: ColumnHistory | None = None


def first_history(known: TableState | None) -> ColumnHistory:
    """Return what is known of a table of which nothing was kept: before a link had any rules all came as it is."""
    return ColumnHistory() if known is None else ColumnHistory.of_plain(known.schema)


def treat_step(
    rules: ColumnRules, histories: Histories, known: TableState | None, step: Step, schema: TableSchema
) -> Treated:
    """Treat a step, whose files have `schema`, of a table that the target has as `known`.

    Raises what `ColumnRules.treat` raises.
    """
    history = histories.own
    if known is None or (step.kind is SchemaChangeKind.CREATE and known.has_before_it(step)):
        past = (histories.original or history).with_columns_renamed(step.column_renames)
        if step.kind is SchemaChangeKind.DROP:
            treatment, begun = rules.treat(schema, past.begun_anew())
        else:
            treatment, begun = rules.begin(schema, past)
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

    `histories` are those of the old names, and of the new ones as far as there are any: a column
    that has been hidden under a name must not show there. Raises as `ColumnRules.treat`.
    """
    treated: dict[int, TableSchema] = {}
    followed: dict[TableId, ColumnHistory] = {}
    for move in moves:
        origin = TableId.parse(move.origin)
        table, schema = TableId.parse(move.table), schemas[move.schema_id]
        treatment, own = rules.treat(schema, histories[origin].with_table_renamed(origin))
        history = own.with_names_of(histories.get(table, ColumnHistory()))
        _, there = rules.treat(schema, history.begun_anew())
        for column in (each.name for each in schema.columns):
            if own.treated[column.casefold()] != there.treated[column.casefold()]:
                raise _differs(schema, column, origin)
        treated[move.schema_id] = treatment.schema
        followed[table] = history
    return treated, followed


def _differs(schema: TableSchema, column: str, origin: TableId) -> TableStoppedError:
    reason = (
        f"a column of this name had another one before, by which the link's rules go, and {origin}, whose rows come in "
        "its place, did not come by them"
    )
    hint = f"{FULL_REFRESH} with {schema.table} for TABLE; and look at {origin} in the target, which has the column"
    return TableStoppedError(str(schema.table), column, "the link's columns", reason, hint)


def _with_treatment(step: Step, treatment: Treatment, renames: tuple[tuple[str, str], ...]) -> Step:
    """Return `step` with the treatment of its rows, and the renames of columns that the target has."""
    first, *rest = (replace(piece, treatment=treatment if treatment.steps else None) for piece in step.pieces)
    return replace(step, pieces=(replace(first, batch=replace(first.batch, column_renames=renames)), *rest))

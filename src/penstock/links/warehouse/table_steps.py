"""What a step of a load makes of a table: decided here, once for every kind of sink, and done by the sink.

Each decision has what is known of the table once it is done, which the sink writes
down with it: in the same transaction or commit, so that it is done at most once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.warehouse.load_plan import SchemaInPlace
from penstock.core.warehouse.planner import keep_fill_values
from penstock.links.warehouse.barriers import rename_origin
from penstock.links.warehouse.table_state import TableState, check_behind_barrier, require_rows

if TYPE_CHECKING:
    from penstock.core.tables import TableSchema
    from penstock.core.warehouse.load_plan import Deletes, Step


@dataclass(frozen=True, slots=True)
class Make:
    """There is no table yet: make it."""

    after: TableState


@dataclass(frozen=True, slots=True)
class MakeAnew:
    """The source made it anew: the table begins again, without the rows of `before`."""

    before: TableState
    after: TableState


@dataclass(frozen=True, slots=True)
class Empty:
    """The source emptied it."""

    before: TableState
    after: TableState


@dataclass(frozen=True, slots=True)
class End:
    """The source has it no more; None `before` where nothing of it came to this target."""

    before: TableState | None
    after: TableState


@dataclass(frozen=True, slots=True)
class Keep:
    """It has the columns of these rows, or of newer ones, already."""

    after: TableState


@dataclass(frozen=True, slots=True)
class Migrate:
    """Its columns change; `renamed` is the schema of `before` with the names that some of them get first."""

    before: TableState
    renamed: TableSchema
    after: TableState


Crossing: TypeAlias = Make | MakeAnew | Empty | End
Following: TypeAlias = Make | Keep | Migrate


def plan_barrier(known: TableState | None, step: Step, schema: TableSchema, deletes: Deletes) -> Crossing | None:
    """Decide what a barrier makes of a table; None if it was crossed before.

    `schema` is what the target can hold of the table's schema behind it. Raises
    TableStoppedError for rows of another name that are not in this target.
    """
    if known is not None and not known.has_before_it(step):
        return None
    if step.kind is SchemaChangeKind.RENAME:
        # Where the rows of the other name are here too, `rename` came before, and the table is past this.
        require_rows(None, rename_origin(step), schema.table)
    order = step.last_order
    begun = TableState(schema, SchemaInPlace(step.schema_id, order), order, deletes=deletes)
    if step.kind is SchemaChangeKind.DROP:
        return End(known, (known or begun).end(order))
    if known is None:
        return Make(begun)
    if step.kind is SchemaChangeKind.CREATE:
        return MakeAnew(known, begun)
    return Empty(known, replace(known, barrier=order))


def plan_columns(known: TableState | None, step: Step, schema: TableSchema, deletes: Deletes) -> Following:
    """Decide what the schema that `step` brings, as the target can hold it, makes of a table.

    Raises PositionError for rows from before the newest barrier.
    """
    check_behind_barrier(known, step)
    if known is None:
        return Make(TableState(schema, SchemaInPlace(step.schema_id, step.last_order), deletes=deletes))
    in_place = known.in_place.after(step)
    if not known.in_place.gives_way_to(step):
        return Keep(replace(known, in_place=in_place))
    renamed = known.schema.with_columns_renamed(step.column_renames)
    return Migrate(known, renamed, replace(known, schema=keep_fill_values(renamed, schema), in_place=in_place))

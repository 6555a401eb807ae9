"""What may be passed on together, so that every row stays on its side of every schema-change event.

A schema-change event is a place in the source's log at which a table changes its
schema, is emptied, begins or ends. Its table's rows lie in several partitions,
of which some may be read further than others. So a schema-change event waits until
every partition of its table is read up to it, and rows behind one that waits
wait with it. Then whoever follows the batch topic finds all rows of a table that
are before a schema-change event before it, and all others behind it, whatever the
partitions are.

Tables that one statement touches wait for each other. Of everything that waits,
some partition is not read up to the first of it, and what was read of that is
passed on: so it does not wait for ever.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.positions import Order
    from penstock.core.schema_changes import SchemaChange
    from penstock.links.objects.plan import ObjectsPlan
    from penstock.links.objects.write import RangeWritten

SourceTable: TypeAlias = tuple[str, str]
_NOWHERE: Order = (-1, -1, -1)


@dataclass(frozen=True, slots=True)
class Passage:
    """What of a plan goes on: schema-change events with their offsets, and ranges without the batches that wait.

    `waiting` are the offsets of the schema-change events that do not.
    """

    schema_changes: tuple[tuple[int, SchemaChange], ...]
    written: tuple[RangeWritten, ...]
    waiting: tuple[int, ...]


def pass_on(plan: ObjectsPlan, written: Sequence[RangeWritten]) -> Passage:
    """Decide what of a plan, of which `written` is in files, goes on."""
    reached = _reached(written)
    horizons: dict[SourceTable, Order] = {}
    passing: list[tuple[int, SchemaChange]] = []
    waiting: list[int] = []
    for order, statement in groupby(plan.schema_changes, key=lambda each: (each[1].source, each[1].order)):
        told = list(statement)
        tables = {(a.source, table) for _, a in told for table in (str(a.table), *(m.origin for m in a.moves))}
        is_settled = told[-1][0] < plan.settled
        if is_settled and all(t not in horizons and order[1] <= reached.get(t, order[1]) for t in tables):
            passing += told
        else:
            waiting += [offset for offset, _ in told]
            for table in tables:
                horizons.setdefault(table, order[1])
    return Passage(tuple(passing), tuple(_up_to(part, horizons) for part in written), tuple(waiting))


def _reached(written: Sequence[RangeWritten]) -> dict[SourceTable, Order]:
    """For each table with a partition that was not read to its end: the place up to which all of them were read."""
    reached: dict[SourceTable, Order] = {}
    for part in written:
        if not part.is_complete:
            table = (part.range.source, part.range.table)
            last = part.batches[-1].last_order if part.batches else _NOWHERE
            reached[table] = min(last, reached.get(table, last))
    return reached


def _up_to(part: RangeWritten, horizons: Mapping[SourceTable, Order]) -> RangeWritten:
    """Leave out the batches behind a schema-change event that waits; they are written again from where they began."""
    horizon = horizons.get((part.range.source, part.range.table))
    for index, batch in enumerate(part.batches):
        if horizon is not None and batch.first_order >= horizon:
            return replace(part, read_to=batch.start_offset, batches=part.batches[:index], stopped=None)
    return part

"""What `penstock snowflake apply` does, in order: what is dropped goes ahead of everything that is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.errors import PenstockError
from penstock.core.warehouse.landing import plan_table
from penstock.core.warehouse.landing_state import find_cleared, find_halted, plan_clearing, roots_of, treats_otherwise
from penstock.core.warehouse.landing_tasks import plan_graphs, plan_start, tasks_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from penstock.core.tables import TableSchema
    from penstock.core.warehouse.landing import LandingZone
    from penstock.core.warehouse.landing_state import ZoneFound

NO_TABLE: Final = "tasks of no table"


@dataclass(frozen=True, slots=True)
class Work:
    """The statements for a `subject`, a table or `NO_TABLE`; or why there are none, in `refusal`.

    Tasks that it leaves suspended are `halted`, and those that it may leave so where it fails are `at_risk`.
    """

    subject: str
    statements: tuple[str, ...] = ()
    refusal: PenstockError | None = None
    halted: tuple[str, ...] = ()
    at_risk: tuple[str, ...] = ()


def plan_work(
    zone: LandingZone,
    made: Sequence[TableSchema],
    ahead: Sequence[TableSchema],
    found: ZoneFound,
    pipeline: str | None,
) -> Iterator[Work]:
    """Yield what makes loaded tables (`made`), those `ahead` of their first rows, and what comes after them.

    Tasks that the file has no more, or has elsewhere, are dropped first: Snowflake changes nothing in a graph that
    runs, and their old graphs may be other tables'. `pipeline` is None where another link sees to tasks of no table.
    """
    if pipeline is not None:
        roots = dict.fromkeys(root for name in find_cleared(zone, pipeline, found) for root in roots_of(name, found))
        yield Work(NO_TABLE, tuple(plan_clearing(zone, pipeline, found)), halted=tuple(roots))
    for schema in made:
        yield _plan_table(zone, schema, found, is_made=True)
    for schema in ahead:
        yield _plan_table(zone, schema, found, is_made=False)
    if pipeline is not None:
        roots = dict.fromkeys(f"{task.root}/task" for task in tasks_of(zone, None))
        yield Work(NO_TABLE, tuple(plan_graphs(zone, None)), at_risk=tuple(roots))


def plan_restart(zone: LandingZone, halted: Collection[str], before: ZoneFound, now: ZoneFound) -> Work:
    """Return what lets those of the `halted` tasks run again that ran before and do not now."""
    return Work(NO_TABLE, tuple(plan_start(zone, name) for name in find_halted(halted, before, now)))


def _plan_table(zone: LandingZone, schema: TableSchema, found: ZoneFound, *, is_made: bool) -> Work:
    """Plan a table; the messages of one that is made are merged again where another rule has made its rows."""
    table, task = str(schema.table), found.tasks.get(f"{schema.table}/task")
    at_risk = (f"{table}/task", *(f"{task.root}/task" for task in tasks_of(zone, schema.table)))
    try:
        again = is_made and treats_otherwise(zone, schema, task.definition if task else None)
        statements = plan_table(zone, schema, again=again)
    except PenstockError as error:
        return Work(table, refusal=error, at_risk=at_risk)
    return Work(table, tuple(statements), at_risk=at_risk)

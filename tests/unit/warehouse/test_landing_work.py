"""`penstock snowflake apply` drops what moves before it makes anything, and says what it may leave suspended."""

from __future__ import annotations

from dataclasses import replace

from penstock.core.patterns import TablePatterns
from penstock.core.tables import Column, IntegerType, TableId, TableSchema
from penstock.core.warehouse.landing import LandingZone, plan_landed_merge
from penstock.core.warehouse.landing_rules import ZoneRule
from penstock.core.warehouse.landing_state import StreamFound, TaskFound, ZoneFound
from penstock.core.warehouse.landing_tasks import ZoneTask
from penstock.core.warehouse.landing_work import NO_TABLE, Work, plan_restart, plan_work

ID = Column("id", IntegerType(64, unsigned=False), nullable=False)
OLD, LOADED, NEW = (TableSchema(TableId("shop", name), (ID,), ("id",)) for name in ("old", "loaded", "new"))
READ = ZoneTask("p/read", ("INSERT INTO x SELECT id FROM {stream}",), "shop.loaded", LOADED.table, "", ("shop.loaded",))
READ = replace(READ, stream=LOADED.table)
HOURLY = ZoneTask("p/hourly", ("DELETE FROM x",), "p/hourly", None, "1 HOUR")
ZONE = LandingZone("landing", "wh", "1 MINUTE", (), (READ, HOURLY))
MERGES = {
    f"{schema.table}/task": TaskFound(
        is_started=True, schedule="1 MINUTE", virtual_warehouse="WH", definition=plan_landed_merge(ZONE, schema)
    )
    for schema in (OLD, LOADED)
}
MOVING = replace(MERGES["shop.old/task"], definition=READ.body(ZONE), schedule="", predecessors=("shop.old/task",))
FOUND = ZoneFound(MERGES | {"p/read/task": MOVING}, {"p/read/stream": StreamFound(is_stale=False, table="shop.old")})


def work(zone: LandingZone = ZONE, pipeline: str | None = "p") -> list[Work]:
    return list(plan_work(zone, [OLD, LOADED], [NEW], FOUND, pipeline))


def test_a_task_that_moves_is_dropped_before_any_graph_is_made_and_tasks_of_no_table_come_last() -> None:
    planned = work()

    assert [each.subject for each in planned] == [NO_TABLE, "shop.old", "shop.loaded", "shop.new", NO_TABLE]
    statements = [statement for each in planned for statement in each.statements]
    drop = statements.index('DROP TASK IF EXISTS "landing"."p/read/task"')
    makes = [place for place, text in enumerate(statements) if text.startswith("CREATE OR REPLACE TASK")]
    assert drop < min(makes)
    assert planned[0].halted == ("shop.old/task",)
    assert statements[-1] == 'SELECT SYSTEM$TASK_DEPENDENTS_ENABLE(\'"landing"."p/hourly/task"\')'


def test_a_second_link_into_the_zone_leaves_tasks_of_no_table_alone() -> None:
    assert [each.subject for each in work(pipeline=None)] == ["shop.old", "shop.loaded", "shop.new"]


def test_messages_are_merged_again_where_another_rule_made_the_rows_of_a_loaded_table() -> None:
    rule = ZoneRule(TablePatterns(("shop.*",)), '"id" > 0')

    old, loaded, new = work(replace(ZONE, rules=(rule,)), None)

    again = 'CREATE OR REPLACE STREAM "landing"."shop.{}/stream"'
    assert [
        any(text.startswith(again.format(name)) for text in each.statements)
        for name, each in (("old", old), ("loaded", loaded), ("new", new))
    ] == [True, True, False]


def test_a_table_that_is_refused_stops_no_other_and_its_graph_is_looked_after() -> None:
    rule = ZoneRule(TablePatterns(("shop.loaded",)), '"nowhere" = 1')

    old, loaded, new = work(replace(ZONE, rules=(rule,)), None)

    assert (old.refusal, new.refusal, loaded.statements) == (None, None, ())
    assert "names nowhere" in str(loaded.refusal)
    assert set(loaded.at_risk) == {"shop.loaded/task"}


def test_what_ran_before_and_is_suspended_now_runs_again() -> None:
    now = ZoneFound({name: replace(task, is_started=False) for name, task in MERGES.items()}, {})

    restart = plan_restart(ZONE, {"shop.old/task", "shop.new/task"}, FOUND, now)

    assert restart.statements == ('SELECT SYSTEM$TASK_DEPENDENTS_ENABLE(\'"landing"."shop.old/task"\')',)

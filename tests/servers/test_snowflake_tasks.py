"""Tasks of a user behind the merges of a landing zone, on Snowflake's stand-in."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from tests.servers.snowflake_case import tell_problems

from penstock.wiring.landing_plans import apply_zones, plan_zones

if TYPE_CHECKING:
    from tests.servers.snowflake_case import Landed

_RUN_SECONDS = 30.0
_TASKS = """tasks: [
  {name: log, after: SHOP.t0, stream: SHOP.t0, sql: [
    CREATE SCHEMA IF NOT EXISTS mart, "CREATE TABLE IF NOT EXISTS mart.log (action VARCHAR, id NUMBER(38, 0))",
    'INSERT INTO mart.log SELECT "METADATA$ACTION", "id" FROM {stream}']},
  {name: total, after: log, sql: [
    "CREATE TABLE IF NOT EXISTS mart.total (times NUMBER(38, 0))",
    "DELETE FROM mart.total", "INSERT INTO mart.total SELECT COUNT(*) FROM mart.log"]},
  {name: alone, schedule: 1 HOUR, sql: DELETE FROM nothing}]"""


def give(landed: Landed, tasks: str, instead: str = "") -> None:
    """Write tasks into the pipeline's file, in the place of others."""
    tasks = tasks.replace("SHOP", landed.chain.name)
    text = landed.chain.file.read_text()
    before = f", {instead.replace('SHOP', landed.chain.name)}" if instead else ""
    landed.chain.file.write_text(text.replace(f"warehouse: WH{before}", f"warehouse: WH, {tasks}"))


def merge(landed: Landed, total: int) -> None:
    """Run the merge, and wait until the last task of its graph has made the total."""
    landed.ask(f'EXECUTE TASK "landing"."{landed.chain.name}.t0/task"')
    end = time.monotonic() + _RUN_SECONDS
    while landed.ask("SELECT times FROM mart.total") != [(total,)]:
        assert time.monotonic() < end, landed.ask("SELECT * FROM TABLE(INFORMATION_SCHEMA.TASK_HISTORY())")
        time.sleep(0.1)


@pytest.mark.nightly
def test_tasks_run_behind_the_merge_of_their_table_and_take_what_changed_in_it_once(landed: Landed) -> None:
    chain = landed.chain
    give(landed, _TASKS)
    chain.write("CREATE TABLE t0 (id INT PRIMARY KEY, x INT)", "INSERT INTO t0 VALUES (1, 1), (2, 1)")
    chain.start()
    chain.carry()
    merge(landed, 2)
    chain.write("DELETE FROM t0 WHERE id = 1", "ALTER TABLE t0 ADD COLUMN y INT", "INSERT INTO t0 VALUES (3, 1, 1)")
    chain.carry()
    merge(landed, 4)
    landed.agrees("t0")
    log = "SELECT action, id FROM mart.log ORDER BY 2, 1"
    assert landed.ask(log) == [("DELETE", 1), ("INSERT", 1), ("INSERT", 2), ("INSERT", 3)]
    assert tell_problems(landed) == ["Snowflake has no such task"]

    assert [plan.error for plan in apply_zones(chain.spec)] == ["", ""]
    assert tell_problems(landed) == []
    chain.write("TRUNCATE TABLE t0", "INSERT INTO t0 VALUES (7, 1, 1)")
    chain.carry()
    merge(landed, 7)
    landed.agrees("t0")


@pytest.mark.nightly
def test_a_task_that_is_changed_fails_or_is_gone_from_the_file_is_told_and_applied(landed: Landed) -> None:
    chain = landed.chain
    give(landed, _TASKS)
    chain.write("CREATE TABLE t0 (id INT PRIMARY KEY, x INT)", "INSERT INTO t0 VALUES (1, 1)")
    chain.start()
    assert [plan.error for plan in apply_zones(chain.spec)] == ["", ""]
    chain.carry()
    merge(landed, 1)

    insert = "INSERT INTO mart.nowhere SELECT 1 FROM {stream}"
    wrong = f"tasks: [{{name: log, after: SHOP.t0, stream: SHOP.t0, sql: '{insert}'}}]"
    give(landed, wrong, _TASKS)
    told = {plan.table: plan.error for plan in plan_zones(chain.spec) if plan.error}
    assert told == {
        "task log": "it is another one in Snowflake than in the file",
        "task total": "it is no longer in the file, and Snowflake still has it",
        "task alone": "it is no longer in the file, and Snowflake still has it",
    }
    assert [plan.error for plan in apply_zones(chain.spec)] == ["", ""]
    assert tell_problems(landed) == []

    chain.write("INSERT INTO t0 VALUES (2, 1)")
    chain.carry()
    landed.merge()
    landed.until_it_ran("FAILED")
    (failed,) = tell_problems(landed)
    assert failed.startswith("its last run failed: ")
    assert "nowhere" in failed.casefold()
    give(landed, _TASKS, wrong)
    list(apply_zones(chain.spec))
    chain.write("INSERT INTO t0 VALUES (3, 1)")
    chain.carry()
    merge(landed, 3)
    assert tell_problems(landed) == []


@pytest.mark.nightly
def test_a_task_that_moves_behind_another_table_reads_that_one_and_both_merges_go_on(landed: Landed) -> None:
    chain = landed.chain
    task = """tasks: [{name: log, after: SHOP.t0, stream: SHOP.t0, sql: [
      CREATE SCHEMA IF NOT EXISTS mart, "CREATE TABLE IF NOT EXISTS mart.total (times NUMBER(38, 0))",
      'INSERT INTO mart.total SELECT COUNT(*) FROM {stream}']}]"""
    moved = task.replace("SHOP.t0", "SHOP.t1")
    give(landed, task)
    for name in ("t0", "t1"):
        chain.write(f"CREATE TABLE {name} (id INT PRIMARY KEY, x INT)", f"INSERT INTO {name} VALUES (1, 1), (2, 1)")
    chain.start()
    chain.carry()
    merge(landed, 2)

    give(landed, moved, task)
    assert "it is another one in Snowflake than in the file" in tell_problems(landed)
    assert [plan.error for plan in apply_zones(chain.spec)] == [""] * 3
    assert tell_problems(landed) == []
    chain.write("INSERT INTO t0 VALUES (3, 1)", "INSERT INTO t1 VALUES (3, 1)")
    chain.carry()
    landed.merge()
    landed.agrees("t0")
    landed.agrees("t1")
    end = time.monotonic() + _RUN_SECONDS
    while landed.ask("SELECT SUM(times) FROM mart.total") != [(5,)]:
        assert time.monotonic() < end, landed.ask("SELECT * FROM mart.total")
        time.sleep(0.1)


@pytest.mark.nightly
def test_apply_lets_a_merge_run_again_that_it_cannot_make_anew(
    landed: Landed,
) -> None:
    chain = landed.chain
    give(landed, _TASKS)
    chain.write("CREATE TABLE t0 (id INT PRIMARY KEY, x INT)", "INSERT INTO t0 VALUES (1, 1)")
    chain.start()
    chain.carry()
    merge(landed, 1)

    rule = """tables: [{match: ["*.t0"], where: '"nowhere" = 1'}]"""
    give(landed, rule, _TASKS)
    errors = [plan.error for plan in apply_zones(chain.spec) if plan.error]
    assert len(errors) == 1
    assert "names nowhere" in errors[0]
    landed.merge()
    assert not any("suspended" in text for text in tell_problems(landed))

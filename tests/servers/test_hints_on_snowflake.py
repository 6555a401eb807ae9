"""Hints of a landing zone of Snowflake are true: a table that it stops goes on when its hint is followed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.servers.snowflake_case import tell_problems
from tests.servers.test_hints import told

from penstock.core.snapshots import SnapshotOptions
from penstock.ports.table_actions import Action
from penstock.wiring.health import find_problems
from penstock.wiring.landing_plans import apply_zones, plan_zones, rebuild_table
from penstock.wiring.snapshots import ask_for_snapshots
from penstock.wiring.table_requests import ask_for_action

if TYPE_CHECKING:
    from tests.servers.snowflake_case import Landed

SAID = {
    "theirs": "drop or rename that table",
    "sales": "sales drop; then penstock snapshot FILE",
    "lacking": "set binlog_row_image=FULL in the source; then type: penstock snapshot FILE TABLE --full-refresh",
}


@pytest.mark.nightly
def test_tables_that_a_landing_zone_stops_go_on_when_their_hints_are_followed(landed: Landed) -> None:
    chain = landed.chain
    chain.file.write_text(chain.file.read_text().replace("start: snapshot", "start: snapshot\n    row_images: partial"))
    landed.ask(f'CREATE SCHEMA "{chain.name}"')
    landed.ask(f'CREATE TABLE "{chain.name}"."theirs" ("id" NUMBER(38, 0))')
    for table in ("theirs", "orders", "lacking"):
        chain.write(f"CREATE TABLE {table} (id INT PRIMARY KEY, n INT DEFAULT 7)", f"INSERT INTO {table} VALUES (1, 1)")
    chain.start()
    chain.carry()
    chain.write("RENAME TABLE orders TO sales", "INSERT INTO sales VALUES (2, 2)")
    chain.write("SET SESSION binlog_row_image = 'MINIMAL'", "INSERT INTO lacking (id) VALUES (2)")
    chain.carry()
    said = told(chain)
    assert {table: hint in said.get(table, "") for table, hint in SAID.items()} == dict.fromkeys(SAID, True), said

    landed.ask(f'ALTER TABLE "{chain.name}"."theirs" RENAME TO "{chain.name}"."mine"')
    for table in ("orders", "sales"):
        ask_for_action(chain.spec, f"{chain.name}.{table}", Action.DROP, None, "ann")
    chain.load()
    again = [f"{chain.name}.{table}" for table in ("sales", "lacking")]
    ask_for_snapshots(chain.spec, again, SnapshotOptions(full_refresh=True))
    chain.write("INSERT INTO sales VALUES (3, 3)")
    chain.carry()
    chain.carry()
    landed.merge()

    assert told(chain) == {}
    for table in SAID:
        landed.agrees(table)


@pytest.mark.nightly
def test_a_table_that_loses_its_key_keeps_its_rows_and_goes_on_when_its_hint_is_followed(landed: Landed) -> None:
    chain = landed.chain
    chain.write("CREATE TABLE t0 (id INT PRIMARY KEY, n INT)", "INSERT INTO t0 VALUES (1, 1)")
    chain.start()
    chain.carry()
    chain.write("ALTER TABLE t0 DROP PRIMARY KEY", "INSERT INTO t0 VALUES (2, 2)")

    chain.carry()
    landed.merge()
    assert "give it a primary key, then type: penstock snapshot FILE TABLE --full-refresh" in told(chain)["t0"]
    assert landed.public("t0") == [(1, 1)]
    chain.write("ALTER TABLE t0 ADD PRIMARY KEY (id)")
    ask_for_snapshots(chain.spec, [f"{chain.name}.t0"], SnapshotOptions(full_refresh=True))
    chain.carry()
    chain.carry()
    landed.merge()

    assert told(chain) == {}
    landed.agrees("t0")


def follow(landed: Landed, hint: str) -> None:
    """Run the statements and commands of a hint."""
    for statement in re.findall(r"run in Snowflake: ([^;]+)", hint):
        landed.ask(statement)
    if "snowflake apply FILE" in hint:
        assert [plan.error for plan in apply_zones(landed.chain.spec) if plan.error] == []
    for table in re.findall(r"snowflake rebuild FILE (\S+)", hint):
        list(rebuild_table(landed.chain.spec, table.rstrip(";")))
    for table in re.findall(r"penstock snapshot FILE (\S+) --full-refresh", hint):
        ask_for_snapshots(landed.chain.spec, [table], SnapshotOptions(full_refresh=True))
        landed.chain.carry()


@pytest.mark.nightly
def test_what_status_says_of_tasks_streams_grants_and_columns_is_mended_by_what_it_says(landed: Landed) -> None:
    chain = landed.chain
    rule = """[{match: ["*.t0"], columns: {size: 'CAST(LENGTH("note") AS NUMBER(5))'}}]"""
    chain.file.write_text(chain.file.read_text().replace("warehouse: WH", f"warehouse: WH, tables: {rule}"))
    chain.write("CREATE TABLE t0 (id INT PRIMARY KEY, note VARCHAR(40))", "INSERT INTO t0 VALUES (1, 'one')")
    chain.start()
    chain.carry()
    landed.merge()
    task, stream, table = (f'"landing"."{chain.name}.t0{of}"' for of in ("/task", "/stream", ""))
    breaks = {
        f"DROP TASK {task}": "no task any more",
        f"DROP STREAM {stream}": "no stream any more",
        f"ALTER TASK {task} SUSPEND": "is suspended",
        f"CREATE OR REPLACE TASK {task} WAREHOUSE = WH SCHEDULE = '1 MINUTE' AS SELECT 1": "otherwise than",
        f"GRANT DELETE ON TABLE {table} TO ROLE loader": "has DELETE on its landing table",
        "ALTER": "its column size is NUMBER(5, 0)",
    }
    for number, (statement, said) in enumerate(breaks.items(), 2):
        if statement == "ALTER":
            chain.file.write_text(chain.file.read_text().replace("NUMBER(5)", "NUMBER(9)"))
            list(apply_zones(chain.spec))
        else:
            landed.ask(statement)
        chain.write(f"INSERT INTO t0 VALUES ({number}, 'more')")
        chain.carry()

        problems = [each for each in find_problems(chain.status(), "FILE") if each.subject.startswith(landed.link)]
        assert said in " ".join(each.text for each in problems), problems
        for each in problems:
            follow(landed, each.hint)
        landed.merge()
        assert tell_problems(landed) == []
        rows = f'SELECT "id", "note", "size" FROM "{chain.name}"."t0" ORDER BY 1'
        assert landed.ask(rows) == [(id_, note, len(str(note))) for id_, note in landed.source("t0")]


@pytest.mark.nightly
def test_messages_of_somebody_else_leave_nothing_behind_once_their_hint_is_followed(landed: Landed) -> None:
    chain = landed.chain
    chain.write("CREATE TABLE t0 (id INT PRIMARY KEY, note VARCHAR(40))")
    chain.write("INSERT INTO t0 VALUES (1, 'one'), (2, 'two')")
    chain.start()
    chain.carry()
    landed.merge()
    table = f'"landing"."{chain.name}.t0"'
    for message in ('{"op":"u","row":{"id":"1","note":"theirs"}}', '{"op":"c","row":{"id":"9","note":"theirs"}}'):
        values = f"SELECT PARSE_JSON('{message}'), 'x', '9'"
        landed.ask(f'INSERT INTO {table} ("message", "topic", "position") {values}')
    landed.merge()
    (plan,) = [each for each in plan_zones(chain.spec) if "are not Penstock's" in each.error]

    landed.ask(f"DELETE FROM {table} WHERE \"topic\" = 'x'")
    follow(landed, plan.hint)
    landed.merge()

    assert not any("are not Penstock's" in each.error for each in plan_zones(chain.spec))
    landed.agrees("t0")

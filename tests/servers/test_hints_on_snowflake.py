"""Hints of a landing zone of Snowflake are true: a table that it stops goes on when its hint is followed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.servers.test_hints import told

from penstock.core.snapshots import SnapshotOptions
from penstock.ports.table_actions import Action
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

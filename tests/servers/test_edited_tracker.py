"""A tracker that was edited is recognised at the next start, whatever the log says of columns, and never by mistake."""

from __future__ import annotations

import json
import signal
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.servers.capture_processes import spawn_capture
from tests.servers.chain import Chain, make_chain
from tests.servers.kinds import first

from penstock.adapters.mysql.connection import MysqlServer, ask, connect
from penstock.core.errors import PositionError
from penstock.core.positions import BinlogPosition
from penstock.ports.state import TrackerDump
from penstock.wiring.open import open_pipeline_state, open_tracker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer

POINTS = [
    "statement.dumped",
    "statement.applied",
    "statement.registered",
    "statement.topics_made",
    "statement.announced",
    "publish.sent:2",
    "publish.committed:2",
]


@pytest.fixture
def chain(
    mariadb: MariadbServer, chain_parts: tuple[KafkaBroker, str, int], fresh_name: str, tmp_path: Path
) -> Iterator[Chain]:
    """A pipeline of two tables and one that stopped; its log names no columns."""
    chain = make_chain(tmp_path, fresh_name, mariadb, chain_parts)
    top = Chain(chain.file, "mysql", mariadb)
    top.write(
        "SET GLOBAL binlog_row_metadata = MINIMAL",
        f"CREATE DATABASE {fresh_name}",
        f"CREATE TABLE {fresh_name}.orders (id INT PRIMARY KEY, price DECIMAL(10,2), note VARCHAR(20) DEFAULT 'x')",
        f"CREATE TABLE {fresh_name}.users (id INT PRIMARY KEY)",
        f"CREATE TABLE {fresh_name}.stopped (id INT PRIMARY KEY)",
        f"INSERT INTO {fresh_name}.orders VALUES (1, 1.5, 'a')",
    )
    chain.start()
    chain.capture()
    chain.write("SET SESSION binlog_format = STATEMENT", "INSERT INTO stopped VALUES (1)")
    chain.write("ALTER TABLE stopped ADD COLUMN more INT")
    chain.capture()
    yield chain
    top.write("SET GLOBAL binlog_row_metadata = FULL")


def edit(tracker: MariadbServer, *statements: str) -> None:
    """Do to the tracker what nobody should."""
    server = MysqlServer(tracker.host, tracker.port, tracker.user, tracker.password)
    with closing(connect(server)) as connection:
        for statement in statements:
            ask(connection, statement)


EDITS = (
    ("ADD COLUMN more INT", "column more is only in the tracker", "DROP COLUMN more"),
    (
        "MODIFY price DECIMAL(12,2)",
        "column price is decimal(12,2) in the tracker, not decimal(10,2)",
        "MODIFY price DECIMAL(10,2)",
    ),
    (
        "MODIFY note VARCHAR(20) CHARACTER SET latin1 DEFAULT 'x'",
        "column note of the tracker has type TextType(characters_max=20, charset='latin1')",
        "MODIFY note VARCHAR(20) CHARACTER SET utf8mb4 DEFAULT 'x'",
    ),
    (
        "MODIFY note VARCHAR(20) DEFAULT 'x' AFTER id",
        "the columns of the tracker are in the order id, note, price",
        "MODIFY note VARCHAR(20) DEFAULT 'x' AFTER price",
    ),
    ("DROP PRIMARY KEY", "the primary key of the tracker is ()", "ADD PRIMARY KEY (id)"),
)


@pytest.mark.nightly
def test_an_edit_is_told_at_the_next_start_and_nothing_is_carried_until_it_is_undone(
    chain: Chain, tracker_server: MariadbServer
) -> None:
    for number, (edited, said, undo) in enumerate(EDITS, 2):
        edit(tracker_server, f"ALTER TABLE {chain.name}.orders {edited}")
        chain.write(f"INSERT INTO orders VALUES ({number}, 2.5, 'b')")

        with pytest.raises(PositionError) as caught:
            chain.capture(epoch=2 * number)
        edit(tracker_server, f"ALTER TABLE {chain.name}.orders {undo}")
        chain.capture(epoch=2 * number + 1)

        assert f"{chain.name}.orders: {said}" in caught.value.message
        assert caught.value.message.count("\n") == 1
        assert "restore its data" in caught.value.hint
    chain.write_objects()
    chain.load()

    assert chain.query("SELECT id, price::TEXT, note FROM {schema}.orders ORDER BY id") == [
        (1, "1.50", "a"),
        *((number, "2.50", "b") for number in range(2, 2 + len(EDITS))),
    ]


def test_a_tracker_without_our_tables_is_told_with_each_of_them(chain: Chain, tracker_server: MariadbServer) -> None:
    edit(tracker_server, f"DROP DATABASE {chain.name}")

    with pytest.raises(PositionError) as caught:
        chain.capture(epoch=2)

    assert caught.value.message.splitlines()[1:] == [
        f"  {chain.name}.orders: the tracker has no such table",
        f"  {chain.name}.users: the tracker has no such table",
    ]


def test_what_is_not_carried_may_be_edited(chain: Chain, tracker_server: MariadbServer) -> None:
    edit(tracker_server, "CREATE DATABASE elsewhere", "CREATE TABLE elsewhere.t (a INT)", "DROP DATABASE elsewhere")
    edit(tracker_server, f"ALTER TABLE {chain.name}.stopped DROP COLUMN more")

    chain.capture(epoch=2)


@pytest.mark.parametrize("point", first(1, *POINTS))
def test_a_crash_in_the_middle_of_a_statement_is_no_edit(chain: Chain, point: str) -> None:
    chain.write("ALTER TABLE orders ADD COLUMN more INT", "INSERT INTO orders VALUES (2, 2.5, 'b', 7)")

    crashed = spawn_capture(chain, 2, point)
    chain.capture(epoch=3)
    chain.write_objects()
    chain.load()

    assert crashed == -signal.SIGKILL
    assert chain.query("SELECT id, more FROM {schema}.orders ORDER BY id") == [(1, None), (2, 7)]


def test_a_dump_that_nobody_here_wrote_is_told(chain: Chain) -> None:
    for dump in ('{"version": 99}', "no dump", '{"schemas": [{"who": 1}]}', "[]", "null"):
        with closing(open_pipeline_state(chain.spec)) as state:
            state.keep_tracker_dump(chain.source, TrackerDump(BinlogPosition("binlog.999999", 4), dump))

        with pytest.raises(PositionError, match="the dump of the schema tracker in the state database") as caught:
            chain.capture(epoch=2)

        assert "restore the state database" in caught.value.hint


def test_a_dump_of_everything_as_an_earlier_release_kept_it_is_restored(
    chain: Chain, tracker_server: MariadbServer
) -> None:
    with closing(open_tracker(chain.spec, chain.spec.sources[0])) as tracker:
        everything = tracker.dump()
    edit(tracker_server, f"ALTER TABLE {chain.name}.orders ADD COLUMN half INT", f"DROP TABLE {chain.name}.users")
    with closing(open_pipeline_state(chain.spec)) as state:
        state.keep_tracker_dump(chain.source, TrackerDump(BinlogPosition("binlog.999999", 4), everything))

    chain.capture(epoch=2)

    with closing(open_tracker(chain.spec, chain.spec.sources[0])) as tracker:
        assert tracker.dump() == everything
    assert json.loads(everything)["version"] == 1

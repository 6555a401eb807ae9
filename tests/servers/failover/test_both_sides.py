"""What the warehouse makes of a log that goes on under lower file numbers, and who may still read the old one."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.servers.failover.pair import run
from tests.servers.source_log import connected

from penstock.core.errors import LogError
from penstock.core.positions import file_number, timeline_of
from penstock.core.schema_changes import SchemaChange

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.failover.conftest import Case
    from tests.servers.failover.pair import OpenPair

    from penstock.embedded.mariadb import MariadbServer


AT_FIRST = (
    "CREATE DATABASE shop",
    "CREATE TABLE shop.t (id INT PRIMARY KEY, a INT)",
    "CREATE TABLE shop.emptied (id INT PRIMARY KEY)",
    "INSERT INTO shop.t VALUES (1, 1), (2, 2), (3, 3)",
)
BEFORE = (
    "ALTER TABLE shop.t ADD COLUMN b INT DEFAULT 5",
    "INSERT INTO shop.t VALUES (4, 4, 4), (5, 5, 5)",
    "INSERT INTO shop.emptied VALUES (1), (2)",
    "TRUNCATE shop.emptied",
    "INSERT INTO shop.emptied VALUES (3)",
)
AFTER = (
    "INSERT INTO shop.t VALUES (6, 6, 6)",
    "ALTER TABLE shop.t ADD COLUMN c INT, MODIFY a BIGINT",
    "UPDATE shop.t SET c = id * 7, a = a + 100 WHERE id > 2",
    "TRUNCATE shop.emptied",
    "INSERT INTO shop.emptied VALUES (9)",
    "CREATE TABLE shop.late (id INT PRIMARY KEY)",
    "INSERT INTO shop.late VALUES (1)",
)


def test_tables_that_change_before_and_after_a_failover_arrive_as_they_are(
    open_pair: OpenPair, tracker_server: MariadbServer, make_case: Callable[..., Case]
) -> None:
    with open_pair(files_ahead=(5, 0)) as pair:
        pair.replicate()
        run(pair.master, *AT_FIRST)
        case = make_case(pair.master, tracker_server, partitions=2, start="snapshot")
        case.start()
        run(pair.master, *BEFORE)
        case.carry()
        case.load()
        # These are in Kafka, and in no file yet, when the source fails over.
        run(pair.master, "UPDATE shop.t SET a = 50 WHERE id = 5", "INSERT INTO shop.emptied VALUES (4)")
        case.carry()
        pair.catch_up()
        run(pair.master, "SET GLOBAL read_only = 1")
        pair.promote()

        done = case.fail_over(pair.replica)
        run(pair.replica, *AFTER)
        case.carry()
        case.load()

        assert file_number(done.after.file) < file_number(done.before.file)
        with closing(connected(pair.replica)) as connection, connection.cursor() as cursor:
            for table in ("shop.t", "shop.emptied", "shop.late"):
                cursor.execute(f"SELECT * FROM {table} ORDER BY id")
                assert case.rows(table, "id") == list(cursor.fetchall())
        timelines = [
            timeline_of(SchemaChange.from_json(value).order)
            for value in case.read(f"penstock.{case.spec.pipeline}.schemas")
        ]
        assert timelines == sorted(timelines)
        assert set(timelines) == {0, 1}

        old, new = case.spec.model_copy(), pair.replica
        case.move(pair.master)
        with pytest.raises(LogError, match="another one answers: server_id 1") as caught:
            case.carry()
        assert "penstock failover FILE" in caught.value.hint
        case.spec = old
        again = case.fail_over(new)
        assert (again.way, again.after) == (None, case.position())


def test_a_new_master_is_not_read_before_somebody_fails_over(
    open_pair: OpenPair, tracker_server: MariadbServer, make_case: Callable[..., Case]
) -> None:
    with open_pair() as pair:
        pair.replicate()
        run(pair.master, "CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY)")
        case = make_case(pair.master, tracker_server, start="snapshot")
        case.start()
        pair.catch_up()
        pair.promote()
        case.move(pair.replica)

        with pytest.raises(LogError, match=r"is read from the server server_id 1.*another one answers: server_id 2"):
            case.carry()

        # The file has the new address already.
        done = case.fail_over(pair.replica)
        run(pair.replica, "INSERT INTO shop.t VALUES (1)")
        case.carry()
        assert done.way == "gtid"
        assert [c.after for c in case.changes("shop.t")] == [{"id": 1}]

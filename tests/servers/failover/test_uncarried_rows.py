"""Rows of tables that are not carried, and that the capture reads: parents of foreign keys, and its own copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.servers.failover.pair import run

from penstock.core.errors import LogError
from penstock.core.snapshot_copies import copies_owner, copy_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.failover.conftest import Case
    from tests.servers.failover.pair import OpenPair, Pair

    from penstock.embedded.mariadb import MariadbServer

HEARTBEAT = {"table": "penstock.heartbeat"}


@pytest.fixture
def make(tracker_server: MariadbServer, make_case: Callable[..., Case]) -> Callable[[Pair], Case]:
    """Make a pipeline that carries the child of a parent in another schema, started."""

    def make(pair: Pair) -> Case:
        run(pair.master, "CREATE DATABASE shop", "CREATE DATABASE base")
        run(pair.master, "CREATE TABLE base.parents (id INT PRIMARY KEY, name TEXT)")
        key = "FOREIGN KEY (parent) REFERENCES base.parents (id) ON DELETE CASCADE"
        run(pair.master, f"CREATE TABLE shop.t (id INT PRIMARY KEY, parent INT, {key})")
        run(pair.master, "INSERT INTO base.parents VALUES (1, 'a'), (2, 'b')", "INSERT INTO shop.t VALUES (1, 1)")
        case = make_case(pair.master, tracker_server, start="snapshot", heartbeat=HEARTBEAT, cascades="reread")
        case.beat()
        case.start()
        return case

    return make


@pytest.mark.nightly
def test_rows_of_parents_and_of_copies_behind_the_heartbeat_count_on_both_sides(
    open_pair: OpenPair, make: Callable[[Pair], Case]
) -> None:
    with open_pair() as pair:
        pair.replicate()
        case = make(pair)
        case.beat()
        copy = copy_table(copies_owner(case.spec.pipeline, case.source), "0123456789ab")
        run(pair.master, f"CREATE TABLE {copy} (id INT PRIMARY KEY)", f"INSERT INTO {copy} VALUES (1), (2)")
        run(pair.master, "INSERT INTO base.parents VALUES (3, 'c')", "INSERT INTO shop.t VALUES (2, 2)")
        case.carry()
        pair.catch_up()
        pair.promote()

        done = case.fail_over(pair.replica, "heartbeat")

        run(pair.replica, "INSERT INTO shop.t VALUES (3, 3)")
        case.carry()
        assert done.way == "heartbeat"
        assert [each.after and each.after["id"] for each in case.changes("shop.t")] == [1, 2, 3]


@pytest.mark.nightly
def test_a_parents_row_that_only_the_replica_lacks_is_refused(
    open_pair: OpenPair, make: Callable[[Pair], Case]
) -> None:
    with open_pair() as pair:
        pair.replicate()
        case = make(pair)
        pair.catch_up()
        # It takes a row of the carried child with it, of which the log says nothing.
        run(pair.replica, "SET STATEMENT gtid_domain_id = 9 FOR DELETE FROM base.parents WHERE id = 1")
        run(pair.master, "INSERT INTO shop.t VALUES (2, 2)")
        case.carry()
        pair.catch_up()
        pair.promote()
        before = case.position()

        with pytest.raises(LogError, match=r"one that the old master's log did not have: 9-2-.*rows of base.parents"):
            case.fail_over(pair.replica, "gtid")

        assert case.position() == before

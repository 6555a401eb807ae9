"""A failover that would lose or double something changes nothing, and says why."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.servers.binlogs import purge_to
from tests.servers.failover.pair import run, value
from tests.servers.kinds import first
from tests.servers.source_log import connected

from penstock.core.errors import (
    START_ANEW,
    LogError,
    LogPurgedError,
    PenstockError,
    PositionError,
    UnfitServerError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.failover.conftest import Case
    from tests.servers.failover.pair import OpenPair, Pair

    from penstock.embedded.mariadb import MariadbServer
    from penstock.wiring.failover import Way

HEARTBEAT = {"table": "penstock.heartbeat"}


@pytest.fixture
def make(tracker_server: MariadbServer, make_case: Callable[..., Case]) -> Callable[..., Case]:
    """Make a pipeline with heartbeats of a table with a row, started."""

    def make(pair: Pair, **source: object) -> Case:
        run(pair.master, "CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY)")
        run(pair.master, "INSERT INTO shop.t VALUES (1)")
        case = make_case(pair.master, tracker_server, start="snapshot", heartbeat=HEARTBEAT, **source)
        case.beat()
        case.start()
        return case

    return make


def refuse(case: Case, pair: Pair, kind: type[PenstockError], says: str, way: Way = "gtid") -> PenstockError:
    """Fail over, in vain; nothing has changed then but who may publish."""
    before = case.position()
    with pytest.raises(kind, match=says) as caught:
        case.fail_over(pair.replica, way)
    assert case.position() == before
    return caught.value


def forget_log(server: MariadbServer) -> None:
    """Purge all binlogs but the newest."""
    with closing(connected(server)) as connection, connection.cursor() as cursor:
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("SHOW MASTER STATUS")
        purge_to(cursor, (cursor.fetchone() or ())[0])


@pytest.mark.parametrize("way", first(1, "gtid", "heartbeat"))
def test_a_replica_that_lacks_what_was_published_is_refused(
    way: Way, open_pair: OpenPair, make: Callable[..., Case]
) -> None:
    with open_pair() as pair:
        pair.replicate(by_gtid=way == "gtid")
        case = make(pair)
        case.beat()
        pair.catch_up()
        run(pair.replica, "STOP SLAVE")
        run(pair.master, "INSERT INTO shop.t VALUES (2)", "INSERT INTO shop.t VALUES (3)")
        case.carry()
        lost = value(pair.master, "SELECT @@gtid_binlog_pos")
        pair.master.kill()
        run(pair.replica, "RESET SLAVE ALL")

        error = refuse(case, pair, LogError, "lacks transactions that were published", way)

    assert (str(lost) if way == "gtid" else "and 0 transactions after it, and the pipeline stands 2 ") in error.message
    assert "let the old master come back" in error.hint


@pytest.mark.nightly
@pytest.mark.parametrize("way", first(1, "heartbeat", "gtid"))
def test_a_replica_whose_log_begins_too_late_is_refused(
    way: Way, open_pair: OpenPair, make: Callable[..., Case]
) -> None:
    with open_pair() as pair:
        pair.replicate()
        case = make(pair)
        case.beat()
        case.carry()
        run(pair.master, "INSERT INTO shop.t VALUES (2)", "INSERT INTO shop.t VALUES (3)")
        case.beat()
        pair.catch_up()
        forget_log(pair.replica)
        run(pair.master, "INSERT INTO shop.t VALUES (4)")
        case_beats = case.position().heartbeat
        assert case_beats is not None
        case.beat()
        pair.catch_up()
        pair.promote()

        if way == "gtid":
            refuse(case, pair, LogPurgedError, "lacks transactions that were not published yet")
        else:
            refuse(case, pair, LogError, f"but not {case_beats.serial} with", way)


@pytest.mark.nightly
def test_a_replica_that_does_not_log_what_it_replicates_is_refused(
    open_pair: OpenPair, make: Callable[..., Case]
) -> None:
    with open_pair(replica_options=["--log-slave-updates=OFF"]) as pair:
        pair.replicate()
        case = make(pair)
        case.beat()
        case.carry()
        pair.catch_up()
        pair.promote()

        error = refuse(case, pair, UnfitServerError, "but not logged it.*log_slave_updates is OFF")
        assert "needs log_slave_updates=ON" in error.hint
        refuse(case, pair, LogError, "lacks transactions that were published", "heartbeat")


@pytest.mark.nightly
def test_rows_that_only_the_replica_has_are_refused(open_pair: OpenPair, make: Callable[..., Case]) -> None:
    with open_pair() as pair:
        pair.replicate()
        case = make(pair)
        case.beat()
        pair.catch_up()
        run(pair.replica, "SET STATEMENT gtid_domain_id = 9 FOR INSERT INTO shop.t VALUES (77)")
        run(pair.master, "INSERT INTO shop.t VALUES (2)")
        case.carry()
        pair.catch_up()
        pair.promote()

        error = refuse(case, pair, LogError, "one that the old master's log did not have: 9-2-6 .rows of shop.t.")
        assert "written there before the promotion" in error.hint
        refuse(case, pair, LogError, "not those that were read|not .* with", "heartbeat")


@pytest.mark.nightly
def test_a_server_with_another_history_is_refused(open_pair: OpenPair, make: Callable[..., Case]) -> None:
    with open_pair() as pair:
        case = make(pair)
        case.beat()
        case.carry()
        run(pair.replica, "CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY)")
        run(pair.replica, *(f"INSERT INTO shop.t VALUES ({n})" for n in range(20)))

        refuse(case, pair, LogError, "not in its log|one that the old master's log did not have")
        refuse(case, pair, LogError, "has is no heartbeat", "heartbeat")


@pytest.mark.nightly
def test_without_gtids_and_heartbeats_no_place_is_guessed(open_pair: OpenPair, make: Callable[..., Case]) -> None:
    with open_pair() as pair:
        pair.replicate()
        case = make(pair)
        pair.catch_up()
        pair.promote()
        case.spec = case.spec.model_copy(
            update={"sources": (case.spec.sources[0].model_copy(update={"heartbeat": None}),)}
        )

        error = refuse(
            case, pair, PositionError, "no heartbeat: its position cannot be found in another log", "heartbeat"
        )
        assert f"{START_ANEW}, of the new master" in error.hint

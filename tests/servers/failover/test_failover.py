"""A capture goes on at a new master: nothing is lost and nothing doubled, or it says why it does not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from tests.servers.failover.load import Load, assert_carried_once, create_tables
from tests.servers.failover.pair import wait_for

from penstock.core.errors import LogError, UnavailableError
from penstock.wiring.heartbeat import Heartbeats
from penstock.wiring.open import open_pipeline_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.failover.conftest import Case
    from tests.servers.failover.pair import OpenPair

    from penstock.embedded.mariadb import MariadbServer
    from penstock.wiring.failover import Way

_TRIES = 4
HEARTBEAT = {"table": "penstock.heartbeat", "period_seconds": 0.3}


@pytest.mark.parametrize(
    ("way", "files_ahead"),
    [
        ("gtid", (0, 3)),
        # Lower numbers of files: see also test_both_sides.
        pytest.param("gtid", (4, 0), marks=pytest.mark.nightly),
        pytest.param("heartbeat", (3, 1), marks=pytest.mark.nightly),
    ],
)
def test_a_master_that_dies_under_load_is_followed_by_its_semi_synchronous_replica(
    way: Way,
    files_ahead: tuple[int, int],
    open_pair: OpenPair,
    tracker_server: MariadbServer,
    make_case: Callable[..., Case],
) -> None:
    for _ in range(_TRIES):
        try:
            _follow_the_replica(way, files_ahead, open_pair, tracker_server, make_case)
        except LogError as error:
            # A master sends us what it commits before its replica has it: dying then, it leaves a replica that
            # lacks what was published, which is refused.
            if "lacks transactions that were published" not in error.message:
                raise
        else:
            return
    pytest.fail("the replica was behind each time")


def _follow_the_replica(
    way: Way,
    files_ahead: tuple[int, int],
    open_pair: OpenPair,
    tracker_server: MariadbServer,
    make_case: Callable[..., Case],
) -> None:
    with open_pair(files_ahead=files_ahead) as pair:
        pair.replicate(by_gtid=way == "gtid", semi_sync=True)
        create_tables(pair.master)
        case = make_case(pair.master, tracker_server, start="snapshot", heartbeat=HEARTBEAT)
        case.start()
        state = open_pipeline_state(case.spec)
        with (
            Heartbeats(case.spec, case.spec.sources, 1, state),
            case.follow() as following,
            Load(pair.master, range(4)) as load,
        ):
            wait_for(lambda: beats_published(case) > 2 or following.error is not None)
            time.sleep(0.1)
            pair.master.kill()
            following.wait()
        assert isinstance(following.error, UnavailableError)
        before = case.position()
        pair.promote()

        done = case.fail_over(pair.replica, way)

        with Load(pair.replica, range(10, 13)) as more:
            wait_for(lambda: len(more.acknowledged) > 100)
        case.carry()
        journal = assert_carried_once(case, pair.replica)

    assert load.acknowledged | more.acknowledged <= journal
    assert (done.way, done.before, done.after.timeline) == (way, before, 1)
    assert done.after.file.startswith("elsewhere.")
    assert before.heartbeat is not None
    assert before.heartbeat.serial > 2


def beats_published(case: Case) -> int:
    """The serial of the newest heartbeat before the committed position."""
    heartbeat = case.position().heartbeat
    return heartbeat.serial if heartbeat else 0

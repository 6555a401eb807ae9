"""A process ends, as by kill -9, at each place between two writes; the next one loses nothing and doubles nothing."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

import pytest
from tests.servers.crash_case import making_crash_cases
from tests.servers.kinds import first

from penstock.wiring.crash_points import crash_points

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.servers.crash_case import CrashCase

    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer

_OF_FIRST_STARTS = {"start.tracker_filled", "start.published"}
_OF_RESTORED_TRACKERS = {"statement.restored", "tracker.emptied"}
_OF_STATEMENTS = tuple(f"statement.{name}" for name in ("dumped", "applied", "registered", "topics_made", "announced"))
"""In the order in which a capture comes by them."""
_OF_PUBLISHERS = ("publisher.opened", "publish.messages_sent", "publish.sent", "publish.committed")
"""In this order, too."""
_OF_FILES = {"objects.file_written"}
_OF_WATERMARKS = {f"watermarks.{name}" for name in ("saved_ahead", "sending", "flushed", "saved")}
"""Of a mode of its own: see test_watermarks and test_capture_without_transactions."""
_OF_RETENTION = {"retention.told", "retention.deleted", "retention.trimming"}
"""Of files that are old: see test_file_retention and test_trimmed_topics."""
_OF_LAKES = {f"lake.{name}" for name in ("recorded", "committed", "moved", "left")}
"""Of Delta tables: see pipeline/test_delta and test_delta_sink."""
_OF_SNAPSHOTS = {"snapshot.refreshed"}
"""Of rows that are read again: see test_snapshots."""
_OF_FILLS = {"fill.remembered"}
"""Of targets that come when files are gone: see test_unfilled_tables and test_fills."""
_OF_SKIPS = {"skip.kept", "skip.passed"}
"""Of changes that are passed over: see test_table_requests."""
_OF_LOADS = {"load.merged", "load.positions_set", "load.committed", "load.finished"}


@pytest.fixture(scope="module")
def make_crash_case(
    tmp_path_factory: pytest.TempPathFactory,
    mariadb: MariadbServer,
    tracker_server: MariadbServer,
    kafka: KafkaBroker,
    schematizer: str,
) -> Iterator[Callable[..., CrashCase]]:
    """Make a pipeline with an empty tracker, and its source's tables in a database of that name."""
    yield from making_crash_cases(tmp_path_factory, mariadb, tracker_server, kafka, schematizer)


@pytest.fixture(scope="module")
def running(make_crash_case: Callable[..., CrashCase]) -> CrashCase:
    """A pipeline that was started; each test goes on with it where the one before left it."""
    case = make_crash_case("crash_points")
    case.write("first")
    case.carry()
    return case


def test_there_is_a_test_for_every_point() -> None:
    tested = (_OF_FIRST_STARTS, _OF_RESTORED_TRACKERS, _OF_STATEMENTS, _OF_PUBLISHERS, _OF_FILES, _OF_LOADS)
    assert set(crash_points()) == _OF_WATERMARKS.union(
        _OF_RETENTION, _OF_LAKES, _OF_SNAPSHOTS, _OF_SKIPS, _OF_FILLS, *tested
    )


# Each process goes on from where the one before died, passes by there, and dies at the next place.
# What a capture publishes first says that it has taken over, and has no rows.
@pytest.mark.parametrize(
    "points",
    first(
        2,
        _OF_STATEMENTS,
        _OF_PUBLISHERS,
        *([point] for point in (*_OF_STATEMENTS, *_OF_PUBLISHERS)),
        *([f"{point}:2"] for point in _OF_PUBLISHERS if "publish." in point),
    ),
    ids=" ".join,
)
def test_capture_recovers(running: CrashCase, points: Sequence[str]) -> None:
    running.write(f"before {points}")
    running.alter(f"c_{len(points)}_{points[0].replace('.', '_').replace(':', '_')}")
    running.write(f"behind {points}")

    for point in points:
        running.crash(point, "capture")
    running.carry("capture")

    running.assert_in_kafka_once()


def test_a_tracker_that_is_being_restored_recovers(running: CrashCase) -> None:
    running.write("before it is altered")
    running.alter("c_restored")
    running.write("behind it")

    for point in ("statement.applied", *sorted(_OF_RESTORED_TRACKERS, reverse=True)):
        running.crash(point, "capture")
    running.carry("capture")

    running.assert_in_kafka_once()


_LOADS = sorted(_OF_LOADS) + [f"{point}:2" for point in sorted(_OF_LOADS - {"load.finished"})]


# Of what is written once for both, files are made after a crash, and loaded after another.
@pytest.mark.parametrize(
    ("of_files", "of_loads"),
    first(len(_OF_LOADS), *zip(cycle(sorted({*_OF_FILES, *_OF_PUBLISHERS})), _LOADS, strict=False)),
)
def test_files_and_loads_recover(running: CrashCase, of_files: str, of_loads: str) -> None:
    running.write(f"before {of_files} and {of_loads}")
    if of_loads.endswith(":2"):
        # Tables with a few rows share a transaction; one that is altered has its own.
        running.alter(of_loads.partition(":")[0].replace(".", "_"))
    running.carry("capture")

    running.crash(of_files, "objects")
    running.carry("objects")
    running.crash(of_loads, "warehouse")
    running.carry("warehouse")

    running.assert_in_warehouse()


def test_a_round_behind_all_of_it_writes_nothing(running: CrashCase) -> None:
    running.carry()
    ends = running.ends()

    running.carry()

    assert running.ends() == ends
    running.assert_in_kafka_once()
    running.assert_in_warehouse()


@pytest.mark.parametrize(
    "points",
    first(
        1,
        ("tracker.emptied", "start.tracker_filled", "start.published"),
        *([point] for point in (*sorted(_OF_FIRST_STARTS), "tracker.emptied", *_OF_PUBLISHERS)),
    ),
    ids=" ".join,
)
def test_a_first_start_recovers(
    make_crash_case: Callable[..., CrashCase], fresh_name: str, points: Sequence[str]
) -> None:
    case = make_crash_case(fresh_name)
    case.write("before")

    for point in points:
        case.crash(point, "capture")
        case.write(f"after {point}")
    case.carry()

    case.assert_in_kafka_once()
    case.assert_in_warehouse()


@pytest.mark.nightly
def test_a_copy_in_pieces_recovers_behind_what_has_come_to_the_warehouse(
    make_crash_case: Callable[..., CrashCase], fresh_name: str
) -> None:
    case = make_crash_case(fresh_name, {"snapshot_commit_seconds": 0})
    case.write("before")
    # None of the three tables is empty, so the fourth piece is not the last, which says that the copy is whole.
    for row in ("accounts VALUES (-1, 0, '')", "entries VALUES (-3, '')", "last_versions VALUES (-1, 0)"):
        case.execute(fresh_name, f"INSERT INTO {row}")

    for pieces in (4, 2, 3):
        case.crash(f"start.published:{pieces}", "capture")
        case.carry("objects")
        case.carry("warehouse")
    case.execute(fresh_name, "DELETE FROM entries ORDER BY number LIMIT 2", "DELETE FROM accounts WHERE id % 3 = 0")
    case.alter("more")
    case.crash("start.published:3", "capture")
    case.carry("objects")
    case.carry("warehouse")
    case.write("after")
    case.carry()

    case.assert_in_warehouse()

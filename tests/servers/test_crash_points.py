"""A process ends, as by kill -9, at each place between two writes; the next one loses nothing and doubles nothing."""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing
from dataclasses import dataclass
from itertools import cycle
from types import MappingProxyType
from typing import TYPE_CHECKING

import pymysql
import pytest
import yaml
from tests.servers.kinds import first

from penstock.adapters.duckdb.query import query
from penstock.adapters.lock.zookeeper import ZookeeperLock
from penstock.adapters.lock.zookeeper_client import ZookeeperPlace
from penstock.adapters.mysql.connection import MysqlServer
from penstock.adapters.mysql.tracker import MysqlTracker
from penstock.config.crash_points import VARIABLE
from penstock.config.load import load
from penstock.demo.compare import compare_all
from penstock.embedded.mariadb import PASSWORD
from penstock.faults.racing import start_racer
from penstock.faults.round import carry_apart
from penstock.faults.witness import Witness, topic_ends
from penstock.faults.workload import CREATE_TABLES, Workload
from penstock.jobs.in_process import carry
from penstock.wiring.crash_points import crash_points
from penstock.wiring.open import committed_position, open_topic_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from multiprocessing.process import BaseProcess
    from pathlib import Path

    from penstock.dev.zookeeper import ZookeeperServer
    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer

_COMMITS = 10
_EXPIRIES = int(os.environ.get("PENSTOCK_TEST_EXPIRIES", "2"))
_EXPIRIES_BY_NIGHT = 8
_SESSION_SECONDS = 1.0
_TAKE_OVER_SECONDS_MAX = 120.0
_TABLES = ("accounts", "entries", "last_versions")
_LINKS = {"": None, "capture": "db", "objects": "objects", "warehouse": "db-to-warehouse"}
_OF_FIRST_STARTS = {"start.tracker_filled", "start.published"}
_OF_RESTORED_TRACKERS = {"statement.restored", "tracker.emptied"}
_OF_STATEMENTS = tuple(f"statement.{name}" for name in ("dumped", "applied", "registered", "topics_made", "announced"))
"""In the order in which a capture comes by them."""
_OF_PUBLISHERS = ("publisher.opened", "publish.messages_sent", "publish.sent", "publish.committed")
"""In this order, too."""
_OF_FILES = {"objects.file_written"}
_OF_WATERMARKS = {f"watermarks.{name}" for name in ("saved_ahead", "sending", "flushed", "saved")}
"""Of a mode of its own: see test_watermarks and test_capture_without_transactions."""
_OF_RETENTION = {"retention.told", "retention.deleted"}
"""Of files that are old: see test_file_retention."""
_OF_LAKES = {f"lake.{name}" for name in ("recorded", "committed", "moved", "left")}
"""Of Delta tables: see pipeline/test_delta and test_delta_sink."""
_OF_SNAPSHOTS = {"snapshot.refreshed"}
"""Of rows that are read again: see test_snapshots."""
_OF_LOADS = {"load.merged", "load.positions_set", "load.committed", "load.finished"}


os.environ["CASE_PASSWORD"] = PASSWORD


@dataclass(frozen=True, slots=True)
class CrashCase:
    """A pipeline that is carried round by round."""

    name: str
    file: Path
    warehouse: Path
    source: MariadbServer
    kafka: KafkaBroker
    schematizer: str

    def carry(self, link: str = "") -> None:
        carry(load(self.file), _LINKS[link])

    def crash(self, point: str, link: str = "") -> None:
        log = self.file.with_name("round.log")
        environment = {"CASE_PASSWORD": self.source.password, VARIABLE: point}
        code = carry_apart(self.file, _LINKS[link], environment, log)
        assert code == -signal.SIGKILL, log.read_text()
        assert f"ended at {point.partition(':')[0]}: " in log.read_text()

    def write(self, seed: str) -> None:
        with Workload(self.connect, seed, pause_seconds=0.001) as workload:
            while workload.commits < _COMMITS:
                time.sleep(0.01)

    def alter(self, column: str) -> None:
        self.execute(self.name, f"ALTER TABLE accounts ADD COLUMN {column} INT")

    def execute(self, database: str, *statements: str) -> None:
        with closing(self.connect(database)) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            connection.commit()

    def connect(self, database: str | None = None) -> pymysql.Connection:
        return pymysql.connect(
            host=self.source.host,
            port=self.source.port,
            user=self.source.user,
            password=self.source.password,
            database=self.name if database is None else database or None,
            connect_timeout=10,
            read_timeout=60,
        )

    def assert_in_kafka_once(self) -> None:
        """Every change of the source is in Kafka once, in order per key, as a plain client sees it."""
        with Witness(self.kafka.bootstrap_servers, self.schematizer, f"db.{self.name}") as witness:
            tally = witness.read()
            with closing(self.connect()) as connection:
                tally.lost += witness.lacks(connection)
                witness.count_surplus(connection)
        assert tally.changes > 0
        assert (tally.lost, tally.doubled, tally.examples) == (0, 0, [])

    def assert_in_warehouse(self) -> None:
        """Source and warehouse hold the same rows."""
        source = MysqlServer(self.source.host, self.source.port, self.source.user, self.source.password)
        no_server = self.warehouse.with_suffix(".none")
        compared = compare_all(source, lambda sql: query(self.warehouse, no_server, sql).rows, self.name)
        assert {c.table: (c.differences, c.examples) for c in compared} == dict.fromkeys(_TABLES, (0, ()))

    def newest_record(self) -> Mapping[str, object]:
        """What the capture committed last."""
        spec = load(self.file)
        with closing(open_topic_log(spec)) as log:
            return committed_position(spec, log, "db") or {}

    def ends(self) -> dict[tuple[str, int], int]:
        ours = [f"db.{self.name}.", f"penstock.{self.name}.batches", f"penstock.{self.name}.schemas"]
        return topic_ends(self.kafka.bootstrap_servers, ours)


@pytest.fixture(scope="module")
def make_crash_case(
    tmp_path_factory: pytest.TempPathFactory,
    mariadb: MariadbServer,
    tracker_server: MariadbServer,
    kafka: KafkaBroker,
    schematizer: str,
) -> Iterator[Callable[..., CrashCase]]:
    """Make a pipeline with an empty tracker, and its source's tables in a database of that name."""
    made: list[CrashCase] = []
    login = {"host": mariadb.host, "port": mariadb.port, "user": mariadb.user, "password_env": "CASE_PASSWORD"}

    def make(name: str, source: Mapping[str, object] = MappingProxyType({}), **more: object) -> CrashCase:
        directory = tmp_path_factory.mktemp(name)
        tracker = MysqlServer(tracker_server.host, tracker_server.port, tracker_server.user, tracker_server.password)
        MysqlTracker(tracker).restore('{"schemas": []}')
        config = {
            "pipeline": name,
            "home": str(directory / "home"),
            "kafka": {"bootstrap_servers": kafka.bootstrap_servers, "partitions": 2},
            "schematizer": {"url": schematizer},
            "tracker": {**login, "port": tracker_server.port},
            # Ranges are published in turns: other places to die in than those of a task that follows.
            "sources": [
                {
                    "name": "db",
                    "kind": "mysql",
                    **login,
                    "tables": [f"{name}.*"],
                    "start": "snapshot",
                    "backlog_tasks": 2,
                    **source,
                }
            ],
            "sinks": [{"name": "warehouse", "kind": "duckdb", "path": str(directory / "warehouse.duckdb")}],
            "links": [{"from": "db", "to": "warehouse"}],
            **more,
        }
        file = directory / "pipeline.yaml"
        file.write_text(yaml.safe_dump(config))
        case = CrashCase(name, file, directory / "warehouse.duckdb", mariadb, kafka, schematizer)
        case.execute("", f"CREATE DATABASE {name}")
        case.execute(name, *CREATE_TABLES)
        made.append(case)
        return case

    yield make
    for case in made:
        case.execute("", f"DROP DATABASE {case.name}")


@pytest.fixture(scope="module")
def running(make_crash_case: Callable[..., CrashCase]) -> CrashCase:
    """A pipeline that was started; each test goes on with it where the one before left it."""
    case = make_crash_case("crash_points")
    case.write("first")
    case.carry()
    return case


def test_there_is_a_test_for_every_point() -> None:
    tested = (_OF_FIRST_STARTS, _OF_RESTORED_TRACKERS, _OF_STATEMENTS, _OF_PUBLISHERS, _OF_FILES, _OF_LOADS)
    assert set(crash_points()) == _OF_WATERMARKS.union(_OF_RETENTION, _OF_LAKES, _OF_SNAPSHOTS, *tested)


# Each process goes on from where the one before died, passes by there, and dies at the next place.
# What a capture publishes first says that it has taken over, and has no rows.
@pytest.mark.parametrize(
    "points",
    first(
        2,
        _OF_STATEMENTS,
        _OF_PUBLISHERS,
        *((point,) for point in (*_OF_STATEMENTS, *_OF_PUBLISHERS)),
        *((f"{point}:2",) for point in _OF_PUBLISHERS if "publish." in point),
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
    ("of_files", "of_loads"), list(zip(cycle(sorted({*_OF_FILES, *_OF_PUBLISHERS})), _LOADS, strict=False))
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
        *((point,) for point in (*sorted(_OF_FIRST_STARTS), "tracker.emptied", *_OF_PUBLISHERS)),
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


def test_a_copy_in_pieces_recovers_behind_what_has_come_to_the_warehouse(
    make_crash_case: Callable[..., CrashCase], fresh_name: str
) -> None:
    case = make_crash_case(fresh_name, {"snapshot_commit_seconds": 0})
    case.write("before")
    # None of the three tables is empty, so the sixth piece is not the last, which says that the copy is whole.
    for row in ("accounts VALUES (-1, 0, '')", "entries VALUES (-3, '')", "last_versions VALUES (-1, 0)"):
        case.execute(fresh_name, f"INSERT INTO {row}")

    for pieces in (6, 2, 4):
        case.crash(f"start.published:{pieces}", "capture")
        case.carry("objects")
        case.carry("warehouse")
    case.execute(fresh_name, "DELETE FROM entries ORDER BY number LIMIT 2", "DELETE FROM accounts WHERE id % 3 = 0")
    case.alter("more")
    case.crash("start.published:4", "capture")
    case.carry("objects")
    case.carry("warehouse")
    case.write("after")
    case.carry()

    case.assert_in_warehouse()


@pytest.mark.parametrize("expiries", [_EXPIRIES, pytest.param(_EXPIRIES_BY_NIGHT, marks=pytest.mark.nightly)])
def test_two_instances_that_fall_asleep_by_turns_publish_every_change_once(
    make_crash_case: Callable[..., CrashCase],
    zookeeper: ZookeeperServer,
    fresh_name: str,
    tmp_path: Path,
    expiries: int,
) -> None:
    case = make_crash_case(
        fresh_name, lock={"zookeeper": f"{zookeeper.address}/racing", "session_seconds": _SESSION_SECONDS}
    )
    case.write("before")
    case.carry()
    lock = ZookeeperLock(ZookeeperPlace(zookeeper.address, "/racing", _SESSION_SECONDS), fresh_name)
    racers = [start_racer(case.file, tmp_path / f"racer-{number}.log") for number in range(2)]
    try:
        with Workload(case.connect, "while they race"):
            slept = [_let_leader_sleep(case, lock, racers) for _ in range(expiries)]
        assert set(slept) == {racer.pid for racer in racers}
    except AssertionError as error:
        message = f"{error}\n{_where_they_are(racers, tmp_path)}"
        raise AssertionError(message) from error
    finally:
        for racer in racers:
            racer.kill()
            racer.join()

    case.carry()
    case.assert_in_kafka_once()
    case.assert_in_warehouse()


def _let_leader_sleep(case: CrashCase, lock: ZookeeperLock, racers: Sequence[BaseProcess]) -> int:
    """Stop whoever leads until the other one has published rows, then let it go on; the process id of the sleeper."""
    pids = {f"pid {racer.pid} on ": racer.pid for racer in racers}
    sleeper = _leader(lock, pids)
    # It has published for a while, and is stopped wherever it is.
    time.sleep(1.5)
    os.kill(sleeper, signal.SIGSTOP)
    try:
        epoch, deadline = case.newest_record()["epoch"], time.monotonic() + _TAKE_OVER_SECONDS_MAX
        while (record := case.newest_record())["epoch"] == epoch or not record["rows"]:
            assert time.monotonic() < deadline, (sleeper, epoch, lock.holder(), record)
            time.sleep(0.1)
    finally:
        os.kill(sleeper, signal.SIGCONT)
    return sleeper


def _where_they_are(racers: Sequence[BaseProcess], logs: Path) -> str:
    """What the racers wrote, and where each of their threads is now."""
    for racer in racers:
        assert racer.pid is not None
        os.kill(racer.pid, signal.SIGUSR1)
    time.sleep(1.0)
    return "\n".join(f"--- {log.name}\n{log.read_text()}" for log in sorted(logs.glob("racer-*.log")))


def _leader(lock: ZookeeperLock, pids: Mapping[str, int | None]) -> int:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        holder = lock.holder()
        for who, pid in pids.items():
            if holder.startswith(who) and pid is not None:
                return pid
        time.sleep(0.1)
    raise AssertionError(holder)

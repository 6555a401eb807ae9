"""Old files go once every target has loaded them, none that a target needs, and whoever comes later is told."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.servers.forked import run_forked
from tests.servers.fresh_databases import state_database
from tests.servers.kinds import first
from tests.servers.sink_case import DuckdbTarget, Place, PostgresTarget
from tests.servers.test_warehouse_loader import MemoryRegistry

from penstock.adapters.objects.store import ObjectsSpec, open_objects
from penstock.adapters.postgres.connection import PostgresServer as PostgresLogin
from penstock.adapters.redshift.load_files import write_manifest
from penstock.adapters.state.store import open_state
from penstock.config.crash_points import VARIABLE
from penstock.core.batches import Batch
from penstock.core.errors import FencedError, PositionError
from penstock.core.tables import TableId
from penstock.links.objects.publish import BatchPublisher
from penstock.links.objects.retention import FileRetention, Kept, Swept
from penstock.links.objects.trimming import BatchTrimming
from penstock.links.warehouse.load import WarehouseLoader

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from penstock.adapters.objects.store import Objects
    from penstock.core.changes import Messages
    from penstock.dev.postgres import PostgresServer
    from penstock.links.objects.record import ObjectsRecord
    from penstock.ports.topics import Fetched

_HOUR = 3_600_000
_SPAWN = multiprocessing.get_context("spawn")


class BatchTopic:
    """The batch topic as a list, which keeps the promises of `TopicLog` that retention asks for."""

    def __init__(self, batches: list[Batch]) -> None:
        self.values = [batch.to_json() for batch in batches]

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Sequence[tuple[int, bytes]]]:
        del topic, partition
        yield list(enumerate(self.values))[start:end]

    def read_together(self, ranges: object, bytes_max: int) -> Iterator[tuple[tuple[str, int], Fetched]]:
        raise AssertionError((ranges, bytes_max))

    def ends(self, partitions: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        return {place: len(self.values) for place in partitions}

    def settled_ends(self, partitions: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        raise AssertionError(partitions)

    def ids(self, topics: object) -> Mapping[str, str]:
        raise AssertionError(topics)

    def close(self) -> None:
        """Nothing is open."""


class FilePublisher:
    """Keeps the record in a file, which outlives the process."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def position(self) -> Mapping[str, object] | None:
        found: dict[str, Any] | None = json.loads(self._file.read_text()) if self._file.exists() else None
        return found

    def left_over(self, topic: str) -> int:
        raise AssertionError(topic)

    def create_topics(self, topics: Iterable[str]) -> None:
        """Topics need no making."""

    def publish(self, messages: Iterable[Messages], record: Callable[[], Mapping[str, object]]) -> None:
        assert not list(messages)
        passing = self._file.with_suffix(".new")
        passing.write_text(json.dumps(record()))
        passing.rename(self._file)

    def save(self) -> None:
        """A record is there when it is published."""

    def settle(self) -> None:
        """Readers see at once what is published."""

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class Case:
    """Ten files, an hour between any two, and two targets that load them."""

    directory: Path
    targets: dict[str, Place]
    objects: Objects
    batches: list[Batch]

    @property
    def record(self) -> ObjectsRecord:
        return BatchPublisher(FilePublisher(self.directory / "record"), "batches", 1).record

    def load(self, target: str, end: int) -> None:
        state = open_state(f"sqlite:///{self.directory / target}.state", "shop")
        registry = MemoryRegistry()
        topic = list(enumerate(batch.to_json() for batch in self.batches))
        sink, read = self.targets[target].open(), lambda start, end: [topic[start:end]]
        loader = WarehouseLoader(f"to-{target}", sink, registry, state, lambda _, __: True, read)
        try:
            start = loader.start(Kept(self.record.files_from))
            loader.load(topic[start:end])
        finally:
            loader.close()
            state.close()

    def sweep(self, now_hours: float, targets: tuple[str, ...] = ("duckdb", "postgres")) -> int:
        return self.swept(now_hours, targets).files

    def swept(self, now_hours: float, targets: tuple[str, ...] = ("duckdb", "postgres")) -> Swept:
        sinks = {name: self.targets[name].open() for name in targets}
        offsets = {name: min([sink.batch_offset(), *sink.waiting().values()]) for name, sink in sinks.items()}
        return sweep(self.directory, self.batches, offsets, now_hours)

    def there(self) -> list[int]:
        """Which of the files are there."""
        return [number for number, batch in enumerate(self.batches) if self.objects.exists(batch.path)]


def sweep(
    directory: Path, batches: list[Batch], offsets: Mapping[str, int], now_hours: float, kept: Collection[str] = ()
) -> Swept:
    """Delete what is older than two hours and loaded by targets that stand at `offsets`."""
    objects = open_objects(ObjectsSpec((directory / "objects").as_uri()))
    retention = FileRetention("shop", BatchTopic(batches), "batches", objects, 2 * _HOUR)
    publisher = BatchPublisher(FilePublisher(directory / "record"), "batches", 1)
    topics = {batch.topic for batch in batches if batch.topic not in kept}
    return retention.sweep(publisher, offsets, int(now_hours * _HOUR), topics)


def sweep_and_crash(point: str, directory: Path, batches: list[Batch]) -> None:
    """Do so in a process that ends at `point`, as by kill -9."""
    os.environ[VARIABLE] = point
    sweep(directory, batches, {"one": 10, "two": 10}, 7)


@pytest.fixture
def case(tmp_path: Path, postgres: PostgresServer, fresh_name: str) -> Iterator[Case]:
    objects = open_objects(ObjectsSpec((tmp_path / "objects").as_uri()))
    login = PostgresLogin(postgres.host, postgres.port, fresh_name, postgres.user, postgres.password, {})
    duckdb = Place(DuckdbTarget(tmp_path / "shop.duckdb"), objects)
    with (
        state_database(postgres, fresh_name),
        closing(duckdb),
        closing(Place(PostgresTarget(login), objects)) as place,
    ):
        batches = [replace(duckdb.batch(n, [("c", f"key {n}", n)]), written_at_ms=n * _HOUR) for n in range(10)]
        yield Case(tmp_path, {"duckdb": duckdb, "postgres": place}, objects, batches)


ALL = list(range(10))


def test_a_file_goes_when_it_is_old_and_every_target_has_it(case: Case) -> None:
    case.load("duckdb", 8)
    untouched = case.sweep(100)
    case.load("postgres", 3)
    loaded = case.sweep(100)
    case.load("postgres", 10)
    old = case.sweep(7)

    assert (untouched, loaded, old) == (0, 3, 2)
    assert case.there() == [5, 6, 7, 8, 9]
    assert (case.record.files_from, case.record.deleted_to) == (5, 5)
    case.load("duckdb", 10)
    for place in case.targets.values():
        assert place.ask("SELECT count(*), sum(qty) FROM shop.orders") == [(10, 45)]


def test_a_file_in_its_message_is_as_old_as_others_and_is_none_to_delete(case: Case) -> None:
    case.batches[1] = case.targets["duckdb"].moved_into_message(case.batches[1])
    for target in case.targets:
        case.load(target, 10)

    deleted = case.sweep(5)

    assert (deleted, case.record.files_from) == (2, 3)
    for place in case.targets.values():
        assert place.ask("SELECT count(*), sum(qty) FROM shop.orders") == [(10, 45)]


@pytest.mark.parametrize(("ahead_hours", "there"), [(9_000, [5, 6, 7, 8, 9]), (1, [3, 4, 5, 6, 7, 8, 9])])
def test_a_file_of_a_clock_that_was_far_ahead_is_as_old_as_its_changes(
    case: Case, ahead_hours: int, there: list[int]
) -> None:
    late = replace(case.batches[3], written_at_ms=(7 + ahead_hours) * _HOUR, last_timestamp_ms=2 * _HOUR)

    sweep(case.directory, [*case.batches[:3], late, *case.batches[4:]], {"one": 10}, 7)

    assert case.there() == there


def test_a_table_that_waits_in_one_target_keeps_its_files(case: Case) -> None:
    case.targets["postgres"].do("CREATE SCHEMA shop", "CREATE TABLE shop.orders (mine INT)")
    case.load("duckdb", 10)
    case.load("postgres", 10)

    assert case.sweep(100) == 0
    assert case.there() == ALL

    case.targets["postgres"].do("DROP TABLE shop.orders")
    case.load("postgres", 10)

    assert case.sweep(100) == 10
    assert case.targets["postgres"].ask("SELECT count(*) FROM shop.orders") == [(10,)]


def test_a_target_that_comes_later_is_told_that_files_are_gone_and_gets_nothing(case: Case) -> None:
    case.load("duckdb", 10)
    case.sweep(7, targets=("duckdb",))

    with pytest.raises(PositionError, match="files of batches before 5 were deleted") as raised:
        case.load("postgres", 10)

    assert "the target of to-postgres has loaded the batches before offset 0" in raised.value.message
    assert "restore a backup of the target from after batch 5" in raised.value.hint
    assert case.targets["postgres"].tables() == []
    assert case.sweep(100) == 0


def test_files_of_tables_that_no_snapshot_brings_back_stay(case: Case) -> None:
    kept = [replace(batch, topic="joined") for batch in case.batches[::2]]
    batches = [kept[n // 2] if n % 2 == 0 else batch for n, batch in enumerate(case.batches)]

    swept = sweep(case.directory, batches, {"one": 10}, 7, kept=["joined"])

    assert (swept.files, case.record.files_from, case.there()) == (2, 5, [0, 2, 4, 5, 6, 7, 8, 9])


def test_without_any_target_nothing_is_deleted(case: Case) -> None:
    assert case.sweep(100, targets=()) == 0
    assert case.there() == ALL


@pytest.mark.parametrize("point", first(1, "retention.deleted", "retention.told"))
def test_killed_in_the_middle_it_deletes_the_rest_and_nothing_more(case: Case, point: str) -> None:
    for target in case.targets:
        case.load(target, 10)

    # Neither DuckDB nor the object store's client lives on in a fork.
    process = _SPAWN.Process(target=sweep_and_crash, args=(point, case.directory, case.batches))
    process.start()
    process.join(60)
    process.kill()
    between = case.record

    assert process.exitcode == -signal.SIGKILL
    assert (between.files_from, between.deleted_to) == (5, 0)
    assert case.there() == (ALL if point == "retention.told" else ALL[5:])
    assert case.sweep(7) == 5
    assert (case.record.files_from, case.record.deleted_to, case.there()) == (5, 5, ALL[5:])


def trim(directory: Path) -> None:
    """Throw away messages of files that are deleted; a file says up to where Kafka was told."""
    batch = Batch.from_json((directory / "batch").read_bytes())
    publisher = BatchPublisher(FilePublisher(directory / "record"), "batches", 1)
    told = directory / "told"
    trimming = BatchTrimming(BatchTopic([batch] * 10), "batches", lambda before: _write(told, before))
    trimming.trim(publisher, 10, {batch.topic})


def _write(file: Path, number: int) -> None:
    file.write_text(str(number))


def test_killed_between_the_record_and_kafka_it_tells_kafka_the_next_time(tmp_path: Path) -> None:
    order = (1, 1, 0)
    batch = Batch("s", TableId("shop", "t"), "s.shop.t", 0, 0, 1, 1, "f", 1, "parquet", 2, order, order, 1)
    (tmp_path / "batch").write_bytes(batch.to_json())
    publisher = FilePublisher(tmp_path / "record")
    BatchPublisher(publisher, "batches", 1).forget_files(5, 5)

    code = run_forked(trim, tmp_path, crash_at="retention.trimming")
    between = BatchPublisher(publisher, "batches", 1).record.batches_from
    was_told = (tmp_path / "told").exists()
    trim(tmp_path)

    assert (code, between, was_told) == (-9, 5, False)
    assert (tmp_path / "told").read_text() == "5"


def test_a_replaced_instance_deletes_nothing(case: Case) -> None:
    for target in case.targets:
        case.load(target, 10)
    older = BatchPublisher(FilePublisher(case.directory / "record"), "batches", 1)
    BatchPublisher(FilePublisher(case.directory / "record"), "batches", 2).forget_files(0, 0)

    with pytest.raises(FencedError):
        case.sweep(100)

    assert case.there() == ALL
    assert older.record.files_from == 0


def test_many_files_go_some_at_a_time(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.links.objects.retention._BATCHES_AT_ONCE", 2)
    monkeypatch.setattr("penstock.links.objects.retention._TURNS_MAX", 2)
    for target in case.targets:
        case.load(target, 10)

    swept = [case.swept(100) for _ in range(4)]

    assert [(each.files, each.has_more) for each in swept] == [(4, True), (4, True), (2, False), (0, False)]
    assert case.there() == []


def test_manifests_of_loads_go_as_files_do(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    for hours in (1, 6):
        monkeypatch.setattr("time.time_ns", lambda: hours * _HOUR * 1_000_000)  # noqa: B023 - called at once
        write_manifest(case.objects, "s3://bucket", "shop", "duckdb", case.batches[:2])
    kept = case.objects.list("shop/manifests")[1]

    case.sweep(7)

    assert case.objects.list("shop/manifests") == [kept]

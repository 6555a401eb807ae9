"""Which snapshots a link asks for: of tables that it carries and its target lacks, once, whatever other links do."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from penstock.config.load import load
from penstock.core.batches import Batch
from penstock.core.schema_changes import Move, SchemaChange, SchemaChangeKind
from penstock.core.snapshots import Method, SnapshotOptions, Status
from penstock.core.tables import TableId
from penstock.links.objects.record import ObjectsRecord
from penstock.links.warehouse.set_aside import UNFILLED
from penstock.wiring.fills import SnapshotFills
from penstock.wiring.open import batch_topic, open_snapshot_list, schema_changes_topic
from penstock.wiring.refreshing import new_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from penstock.config.specs import PipelineSpec
    from penstock.ports.snapshots import Snapshot

_FILE = """
pipeline: p
home: ./home
sources: [{name: s, kind: mysql, host: h, user: u, password_env: P, tables: [shop.*]}]
sinks: [{name: a, kind: duckdb, path: a.duckdb}, {name: b, kind: duckdb, path: b.duckdb}]
links: [{from: s, to: a, tables: ["*.*", "!shop.out", "!shop.logout"]}, {from: s, to: b}]
"""
ORDERS, OUT, LOG, LOGOUT = (TableId("shop", name) for name in ("orders", "out", "log", "logout"))
FULL = SnapshotOptions(full_refresh=True)


@dataclass
class MemoryLog:
    """Topics of one partition, in memory."""

    topics: dict[str, list[bytes]] = field(default_factory=dict)

    def read(self, topic: str, _partition: int, start: int, end: int) -> Iterator[Sequence[tuple[int, bytes]]]:
        yield list(enumerate(self.topics.get(topic, [])))[start:end]

    def ends(self, partitions: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        return {place: len(self.topics[place[0]]) for place in partitions if place[0] in self.topics}

    def newest(self, topic: str) -> bytes | None:
        return next(reversed(self.topics.get(topic, [])), None)

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class Pipeline:
    """A pipeline that nobody runs."""

    spec: PipelineSpec
    log: MemoryLog

    def fills(self, link: int = 0, files_from: int = 9) -> SnapshotFills:
        return SnapshotFills(self.spec, self.spec.links[link], ObjectsRecord(files_from=files_from))

    def begun(self, record: ObjectsRecord, link: int = 0, loaded_to: int = 9) -> Mapping[TableId, int | None]:
        return SnapshotFills(self.spec, self.spec.links[link], record).begun(loaded_to)

    def tell(self, *tables: TableId, has_key: bool = True, moves: tuple[Move, ...] = ()) -> None:
        """Announce tables in the schemas and in the batch topic."""
        for table in tables:
            kind = SchemaChangeKind.RENAME if moves else SchemaChangeKind.SCHEMA
            topic, order = f"p.{table}.{has_key}", (1, 1, 0)
            change = SchemaChange("s", table, topic, "", 1 if has_key else None, 2, 1, order, kind, moves=moves)
            batch = Batch("s", table, topic, 0, 0, 0, 0, "", 0, "parquet", 2, order, order, 0, kind, moves=moves)
            self.log.topics.setdefault(schema_changes_topic(self.spec), []).append(change.to_json())
            self.log.topics.setdefault(batch_topic(self.spec), []).append(batch.to_json())

    def asked(self) -> list[tuple[str, str]]:
        """Which table was asked for, for which link."""
        with closing(open_snapshot_list(self.spec)) as snapshots:
            return [(each.table, each.options.link) for each in snapshots.all("s")]

    def end_all(self, status: Status = Status.FAILED) -> None:
        with closing(open_snapshot_list(self.spec)) as snapshots:
            for each in snapshots.all("s", is_open=True):
                snapshots.tell(replace(each, status=status, error="the disk is full", hint="make room"))

    def add(self, options: SnapshotOptions) -> Snapshot:
        with closing(open_snapshot_list(self.spec)) as snapshots:
            snapshots.add(snapshot := new_snapshot("s", str(ORDERS), options))
        return snapshot


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    file = tmp_path / "p.yaml"
    file.write_text(_FILE)
    log = MemoryLog()
    monkeypatch.setattr("penstock.wiring.fills.open_topic_log", lambda _: log)
    monkeypatch.setattr("penstock.wiring.fills.committed_end", lambda _, log, __, topic: len(log.topics[topic]))
    monkeypatch.setattr("penstock.wiring.fills.settled_end", lambda log, topic: len(log.topics[topic]))
    pipeline = Pipeline(load(file), log)
    pipeline.tell(ORDERS, OUT)
    return pipeline


def test_two_links_whose_snapshots_fail_ask_once_each(pipeline: Pipeline) -> None:
    links = [pipeline.fills(0), pipeline.fills(1)]

    for _ in range(4):
        told = [link.ask({ORDERS}, 9)[ORDERS] for link in links]
        pipeline.end_all()

    assert pipeline.asked() == [("shop.orders", "s-to-a"), ("shop.orders", "s-to-b")]
    assert [each.hint.rpartition(" ")[2] for each in told] == ["s-to-a", "s-to-b"]


def test_of_what_has_begun_a_target_lacks_either_files_or_a_snapshot(pipeline: Pipeline) -> None:
    pipeline.tell(LOG, has_key=False)
    pipeline.tell(LOGOUT, moves=(Move("shop.log", "shop.logout", 2),))
    pipeline.tell(late := TableId("shop", "late"))

    all_there = pipeline.begun(ObjectsRecord(schemas_offset=4))
    some_gone = pipeline.begun(ObjectsRecord(schemas_offset=4, files_from=9, kept_from=0, batches_from=2))
    link_b = pipeline.begun(ObjectsRecord(schemas_offset=4, files_from=9), link=1)

    assert all_there == {ORDERS: 0, OUT: None, LOGOUT: None}
    assert some_gone == {ORDERS: UNFILLED, OUT: None, LOGOUT: None}
    assert link_b == {ORDERS: UNFILLED, OUT: UNFILLED, LOGOUT: UNFILLED}
    assert pipeline.begun(ObjectsRecord(schemas_offset=4), link=1) == {ORDERS: 0, OUT: 0, LOGOUT: UNFILLED}
    assert late in pipeline.begun(ObjectsRecord(schemas_offset=4, passed=(4,)))


def test_what_lies_ahead_of_a_target_has_not_begun_there(pipeline: Pipeline) -> None:
    pipeline.tell(LOG, has_key=False)
    pipeline.tell(LOGOUT, moves=(Move("shop.orders", "shop.logout", 2),))
    record = ObjectsRecord(schemas_offset=4)

    begun = [pipeline.begun(record, 1, loaded_to).keys() for loaded_to in (1, 2, 3, 4)]

    assert begun == [{ORDERS}, {ORDERS, OUT}, {ORDERS, OUT, LOG}, {OUT, LOG, LOGOUT}]


def test_a_table_without_a_key_waits_where_the_batch_topic_begins(pipeline: Pipeline) -> None:
    pipeline.tell(LOG, has_key=False)

    begun = pipeline.begun(ObjectsRecord(schemas_offset=3, files_from=9, kept_from=0, batches_from=2))

    assert begun == {ORDERS: UNFILLED, OUT: None, LOG: 2}


def test_a_link_with_a_schema_knows_nothing_of_tables_of_other_schemas(pipeline: Pipeline) -> None:
    pipeline.tell(TableId("other", "orders"))
    link = pipeline.spec.links[0].model_copy(update={"target_schema": "new"})

    fills = SnapshotFills(pipeline.spec, link, ObjectsRecord(schemas_offset=3, files_from=9))

    assert fills.begun(9).keys() == fills.beginning()[1].keys() == {ORDERS, OUT}


@pytest.mark.parametrize("later", [SnapshotOptions(where="id = 1"), replace(FULL, link="s-to-b")])
@pytest.mark.parametrize("how", [Status.REQUESTED, Status.DONE])
def test_what_was_cancelled_stays_so_whatever_others_ask_for(
    pipeline: Pipeline, later: SnapshotOptions, how: Status
) -> None:
    fills = pipeline.fills()
    fills.ask({ORDERS}, 9)
    pipeline.end_all(Status.CANCELLED)
    pipeline.add(later)
    if how.has_ended:
        pipeline.end_all(how)

    told = fills.ask({ORDERS}, 9)[ORDERS]

    assert "was cancelled" in told.why
    assert len(pipeline.asked()) == 2


@pytest.mark.parametrize("anew", [FULL, SnapshotOptions(method=Method.FULL_LOCK)])
def test_a_table_that_is_to_begin_in_all_targets_is_waited_for(pipeline: Pipeline, anew: SnapshotOptions) -> None:
    fills = pipeline.fills()
    fills.ask({ORDERS}, 9)
    pipeline.end_all()
    pipeline.add(anew)

    assert (fills.ask({ORDERS}, 9)[ORDERS].hint, len(pipeline.asked())) == ("", 2)


def test_a_table_that_the_link_leaves_out_is_not_asked_for(pipeline: Pipeline) -> None:
    assert pipeline.fills().ask({ORDERS, OUT}, 9).keys() == {ORDERS}

    assert pipeline.asked() == [("shop.orders", "s-to-a")]


def test_a_new_target_remembers_that_it_lacks_what_its_link_leaves_out(pipeline: Pipeline) -> None:
    pipeline.tell(LOG, LOGOUT, has_key=False)

    end, waiting = pipeline.fills(files_from=2).beginning()

    assert (end, waiting) == (4, {ORDERS: UNFILLED, OUT: UNFILLED, LOGOUT: UNFILLED, LOG: 0})


def test_without_transactions_a_table_that_lacks_its_rows_says_what_to_do(pipeline: Pipeline) -> None:
    kafka = pipeline.spec.kafka.model_copy(update={"transactions": False})
    pipeline.spec = pipeline.spec.model_copy(update={"kafka": kafka})

    told = pipeline.fills().ask({ORDERS, OUT}, 9)

    assert told.keys() == {ORDERS}
    assert "kafka.transactions: true" in told[ORDERS].hint
    assert pipeline.asked() == []


def test_a_table_without_a_key_lacks_no_files_whatever_becomes_of_it_behind_those_that_are_gone(
    pipeline: Pipeline,
) -> None:
    pipeline.tell(LOG, LOGOUT, has_key=False)
    pipeline.tell(LOGOUT, has_key=False, moves=(Move("shop.out", "shop.logout", 2),))
    pipeline.tell(LOG, moves=(Move("shop.logout", "shop.log", 2),))

    first = pipeline.fills(files_from=5).files_from
    later = pipeline.fills(files_from=6).files_from

    assert [first(table) for table in (ORDERS, OUT, LOG, LOGOUT)] == [5, 5, 0, 5]
    assert later(LOG) == 6
    assert pipeline.fills(1, files_from=5).beginning()[1][LOG] == UNFILLED

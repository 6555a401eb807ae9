"""A capture that takes over from one that is still at work: each statement is replayed once."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
import yaml

from penstock.adapters.kafka import producer
from penstock.adapters.mysql.initial_snapshot import MysqlInitialSnapshot
from penstock.adapters.mysql.tracker import MysqlTracker
from penstock.config.load import load
from penstock.config.mysql_source import BACKLOG_TASKS_MAX, SERVER_IDS_PER_SOURCE
from penstock.core.errors import FencedError, PenstockError
from penstock.core.publication import CaptureRecord
from penstock.core.tables import TableId
from penstock.links.capture.spec import CaptureSpec
from penstock.ports.log import Stop
from penstock.wiring import capture as wiring
from penstock.wiring.mysql_capture import replica_id
from penstock.wiring.open import committed_position, mysql_source, open_topic_log

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from tests.servers.capture_case import CaptureCase, CaseServers

    from penstock.core.changes import RowBatch
    from penstock.core.mysql.statements.touched import Touched
    from penstock.embedded.kafka import KafkaBroker
    from penstock.links.capture.live import LiveCapture


@pytest.fixture
def case(case_servers: CaseServers, kafka: KafkaBroker, fresh_database: str) -> CaptureCase:
    made = case_servers.make_case(kafka, fresh_database)
    made.write("CREATE TABLE t (id INT PRIMARY KEY)")
    made.start()
    return made


@pytest.mark.parametrize("epoch", [2, 3], ids=["of the same instance", "of another instance"])
def test_a_statement_that_another_capture_is_just_replaying_is_replayed_once(
    case: CaptureCase, monkeypatch: pytest.MonkeyPatch, epoch: int
) -> None:
    case.write("ALTER TABLE t ADD COLUMN n INT", "INSERT INTO t VALUES (1, 2)")
    older, newer = CaptureSpec(case.spec, "db", 2), CaptureSpec(case.spec, "db", epoch)
    slow = wiring.open_live(older)
    taken: list[LiveCapture] = []
    tracker = slow._capture.parts.table_catalog.tracker
    assert isinstance(tracker, MysqlTracker)
    dump = tracker.dump

    def dump_late(touched: Touched) -> str:
        taken.append(wiring.open_live(newer))
        return dump(touched)

    monkeypatch.setattr(tracker, "dump", dump_late)
    with closing(slow), pytest.raises(FencedError):
        slow.run(60.0, case.head())

    (quick,) = taken
    with closing(quick):
        quick.run(60.0, case.head())

    with closing(open_topic_log(case.spec)) as log:
        record = committed_position(case.spec, log, "db")
    assert record is not None
    assert CaptureRecord.from_mapping(record).stopped == {}
    assert len(case.read(case.topic("t"))) == 1


def test_an_instance_that_sleeps_while_the_source_writes_to_it_holds_nobody_up(case: CaptureCase) -> None:
    """MariaDB keeps a replica waiting while it still tries to write to an older one of the same id."""
    case.write("CREATE TABLE large (x LONGTEXT)")
    begin = case.head()
    with closing(wiring.open_stream(CaptureSpec(case.spec, "db", 2), begin, Stop.NEVER, 0)):
        until = time.monotonic() + 60.0
        while not _waits_to_write(case):
            assert time.monotonic() < until
            case.write("INSERT INTO large VALUES (REPEAT('x', 4000000))")

        with closing(wiring.open_stream(CaptureSpec(case.spec, "db", 3), begin, Stop.NEVER, 0)) as stream:
            assert stream.read(10.0)


def _waits_to_write(case: CaptureCase) -> bool:
    """Whether the source is in the middle of a write that nobody reads: one that goes on is soon over."""
    looks = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'Writing to net'"
    if not case.ask(looks):
        return False
    time.sleep(1.0)
    return bool(case.ask(looks))


def test_connections_that_may_be_open_at_once_have_ids_of_their_own(
    case: CaptureCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections, ids = BACKLOG_TASKS_MAX + 1, set[int]()
    for number, seconds in enumerate([1_000_000.0, 1_000_020.0, 1_000_040.0]):
        monkeypatch.setattr(time, "time", lambda now=seconds: now)
        for epoch in range(1, 5):
            ids |= {replica_id(CaptureSpec(case.spec, "db", epoch), index) for index in range(connections)}
        assert len(ids) == (number + 1) * 4 * connections
    first = mysql_source(case.spec.source("db")).first_server_id(case.spec.pipeline)
    assert set(range(first, first + SERVER_IDS_PER_SOURCE)) > ids


@pytest.mark.nightly
def test_a_copy_takes_longer_than_a_transaction_may_in_pieces_and_not_in_one(
    case: CaptureCase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka, which looks every second here, refuses whoever goes on as it would refuse an older instance."""
    config = yaml.safe_load(case.file.read_text())
    another = tmp_path / "another.yaml"
    another.write_text(yaml.safe_dump({**config, "pipeline": f"{case.database}_2", "home": str(tmp_path / "home2")}))
    case.write("INSERT INTO t VALUES (1)")
    read_rows, ended = MysqlInitialSnapshot.rows, list[TableId]()

    def read_slowly(copy: MysqlInitialSnapshot, table: TableId, batch_rows: int) -> Generator[RowBatch]:
        try:
            for batch in read_rows(copy, table, batch_rows):
                # The second one sends the first, and that begins a transaction: what is announced had one of its own.
                yield batch
                yield batch
                time.sleep(4.0)
                yield batch
        finally:
            ended.append(table)

    # As rows of megabytes do: what is less waits in the producer, and no transaction is open.
    monkeypatch.setattr(producer, "RECORDS_BYTES_MAX", 0)
    monkeypatch.setattr(MysqlInitialSnapshot, "rows", read_slowly)
    monkeypatch.setattr(wiring, "snapshot_transaction_seconds", lambda _: 1.0)
    with pytest.raises(PenstockError, match="the transaction was open for longer than 1 s") as caught:
        wiring.start_capture(CaptureSpec(load(another), "db", 1))

    assert not isinstance(caught.value, FencedError)
    assert ended == [TableId(case.database, "t")]
    config["sources"][0]["snapshot_commit_seconds"] = 0
    another.write_text(yaml.safe_dump({**config, "pipeline": f"{case.database}_2", "home": str(tmp_path / "home2")}))
    assert "with an initial snapshot of 1 tables" in wiring.start_capture(CaptureSpec(load(another), "db", 2))

"""A capture and its files without Kafka's transactions: killed anywhere, and everything once and in order."""

from __future__ import annotations

import signal
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.servers.capture_processes import Change, changes, spawn
from tests.servers.kinds import first

from penstock.adapters.mysql.connection import MysqlServer, ask, connect
from penstock.core.batches import Batch
from penstock.core.errors import PositionError
from penstock.core.positions import binlog_position
from penstock.core.publication import CaptureRecord
from penstock.core.schema_changes import SchemaChange
from penstock.jobs import capture_tasks
from penstock.jobs.capture_tasks import TailSlice
from penstock.links.capture.spec import CaptureSpec
from penstock.wiring import capture as wiring
from penstock.wiring.capture import open_live
from penstock.wiring.open import committed_position, open_topic_log

if TYPE_CHECKING:
    from tests.servers.capture_case import CaptureCase, CaseServers

    from penstock.adapters.kafka.reader import TopicReader
    from penstock.core.positions import BinlogPosition, Position
    from penstock.embedded.kafka import KafkaBroker
    from penstock.links.capture.table_catalog import TableCatalog
    from penstock.ports.log import LogStream, Stop

PARTITIONS = 2


@pytest.fixture
def case(case_servers: CaseServers, kafka: KafkaBroker, fresh_database: str) -> CaptureCase:
    made = case_servers.make_case(kafka, fresh_database, transactions=False, partitions=PARTITIONS)
    made.write(
        "CREATE TABLE t (id INT PRIMARY KEY, n INT)",
        "CREATE TABLE log (what INT)",
        "INSERT INTO t SELECT seq, 0 FROM seq_1_to_200",
    )
    return made


def write_much(case: CaptureCase) -> None:
    for round_ in range(1, 8):
        case.write(
            f"UPDATE t SET n = {round_} WHERE id % 7 = {round_ % 7}",
            f"INSERT INTO log SELECT seq FROM seq_{round_}_to_{round_ + 9}",
            f"UPDATE t SET id = id + 1000 WHERE id = {round_ * 20}",
        )


@pytest.mark.parametrize("place", first(1, "sending", "saved", "sending:2", "flushed"))
def test_a_capture_that_is_killed_repeats_and_loses_nothing(case: CaptureCase, place: str) -> None:
    case.start()
    write_much(case)
    for _ in range(2):
        assert spawn(case, "run", 2, f"watermarks.{place}") == -signal.SIGKILL
    case.run(3)
    case.write("UPDATE t SET n = n + 1")
    case.run(3)

    found = changes(case, "t")
    everything = sorted((change for partition in found.values() for change in partition), key=Change.order)
    logged = [(change.op, change.place) for change in everything if change.op != "r"]
    assert len(set(logged)) == len(logged)
    for partition in found.values():
        assert partition == sorted(partition, key=Change.order)
    rows: dict[object, object] = {}
    for change in everything:
        if change.op == "d":
            del rows[change.row[0]]
        else:
            rows[change.row[0]] = change.row[1]
    assert rows == source_rows(case)
    assert [change.row for partition in changes(case, "log").values() for change in partition] == [
        (number,) for round_ in range(1, 8) for number in range(round_, round_ + 10)
    ]


@pytest.mark.parametrize("place", first(1, "saved_ahead", "sending", "flushed", "saved"))
def test_files_that_are_announced_once_follow_on_each_other(case: CaptureCase, place: str) -> None:
    case.start()
    assert spawn(case, "run_objects", 1, f"watermarks.{place}") == -signal.SIGKILL
    write_much(case)
    case.run(2)
    assert spawn(case, "run_objects", 2, f"watermarks.{place}") == -signal.SIGKILL
    case.write("DELETE FROM t WHERE id > 100")
    case.run(3)
    case.run_objects(3)

    batches = [Batch.from_json(value) for *_, value in case.read(f"penstock.{case.database}.batches")]
    ends: dict[tuple[str, int], int] = {}
    for batch in batches:
        if batch.rows:
            where = (batch.topic, batch.partition)
            assert batch.start_offset == ends.get(where, 0)
            ends[where] = batch.end_offset
    assert sum(batch.rows for batch in batches) == sum(
        len(case.read(case.topic(table), PARTITIONS)) for table in ("t", "log")
    )
    announced = [(str(batch.table), batch.first_order) for batch in batches if not batch.rows]
    assert len(announced) == len(set(announced)) == 2


def test_a_foreign_message_behind_the_checkpoint_stops_the_capture(case: CaptureCase) -> None:
    case.start()
    case.write("UPDATE t SET n = 5")
    for partition in range(PARTITIONS):
        case.put(case.topic("t"), b"foreign", partition=partition)

    with pytest.raises(PositionError, match="has a foreign message at offset"):
        case.run()


def test_where_a_capture_stands_is_saved_when_nothing_more_comes(
    case: CaptureCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.wiring.open._SAVE_SECONDS", 3600.0)
    case.start()
    with closing(open_topic_log(case.spec)) as log, closing(open_live(CaptureSpec(case.spec, "db", 2))) as live:
        live.go_on(60.0)
        for number in (1, 2, 3):
            case.write(f"UPDATE t SET n = {number}")
            wanted = case.head()
            deadline = time.monotonic() + 30
            while stands(case, log).order < wanted.order:
                assert time.monotonic() < deadline
                time.sleep(0.05)


def stands(case: CaptureCase, log: TopicReader) -> BinlogPosition:
    """Where the checkpoint says that the capture is."""
    return binlog_position(CaptureRecord.from_mapping(committed_position(case.spec, log, "db") or {}).position)


def source_rows(case: CaptureCase) -> dict[object, object]:
    server = MysqlServer(case.server.host, case.server.port, case.server.user, case.server.password)
    with closing(connect(server)) as connection:
        return {row[0]: row[1] for row in ask(connection, f"SELECT id, n FROM {case.database}.t")}


@pytest.mark.parametrize(
    "statement",
    first(
        1,
        "ALTER TABLE t ADD COLUMN more INT",
        "RENAME TABLE t TO u",
        "CREATE TABLE u (id INT PRIMARY KEY)",
        "DROP TABLE t",
        "TRUNCATE TABLE t",
    ),
)
def test_a_capture_that_is_killed_before_it_saves_what_it_announced_goes_on_and_announces_it_once(
    case: CaptureCase, statement: str
) -> None:
    case.start()
    case.write(statement, "INSERT INTO log VALUES (1)")
    # The first two checkpoints of a run say that it has taken over, and that it comes to a statement.
    assert spawn(case, "run", 2, "watermarks.flushed:3") == -signal.SIGKILL
    told = case.read(f"penstock.{case.database}.schemas")
    with closing(open_topic_log(case.spec)) as log:
        assert stands(case, log).order < case.head().order

    case.run(3)
    case.write("CREATE TABLE later (id INT PRIMARY KEY)")
    case.run(3)

    announced = [SchemaChange.from_json(value) for *_, value in told]
    assert len([each for each in announced if each.order != announced[0].order]) > 0
    *again, later = case.read(f"penstock.{case.database}.schemas")
    assert (again, str(SchemaChange.from_json(later[-1]).table)) == (told, f"{case.database}.later")
    assert [change.row for partition in changes(case, "log").values() for change in partition] == [(1,)]


def test_a_tail_slice_in_another_process_shares_the_topics_with_nobody(
    case: CaptureCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.start()
    spec, open_stream = CaptureSpec(case.spec, "db", 2), wiring.open_stream
    tuple(TailSlice(spec, "planner", 1, 0.5, None).run())
    # In another process nothing is kept of the tail slice before.
    _, before = capture_tasks._kept.pop("db")

    def open_late(
        spec: CaptureSpec, position: Position, stop: Stop, connection_index: int, table_catalog: TableCatalog | None
    ) -> LogStream:
        case.write("UPDATE t SET n = 1")
        time.sleep(1.0)
        return open_stream(spec, position, stop, connection_index, table_catalog)

    monkeypatch.setattr(wiring, "open_stream", open_late)
    with closing(before), closing(open_live(spec)) as live:
        live.run(60.0, case.head())

    found = changes(case, "t")
    assert sum(map(len, found.values())) == 2 * 200

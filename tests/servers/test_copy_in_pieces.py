"""An initial snapshot that takes longer than a transaction may is committed in pieces; one that broke off is anew."""

from __future__ import annotations

import signal
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import yaml
from confluent_kafka.admin import AdminClient
from structlog.testing import capture_logs
from tests.servers.binlogs import purge_to
from tests.servers.capture_processes import Change, changes, spawn

from penstock.adapters.kafka.ends import committed_ends, undecided_places, written_ends
from penstock.adapters.mysql.connection import connect
from penstock.adapters.mysql.identity import read_identity
from penstock.adapters.mysql.initial_snapshot import MysqlInitialSnapshot, open_initial_snapshot
from penstock.core.errors import PositionError
from penstock.core.positions import BinlogPosition
from penstock.core.publication import CaptureRecord
from penstock.core.schema_changes import SchemaChange, SchemaChangeKind
from penstock.jobs.capture_tasks import CapturePlanner, StartCapture
from penstock.links.capture.first_start import SnapshotPace, start_with_snapshot
from penstock.links.capture.spec import CaptureSpec
from penstock.wiring.capture import open_parts, start_capture
from penstock.wiring.capture_mirror import SourceMirror
from penstock.wiring.failover import fail_over
from penstock.wiring.open import (
    committed_position,
    mysql_server,
    mysql_source,
    open_pipeline_state,
    open_publisher,
    open_topic_log,
)
from penstock.wiring.source_status import RetentionWatch

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from tests.servers.capture_case import CaptureCase, CaseServers

    from penstock.core.changes import RowBatch
    from penstock.core.tables import TableId
    from penstock.embedded.kafka import KafkaBroker

ROWS = 25_000


@pytest.fixture
def case(case_servers: CaseServers, kafka: KafkaBroker, fresh_database: str) -> CaptureCase:
    """A table of three batches, each of which is a transaction."""
    made = case_servers.make_case(kafka, fresh_database, partitions=2)
    set_source(made.file, snapshot_commit_seconds=0)
    made.write(
        "CREATE TABLE t (id INT PRIMARY KEY, n INT)",
        "CREATE TABLE gone (id INT PRIMARY KEY)",
        "INSERT INTO gone VALUES (1)",
        f"INSERT INTO t SELECT seq, 0 FROM seq_1_to_{ROWS}",
    )
    return made


def set_source(file: Path, **options: object) -> None:
    config = yaml.safe_load(file.read_text())
    config["sources"][0].update(options)
    file.write_text(yaml.safe_dump(config))


def break_off(case: CaptureCase, epoch: int = 1) -> CaptureRecord:
    """Kill a copy behind two of the batches of `t`; what is announced, and the rows of `gone`, are pieces too."""
    assert spawn(case, "start", epoch, "start.published:4") == -signal.SIGKILL
    return newest(case)


def newest(case: CaptureCase) -> CaptureRecord:
    with closing(open_topic_log(case.spec)) as log:
        return CaptureRecord.from_mapping(committed_position(case.spec, log, "db") or {})


def announced(case: CaptureCase) -> list[tuple[str, SchemaChangeKind]]:
    told = [SchemaChange.from_json(value) for *_, value in case.read(f"penstock.{case.database}.schemas")]
    return [(each.table.name, each.kind) for each in told]


@pytest.mark.nightly
def test_a_copy_that_was_broken_off_is_made_anew_behind_what_was_committed_of_it(case: CaptureCase) -> None:
    first = break_off(case)
    assert first.is_snapshotting
    assert first.rows[f"{case.database}.t"][0] == 20_000
    # Nothing is written meanwhile: both copies are of the same place of the log.
    second = break_off(case, 2)
    assert second.position == first.position
    case.write("DELETE FROM t WHERE id % 5 = 0", "UPDATE t SET n = 7 WHERE id < 10", "DROP TABLE gone")
    case.start(3)
    case.write("UPDATE t SET n = n + 1 WHERE id < 20")
    case.run(3)

    found = changes(case, "t")
    for partition in found.values():
        places = [change.place for change in partition]
        assert places == sorted(set(places))
    # Behind the newest beginning of the table there are all of its rows, once.
    whole = newest(case)
    assert not whole.is_snapshotting
    begun = max(change.place[:2] for partition in found.values() for change in partition if change.op == "r")
    kept = [change for partition in found.values() for change in partition if change.place[:2] >= begun]
    copied = [change for change in kept if change.op == "r"]
    assert len(copied) == ROWS - ROWS // 5
    rows = {change.row[0]: change.row[1] for change in sorted(kept, key=Change.order)}
    assert rows == {id_: (7 if id_ < 10 else 0) + (1 if id_ < 20 else 0) for id_ in range(1, ROWS + 1) if id_ % 5}
    assert announced(case) == [
        ("gone", SchemaChangeKind.SCHEMA),
        ("t", SchemaChangeKind.SCHEMA),
        ("gone", SchemaChangeKind.CREATE),
        ("t", SchemaChangeKind.CREATE),
        ("gone", SchemaChangeKind.DROP),
        ("t", SchemaChangeKind.CREATE),
    ]


def test_a_whole_copy_says_how_many_rows_it_had(case: CaptureCase) -> None:
    case.start()

    record = newest(case)
    assert not record.is_snapshotting
    assert {table: count for table, (count, _) in record.rows.items()} == {
        f"{case.database}.gone": 1,
        f"{case.database}.t": ROWS,
    }


@pytest.mark.nightly
def test_nobody_goes_on_from_a_part_of_a_copy(case: CaptureCase) -> None:
    break_off(case)

    capture = CaptureSpec(case.spec, "db", 2)
    planner = CapturePlanner(capture, 1)
    planner.fix_end()
    assert planner.has_work()
    assert planner.plan() == [StartCapture(capture)]
    with pytest.raises(PositionError, match="no position"):
        case.run(2)
    with pytest.raises(PositionError, match="is not whole yet"):
        fail_over(case.spec, "db")
    # Whatever the file says by now.
    set_source(case.file, start="log")
    capture = CaptureSpec(case.spec, "db", 2)
    assert "with an initial snapshot of 2 tables" in start_capture(capture)
    assert start_capture(capture) == "the capture had been started before"


def test_status_says_how_far_a_copy_is(case: CaptureCase) -> None:
    break_off(case)

    state = open_pipeline_state(case.spec)
    with closing(SourceMirror(case.spec, case.spec.sources[0], state)) as mirror:
        place = mirror.refresh()
        assert (place.position, place.is_behind) == ("initial snapshot: 20,001 rows of 2 tables so far", True)
        assert state.position("db") is None
        case.start(2)
        assert mirror.refresh().position == str(newest(case).position)
    assert {each.table: each.rows for each in state.tables()} == {
        f"{case.database}.gone": 1,
        f"{case.database}.t": ROWS,
    }


@pytest.mark.nightly
def test_a_binlog_that_goes_away_while_tables_are_copied_is_warned_of(case: CaptureCase) -> None:
    record, source = break_off(case), case.spec.sources[0]
    case.write("FLUSH BINARY LOGS")
    with closing(connect(mysql_server(source))) as connection, connection.cursor() as cursor:
        purge_to(cursor, case.head().file)

    with closing(SourceMirror(case.spec, source, open_pipeline_state(case.spec))) as mirror, capture_logs() as logs:
        mirror.refresh()
        RetentionWatch(source).look(mirror.position, is_snapshotting=mirror.is_snapshotting)

    (warned,) = [line for line in logs if line["event"] == "binlog retention"]
    assert f"{record.position.file}, which the pipeline needs, was purged" in warned["warning"]


def test_a_table_that_is_emptied_before_its_turn_does_not_break_the_copy_off(
    case: CaptureCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_rows = MysqlInitialSnapshot.rows

    def read_and_empty(copy: MysqlInitialSnapshot, table: TableId, batch_rows: int) -> Generator[RowBatch]:
        yield from read_rows(copy, table, batch_rows)
        if table.name == "gone":
            case.write("DELETE FROM t WHERE id < 10", "TRUNCATE TABLE t", "INSERT INTO t VALUES (1, 7)")

    monkeypatch.setattr(MysqlInitialSnapshot, "rows", read_and_empty)
    case.start()
    case.run()

    assert announced(case) == [
        ("gone", SchemaChangeKind.SCHEMA),
        ("t", SchemaChangeKind.SCHEMA),
        ("t", SchemaChangeKind.TRUNCATE),
    ]
    told = [(change.op, *change.row) for partition in changes(case, "t").values() for change in partition]
    assert sorted(told)[:1] == [("c", 1, 7)]
    assert {op for op, *_ in told} == {"c", "d"}


def test_while_rows_are_copied_nothing_of_the_copy_is_undecided_where_all_sources_announce(
    case: CaptureCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_source(case.file, snapshot_commit_seconds=300)
    read_rows, topic, found = MysqlInitialSnapshot.rows, f"penstock.{case.database}.schemas", list[str]()

    def look_and_read(copy: MysqlInitialSnapshot, table: TableId, batch_rows: int) -> Generator[RowBatch]:
        for batch in read_rows(copy, table, batch_rows):
            yield batch
            admin = AdminClient({"bootstrap.servers": case.bootstrap_servers})
            found.extend(place[0] for place in undecided_places(written_ends(admin, at), committed_ends(admin, at)))

    monkeypatch.setattr(MysqlInitialSnapshot, "rows", look_and_read)
    at = [(topic, 0), *((case.topic("t"), partition) for partition in range(2))]
    case.start()

    assert set(found) == {case.topic("t")}
    assert len(case.read(topic)) == 2


def test_a_copy_that_would_count_as_older_than_what_is_there_is_refused(case: CaptureCase) -> None:
    record = break_off(case)

    source, capture = mysql_source(case.spec.sources[0]), CaptureSpec(case.spec, "db", 2)
    with closing(open_topic_log(case.spec)) as log, connect(mysql_server(source)) as connection:
        publisher = open_publisher(case.spec, "db", 2, log=log)
        server = read_identity(connection)
        with (
            closing(open_parts(capture, publisher, log)) as parts,
            open_initial_snapshot(mysql_server(source), source.patterns.matches, source.policy) as copy,
        ):
            for before in (replace(record, server="another"), replace(record, position=BinlogPosition("b.999999", 4))):
                with pytest.raises(PositionError, match="would count as older"):
                    start_with_snapshot(parts, copy, 2, server, SnapshotPace(0, before))
    assert newest(case) == record

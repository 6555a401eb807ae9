"""A capture that takes over from one that is still at work: each statement is replayed once."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.servers.capture_case import CaptureCase, CaseServers

from penstock.core.errors import FencedError
from penstock.core.publication import CaptureRecord
from penstock.links.capture.spec import CaptureSpec
from penstock.wiring import capture as wiring
from penstock.wiring.open import committed_position, open_topic_log

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.dev.kafka import KafkaBroker
    from penstock.dev.mariadb import MariadbServer
    from penstock.links.capture.live import LiveCapture


@pytest.fixture
def case(
    tmp_path: Path,
    kafka: KafkaBroker,
    mariadb: MariadbServer,
    tracker_server: MariadbServer,
    schematizer: str,
    fresh_database: str,
) -> CaptureCase:
    made = CaseServers(tmp_path, mariadb, tracker_server, schematizer).make_case(kafka, fresh_database)
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
    tracker = slow._capture.parts.book.tracker
    dump = tracker.dump

    def dump_late() -> str:
        taken.append(wiring.open_live(newer))
        return dump()

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

"""The live tail without Spark: what one tail slice publishes, cut off at any publication and taken up again."""

from __future__ import annotations

import json
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from penstock.adapters.kafka.topics import position_topic
from penstock.adapters.mysql.connection import ask, connect
from penstock.adapters.mysql.tracker import MysqlTracker
from penstock.core.errors import FencedError, PenstockError, UnavailableError
from penstock.core.mysql.log.log_items import StatementLogged
from penstock.core.positions import binlog_position
from penstock.core.publish_tokens import PublishToken, TokenState
from penstock.jobs.links import CaptureLink
from penstock.jobs.rounds import do_tasks
from penstock.links.capture.follow import Pace
from penstock.links.capture.spec import CaptureSpec
from penstock.wiring import capture as wiring
from penstock.wiring.open import open_publisher, open_tracker, tracker_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tests.servers.capture_case import CaptureCase, CaseServers

    from penstock.core.changes import Messages
    from penstock.embedded.kafka import KafkaBroker
    from penstock.faults.proxy import Proxy
    from penstock.ports.publisher import Publisher

ROWS = 20_000


class CutOff:
    """A publisher whose connection breaks after some publications; what it published stays."""

    def __init__(self, publisher: Publisher, publications: int) -> None:
        self._publisher = publisher
        self._left = publications

    def __getattr__(self, name: str) -> object:
        return getattr(self._publisher, name)

    def publish(self, messages: Iterable[Messages], record: Callable[[], Mapping[str, object]]) -> None:
        if self._left == 0:
            message = "cut off"
            raise UnavailableError(message, "open it again")
        self._left -= 1
        self._publisher.publish(messages, record)


@pytest.fixture
def case(case_servers: CaseServers, kafka: KafkaBroker, fresh_database: str) -> CaptureCase:
    """A pipeline whose capture was not started yet."""
    return case_servers.make_case(kafka, fresh_database)


def messages(case: CaptureCase) -> list[bytes]:
    """Every committed message of the table `t`."""
    return [value for *_, value in case.read(case.topic("t"))]


def records(case: CaptureCase) -> list[dict[str, Any]]:
    """Every position record of the capture."""
    return [json.loads(value) for *_, value in case.read(position_topic(case.spec.pipeline, "db"))]


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transactions of more than 2,000 bytes are published in pieces."""
    pace = Pace(interval_seconds=0.0, bytes_wanted=500, bytes_max=2000)
    monkeypatch.setattr(wiring, "live_pace", lambda _: pace)


@pytest.mark.usefixtures("small_pieces")
def test_a_transaction_in_pieces_is_published_once_however_often_it_is_cut_off(
    case: CaptureCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.write("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    spec = CaptureSpec(case.spec, "db", epoch=1)
    wiring.start_capture(spec)
    case.write(
        "BEGIN",
        f"INSERT INTO t SELECT seq, 0 FROM seq_1_to_{ROWS}",
        "UPDATE t SET v = id WHERE id % 10 = 0",
        "COMMIT",
        "ALTER TABLE t ADD COLUMN w INT DEFAULT 3",
        "DELETE FROM t WHERE id % 7 = 0",
    )
    stop = case.head()

    cuts = 0
    while True:
        monkeypatch.setattr(wiring, "open_publisher", lambda *given, **more: CutOff(open_publisher(*given, **more), 3))
        with closing(wiring.open_live(spec)) as live:
            try:
                live.run(30.0, stop)
            except UnavailableError:
                cuts += 1
            else:
                break

    expected = ROWS + ROWS // 10 + ROWS // 7
    found, told = messages(case), records(case)
    assert cuts > 5
    assert len(found) == expected
    assert len(set(found)) == expected
    assert any(record["rows_from"] for record in told)
    assert sum(rows for record in told for rows, _ in record["rows"].values()) == expected


@pytest.mark.nightly
def test_a_large_transaction_passes_a_way_that_is_slow_in_smaller_pieces(
    case_servers: CaseServers,
    proxied: tuple[Proxy, KafkaBroker],
    fresh_database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    proxy, broker = proxied
    case = case_servers.make_case(broker, fresh_database)
    case.write("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
    spec = CaptureSpec(case.spec, "db", epoch=1)
    wiring.start_capture(spec)
    # 20 MiB, of which nothing can be compressed.
    values = "REPEAT(TO_BASE64(RANDOM_BYTES(750)), 1)"
    case.write(f"INSERT INTO t SELECT seq, {values} FROM seq_1_to_20000")
    monkeypatch.setattr(wiring, "open_publisher", partial(open_publisher, transaction_timeout_seconds=6.0))
    link, failed = CaptureLink(spec, 1), 0

    while True:
        work = link.open()
        planner = work.planning()
        planner.fix_end()
        # About 2 MiB a second.
        proxy.delay(0.03)
        try:
            do_tasks(work, planner.plan())
        except PenstockError:
            failed += 1
            assert failed <= 5
        else:
            break
        finally:
            proxy.heal()

    assert failed >= 1
    assert len(messages(case)) == len(set(messages(case))) == 20_000


def test_an_instance_that_was_replaced_publishes_nothing_more(case: CaptureCase) -> None:
    case.write("CREATE TABLE t (id INT PRIMARY KEY)")
    wiring.start_capture(CaptureSpec(case.spec, "db", epoch=1))
    with (
        closing(wiring.open_live(CaptureSpec(case.spec, "db", epoch=1))) as old,
        closing(wiring.open_capture(CaptureSpec(case.spec, "db", epoch=2)).parts),
    ):
        case.write("INSERT INTO t VALUES (1)")

        with pytest.raises(FencedError):
            old.run(10.0, None)
        with pytest.raises(FencedError):
            wiring.open_live(CaptureSpec(case.spec, "db", epoch=1))

    assert messages(case) == []


def test_an_older_instance_that_wakes_is_refused_and_disturbs_nobody(case: CaptureCase) -> None:
    case.write("CREATE TABLE t (id INT PRIMARY KEY)")
    older, newer = (CaptureSpec(case.spec, "db", epoch) for epoch in (1, 2))
    wiring.start_capture(older)
    with closing(wiring.open_capture(newer).parts) as parts:
        before = records(case)

        with pytest.raises(FencedError, match="a newer instance"):
            wiring.open_capture(older)

        # Whoever becomes a publisher fences those before it: the newer one would be refused here.
        parts.publisher.publish((), lambda: before[-1])
        parts.publisher.settle()
        assert len(records(case)) == len(before) + 1


@pytest.mark.parametrize("publish_token", [None, PublishToken("plan", 1, TokenState.OPEN)])
def test_an_older_instance_that_wakes_replays_no_statement(
    case: CaptureCase, publish_token: PublishToken | None
) -> None:
    case.write("CREATE TABLE t (id INT PRIMARY KEY)")
    older, newer = (CaptureSpec(case.spec, "db", epoch) for epoch in (1, 2))
    wiring.start_capture(older)
    asleep = wiring.open_capture(older, publish_token)
    with (
        closing(asleep.parts),
        closing(wiring.open_capture(newer).parts),
        closing(open_tracker(case.spec, case.spec.sources[0])) as tracker,
    ):
        before, here = tracker.dump(), binlog_position(asleep.position)

        with pytest.raises(FencedError):
            asleep.take_statement(StatementLogged("ALTER TABLE t ADD COLUMN w INT", case.database, here, here, 0))

        assert tracker.dump() == before


def test_a_range_whose_turn_was_passed_to_it_takes_the_tracker_before_it_replays(
    case: CaptureCase,
) -> None:
    case.write("CREATE TABLE t (id INT PRIMARY KEY)")
    spec, tracker = CaptureSpec(case.spec, "db", epoch=1), case.spec.tracker
    assert tracker is not None
    wiring.start_capture(spec)
    first = wiring.open_capture(spec, PublishToken("plan", 0, TokenState.OPEN))
    second = wiring.open_capture(spec, PublishToken("plan", 1, TokenState.OPEN))
    with closing(first.parts), closing(second.parts), closing(connect(tracker_server(tracker))) as asking:

        def writer() -> int:
            return int(ask(asking, "SELECT IS_USED_LOCK('penstock.writer')")[0][0])

        older = first.parts.table_catalog.tracker
        assert isinstance(older, MysqlTracker)
        first_writer, here = writer(), binlog_position(second.position)
        second.take_statement(StatementLogged("ALTER TABLE t ADD COLUMN w INT", case.database, here, here, 0))

        assert writer() != first_writer
        with pytest.raises(FencedError):
            older.dump()

"""Tail slices end where they are to end, and between two of them nothing waits."""

from __future__ import annotations

import os
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from penstock.adapters.mysql.binlog_stream import open_binlog
from penstock.adapters.mysql.connection import connect
from penstock.adapters.mysql.history import head
from penstock.adapters.mysql.source_objects import MysqlSourceObjects
from penstock.adapters.state.store import open_state
from penstock.bench.capture.workload import create_table, insert_range, login
from penstock.bench.known_tables import KnownTables, open_table_catalog
from penstock.core.errors import FencedError, PenstockError, PositionError
from penstock.core.mysql.log.log_items import FewTransactions, LogAdvanced, TransactionEnded, TransactionsLogged
from penstock.core.tables import TableId
from penstock.links.capture.follow import LogFollower, Pace
from penstock.links.capture.live import LiveCapture
from penstock.links.capture.mysql.log_reading import BinlogReading
from penstock.links.capture.mysql.statements import StatementHandler
from penstock.links.capture.open_capture import CaptureParts, OpenCapture
from penstock.ports.log import Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from penstock.adapters.mysql.binlog_stream import BinlogStream
    from penstock.adapters.mysql.connection import MysqlServer
    from penstock.core.changes import Messages
    from penstock.core.mysql.log.log_items import LogItem
    from penstock.core.positions import BinlogPosition, Position
    from penstock.embedded.mariadb import MariadbServer

_SERVER_ID = 4_000_000_001
_PACE = Pace(interval_seconds=0.02)
_ENDED = (TransactionsLogged, FewTransactions, TransactionEnded, LogAdvanced)


class MemoryPublisher:
    """Keeps how many messages were published, and the newest record."""

    def __init__(self) -> None:
        self.count = 0
        self.is_fenced = False
        self.record: Mapping[str, object] | None = None

    def position(self) -> Mapping[str, object] | None:
        return self.record

    def left_over(self, topic: str) -> int:
        del topic
        return 0

    def take_foreign(self) -> Mapping[str, PositionError]:
        return {}

    def partitions(self, topic: str) -> int:
        return len(self.ends(topic))

    def ends(self, topic: str) -> Sequence[int]:
        del topic
        return (0,)

    def create_topics(self, topics: Iterable[str]) -> None:
        """A topic is there when it is written to."""

    def publish(self, messages: Iterable[Messages], record: Callable[[], Mapping[str, object]]) -> None:
        if self.is_fenced:
            message = "a newer instance is at work"
            raise FencedError(message, "stop one of them")
        self.count += sum(map(len, messages))
        self.record = record()

    def save(self) -> None:
        """A record is there when it is published."""

    def settle(self) -> None:
        """Readers see at once what is published."""

    def close(self) -> None:
        """Nothing is open."""


class ReadAtOnce:
    """A stream whose first read has all up to a place: however packets are cut, that is read behind an earlier stop."""

    def __init__(self, stream: BinlogStream, place: BinlogPosition) -> None:
        self._stream = stream
        self._place = place
        self._is_there = False

    def read(self, wait_seconds: float) -> Sequence[LogItem]:
        items = list(self._stream.read(wait_seconds))
        while not self._is_there:
            items += self._stream.read(wait_seconds)
            self._is_there = any(isinstance(each, _ENDED) and each.end.order >= self._place.order for each in items)
        return items

    def confirm(self, position: Position) -> None:
        self._stream.confirm(position)

    def at_end(self) -> bool:
        return self._stream.at_end()

    def close(self) -> None:
        self._stream.close()


def test_a_tail_slice_publishes_up_to_its_stop_although_more_was_read(
    mariadb: MariadbServer, fresh_name: str, tmp_path: Path
) -> None:
    server, table = login(mariadb), TableId(fresh_name, "orders")
    create_table(mariadb, table)
    with closing(connect(server)) as connection:
        begin = head(connection)
        insert_range(connection, table, 1, 500)
        stop = head(connection)
        insert_range(connection, table, 501, 1_200)
        insert_range(connection, table, 1_201, 1_300)
        end = head(connection)
    publisher = MemoryPublisher()

    with closing(follow(server, table, begin, publisher, tmp_path, read_at_once=end)) as live:
        ended = live.run(10.0, stop)

    assert (publisher.count, ended.rows) == (500, 500)
    assert ended.position.order == stop.order
    assert not live.can_go_on


def test_a_tail_slice_ends_at_its_stop_however_long_publications_are_apart(
    mariadb: MariadbServer, fresh_name: str, tmp_path: Path
) -> None:
    server, table, publisher = login(mariadb), TableId(fresh_name, "orders"), MemoryPublisher()
    create_table(mariadb, table)
    with closing(connect(server)) as connection:
        begin = head(connection)
        with closing(follow(server, table, begin, publisher, tmp_path, Pace(3600.0))) as live:
            insert_range(connection, table, 1, 10)
            live.run(1.0, None)
            insert_range(connection, table, 11, 30)
            started = time.monotonic()
            ended = live.run(30.0, head(connection))

    assert time.monotonic() - started < 10.0
    assert (publisher.count, ended.rows, ended.publications) == (30, 20, 1)


def test_a_tail_slice_whose_process_was_orphaned_ends_with_an_error_after_which_its_link_starts_again(
    mariadb: MariadbServer, fresh_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, table = login(mariadb), TableId(fresh_name, "orders")
    create_table(mariadb, table)
    with closing(connect(server)) as connection:
        begin = head(connection)
    parents = iter([os.getppid()])
    monkeypatch.setattr("penstock.links.capture.live.os.getppid", lambda: next(parents, 1))

    with (
        closing(follow(server, table, begin, MemoryPublisher(), tmp_path)) as live,
        pytest.raises(PenstockError, match="the process that started this tail slice is gone") as ended,
    ):
        live.run(10.0, None)

    assert ended.value.retryable


def test_between_two_tail_slices_changes_go_out_and_count_for_the_second(
    mariadb: MariadbServer, fresh_name: str, tmp_path: Path
) -> None:
    server, table, publisher = login(mariadb), TableId(fresh_name, "orders"), MemoryPublisher()
    create_table(mariadb, table)
    with closing(connect(server)) as connection:
        begin = head(connection)
        with closing(follow(server, table, begin, publisher, tmp_path)) as live:
            insert_range(connection, table, 1, 10)
            first = live.run(1.0, None)
            live.go_on(60.0)
            insert_range(connection, table, 11, 30)
            wait_for(lambda: publisher.count == 30)
            second = live.run(0.3, None)
            insert_range(connection, table, 31, 35)
            third = live.run(1.0, None)
        end = head(connection)

    assert [first.rows, second.rows, third.rows] == [10, 20, 5]
    assert (publisher.count, third.position.order) == (35, end.order)


def test_what_goes_wrong_between_two_tail_slices_ends_the_second(
    mariadb: MariadbServer, fresh_name: str, tmp_path: Path
) -> None:
    server, table, publisher = login(mariadb), TableId(fresh_name, "orders"), MemoryPublisher()
    create_table(mariadb, table)
    with (
        closing(connect(server)) as connection,
        closing(follow(server, table, head(connection), publisher, tmp_path)) as live,
    ):
        live.run(0.3, None)
        publisher.is_fenced = True
        live.go_on(60.0)
        insert_range(connection, table, 1, 10)

        with pytest.raises(FencedError):
            live.run(10.0, None)

    assert publisher.count == 0


def test_a_tail_slice_that_never_comes_is_not_waited_for(
    mariadb: MariadbServer, fresh_name: str, tmp_path: Path
) -> None:
    server, table, publisher = login(mariadb), TableId(fresh_name, "orders"), MemoryPublisher()
    create_table(mariadb, table)
    with (
        closing(connect(server)) as connection,
        closing(follow(server, table, head(connection), publisher, tmp_path)) as live,
    ):
        live.run(0.3, None)
        live.go_on(0.2)
        time.sleep(1.0)
        insert_range(connection, table, 1, 10)
        time.sleep(0.5)

        assert publisher.count == 0
        assert live.run(1.0, None).rows == 10


def follow(
    server: MysqlServer,
    table: TableId,
    begin: BinlogPosition,
    publisher: MemoryPublisher,
    home: Path,
    pace: Pace = _PACE,
    *,
    read_at_once: BinlogPosition | None = None,
) -> LiveCapture:
    """Follow the log of one table from `begin` on; all up to `read_at_once` comes with the first read."""
    table_catalog = open_table_catalog(server, table)
    handler = StatementHandler(
        open_state(f"sqlite:///{home}/state.db", "p"), table_catalog, KnownTables({}), MysqlSourceObjects(server)
    )
    capture = OpenCapture(CaptureParts(publisher, table_catalog, handler, "schemas"), 1, begin, 0)
    stream = open_binlog(server, begin, _SERVER_ID, table_catalog.wanted, Stop.NEVER)
    log = stream if read_at_once is None else ReadAtOnce(stream, read_at_once)
    return LiveCapture(capture, log, LogFollower(table_catalog, {}, begin, pace, BinlogReading(begin)))


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until it holds; TimeoutError after a minute."""
    deadline = time.monotonic() + 60.0
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.01)

"""A lease that is to end at a place publishes everything up to there, and nothing behind it."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from penstock.adapters.mysql.binlog_stream import Stop, open_binlog
from penstock.adapters.mysql.connection import connect
from penstock.adapters.mysql.history import head
from penstock.adapters.state.store import open_state
from penstock.bench.capture.known_tables import open_book
from penstock.bench.capture.workload import create_table, insert_range, login
from penstock.core.tables import TableId
from penstock.links.capture.follow import LogFollower, Pace
from penstock.links.capture.live import LiveCapture
from penstock.links.capture.open_capture import CaptureParts, OpenCapture
from penstock.links.capture.statements import StatementHandler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from penstock.core.changes import Messages
    from penstock.dev.mariadb import MariadbServer

_SERVER_ID = 4_000_000_001
_NEVER_DUE = Pace(interval_seconds=3600.0, bytes_wanted=1 << 30)


class MemoryPublisher:
    """Keeps how many messages were published, and the newest record."""

    def __init__(self) -> None:
        self.count = 0
        self.record: Mapping[str, object] | None = None

    def position(self) -> Mapping[str, object] | None:
        return self.record

    def create_topics(self, topics: Iterable[str]) -> None:
        """A topic is there when it is written to."""

    def publish(self, messages: Iterable[Messages], record: Callable[[], Mapping[str, object]]) -> None:
        self.count += sum(map(len, messages))
        self.record = record()

    def settle(self) -> None:
        """Readers see at once what is published."""

    def close(self) -> None:
        """Nothing is open."""


def test_a_lease_publishes_up_to_its_stop_although_more_was_read(
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
    book, publisher = open_book(server, table), MemoryPublisher()
    handler = StatementHandler(open_state(f"sqlite:///{tmp_path}/state.db", "p"), book, 1)
    capture = OpenCapture(CaptureParts(publisher, book, handler, "schemas", 1), 1, begin, 0)
    stream = open_binlog(server, begin, _SERVER_ID, book.wanted, Stop.NEVER)

    with closing(LiveCapture(capture, stream, LogFollower(book, {}, begin, _NEVER_DUE))) as live:
        ended = live.run(10.0, stop)

    assert (publisher.count, ended.rows) == (500, 500)
    assert ended.position.order == stop.order
    assert not live.can_go_on

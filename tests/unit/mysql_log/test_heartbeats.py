"""What is counted behind a heartbeat, and the same place in another server's log."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import LogError
from penstock.core.mysql.events.gtid_sets import parse_gtids
from penstock.core.mysql.log.heartbeats import HeartbeatWatch
from penstock.core.mysql.log.log_items import FewTransactions, StatementLogged, TransactionEnded, TransactionsLogged
from penstock.core.mysql.log.read_from import on_top_of
from penstock.core.mysql.log.same_place import GtidPlace, HeartbeatPlace
from penstock.core.mysql.log.scan import EventScanner, Grouping
from penstock.core.positions import BinlogPosition, Heartbeat
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.unit.mysql_log.conftest import LogWriter

    from penstock.core.mysql.log.log_items import LogItem

BEATS = TableId("shop", "beats")
START = BinlogPosition("mysql-bin.000001", 4)
SINGLE = Grouping(1 << 30)
RUNS = Grouping(1)
FEW = Grouping(1 << 30, few=True)


def add_beat(log: LogWriter, number: int, serial: int, pipeline: bytes = b"p") -> None:
    """A transaction that writes a row of the heartbeat's table."""
    log.gtid(number)
    front = struct.pack("<IHH", 30, 0, 1) + b"\x04shop\0\x05beats\0"
    log.event(19, front + b"\x04\x0f\x08\x08\x08" + b"\x02" + struct.pack("<H", 256) + b"\0")
    values = struct.pack("<H", len(pipeline)) + pipeline + struct.pack("<qqq", serial, 1_000 * serial, 1)
    log.rows(b"\x04\x0f\xf0" + values, 30)
    log.xid()


def write_log(log: LogWriter, seed: int, *, strange: int | None = None, noise: int = 0) -> LogWriter:
    """A log with heartbeats 1 to 3 and transactions between them; `noise` makes its offsets others."""
    chance = random.Random(seed)  # noqa: S311 - a test's
    log.opening()
    log.gtid_list((0, 7, noise)) if noise else log.gtid_list()
    for _ in range(noise):
        log.event(160, b"x" * 100)
    number, serial = noise, 0
    for step in range(12):
        number += 1
        if step in {2, 5, 9}:
            serial += 1
            add_beat(log, number, serial)
        elif chance.random() < 0.1:
            log.gtid(number, 1)
            log.query(f"CREATE TABLE t{step} (a INT)")
        elif chance.random() < 0.2:
            add_beat(log, number, 1, b"other")
        else:
            log.gtid(number)
            log.table_map("users")
            value = struct.pack("<i", chance.randrange(1000) if step != strange else -1)
            log.rows(b"\x01\x01" + (b"\xfe" + value) * chance.randint(1, 3))
            log.xid()
    return log


def scan(log: LogWriter, grouping: Grouping, cuts: Sequence[int] = ()) -> list[LogItem]:
    scanner = EventScanner(START, lambda _: True, grouping=grouping)
    buffer, spans = log.stream()
    return [
        item
        for first, after in zip([0, *cuts], [*cuts, len(spans)], strict=True)
        for piece in scanner.pieces(buffer, spans[first:after])
        for item in piece
    ]


def marks(items: Sequence[LogItem]) -> dict[int, Heartbeat]:
    """What is counted at each boundary, by its offset."""
    watch, found = HeartbeatWatch(BEATS, "p", None), {}
    for item in items:
        watch.take(item)
        if isinstance(item, TransactionEnded | StatementLogged | TransactionsLogged | FewTransactions):
            found[item.end.offset] = watch.mark
    return found


@given(st.integers(0, 1 << 32), st.lists(st.integers(0, 40), max_size=3).map(sorted))
def test_what_is_counted_does_not_depend_on_how_the_log_is_read(
    log_writer: type[LogWriter], seed: int, cuts: list[int]
) -> None:
    log = write_log(log_writer(), seed)

    single, in_runs, few = marks(scan(log, SINGLE)), marks(scan(log, RUNS, cuts)), marks(scan(log, FEW, cuts))

    for together in in_runs, few:
        assert together
        assert together == {offset: single[offset] for offset in together}
    assert single[max(single)].serial == 3


@given(
    st.integers(0, 1 << 32), st.integers(3, 11), st.sampled_from([RUNS, SINGLE]), st.sampled_from(["gtid", "heartbeat"])
)
def test_the_same_place_is_found_in_a_log_with_other_offsets(
    log_writer: type[LogWriter], seed: int, count: int, grouping: Grouping, way: str
) -> None:
    ours = list(marks(scan(write_log(log_writer(), seed), SINGLE)).items())
    theirs = write_log(log_writer(), seed, noise=4)
    ends = list(marks(scan(theirs, SINGLE)))
    mark = ours[count][1]
    watch = HeartbeatWatch(BEATS, "p", None)
    gtids = parse_gtids(f"0-7-{4 + count + 1}")
    assert gtids is not None
    finder = GtidPlace(gtids, START, lambda _: True) if way == "gtid" else HeartbeatPlace(mark, watch)

    for item in scan(theirs, grouping):
        finder.take(item)

    assert finder.found is not None
    assert finder.found.offset == ends[count]
    assert finder.behind.transactions == len(ends) - count - 1


@pytest.mark.parametrize("grouping", [RUNS, SINGLE])
def test_another_row_behind_the_heartbeat_is_noticed(log_writer: type[LogWriter], grouping: Grouping) -> None:
    seed = next(n for n in range(100) if is_rows(write_log(log_writer(), n), 10))
    mark = marks(scan(write_log(log_writer(), seed), SINGLE)).popitem()[1]
    assert mark.transactions == 2
    finder = HeartbeatPlace(mark, HeartbeatWatch(BEATS, "p", None))

    with pytest.raises(LogError, match="they are not those that were read"):
        take_all(finder.take, scan(write_log(log_writer(), seed, strange=10), grouping))


def is_rows(log: LogWriter, step: int) -> bool:
    """Whether the transaction of a step writes rows of users."""
    items = [item for item in scan(log, SINGLE) if isinstance(item, TransactionEnded | StatementLogged)]
    return isinstance(items[step], TransactionEnded) and marks(scan(log, SINGLE))[items[step].end.offset].row_bytes < 20


def take_all(take: Callable[[LogItem], None], items: Sequence[LogItem]) -> None:
    for item in items:
        take(item)


def test_a_serial_that_goes_back_is_told_with_both_places(log: LogWriter) -> None:
    log.opening()
    log.gtid_list()
    add_beat(log, 1, 5)
    add_beat(log, 2, 4)
    watch = HeartbeatWatch(BEATS, "p", None)

    with pytest.raises(LogError, match=r"go back: 4 at mysql-bin.000001:\d+, after 5 at mysql-bin.000001:\d+"):
        take_all(watch.take, scan(log, SINGLE))


@given(st.integers(0, 1 << 32), st.integers(0, 11))
def test_counts_of_two_who_do_not_know_each_other_add_up(log_writer: type[LogWriter], seed: int, cut: int) -> None:
    items = scan(write_log(log_writer(), seed), SINGLE)
    ends = [index for index, item in enumerate(items, 1) if isinstance(item, TransactionEnded | StatementLogged)]
    whole, first, second = (HeartbeatWatch(BEATS, "p", None) for _ in range(3))
    take_all(whole.take, items)
    take_all(first.take, items[: ends[cut]])
    take_all(second.take, items[ends[cut] :])

    base = BinlogPosition("f.1", 4, timeline=3, heartbeat=first.mark)
    position = on_top_of(base, BinlogPosition("f.1", 9, heartbeat=second.mark))

    assert position.timeline == 3
    assert position.heartbeat is not None
    assert position.heartbeat.counted == whole.mark.counted

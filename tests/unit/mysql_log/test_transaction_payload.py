"""Transactions that MySQL compressed: the same changes, each at a place of its own, in bounded memory."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.changes import Op
from penstock.core.errors import CorruptLogError
from penstock.core.mysql.log.log_items import LogItem, StatementLogged, TransactionBegan, TransactionEnded
from penstock.core.mysql.log.scan import EventScanner
from penstock.core.mysql.rows.decode import decode_rows
from penstock.core.mysql.types.logged_rows import RowsLogged, TableMap
from penstock.core.positions import BinlogPosition
from penstock.core.tables import IntegerType, TableId

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.mysql_log.conftest import LogWriter, OneColumn, Recorded

FILE = "mysql-bin.000001"
START = BinlogPosition(FILE, 4)
NO_MAP = TableMap(TableId("shop", "users"), (), (), (), (), ())


def wanted(table: TableId) -> bool:
    return table.name != "secret"


def scan(log: LogWriter, position: BinlogPosition = START) -> list[LogItem]:
    return EventScanner(position, wanted).feed(*log.stream())


def an_update(log_writer: type[LogWriter], rows: int = 1) -> LogWriter:
    """The inside of a transaction."""
    inner = log_writer(checksums=False)
    inner.query("BEGIN")
    inner.table_map("users")
    for _ in range(rows):
        inner.rows()
    inner.xid()
    return inner


def what_happened(items: list[LogItem]) -> list[object]:
    happened: list[object] = []
    for item in items:
        match item:
            case RowsLogged():
                happened.append((item.table_map, item.op, item.payload))
            case StatementLogged():
                happened.append((item.sql, item.default_schema))
            case TransactionBegan() | TransactionEnded():
                happened.append(type(item))
            case _:
                pass
    return happened


def test_a_compressed_log_holds_the_same_changes(recorded: Recorded) -> None:
    plain = EventScanner(START, wanted).feed(*recorded("mysql-9.7-plain"))
    compressed = EventScanner(START, wanted).feed(*recorded("mysql-9.7-compressed"))

    assert len(plain) == 20
    assert any(isinstance(item, RowsLogged) and item.inside for item in compressed)
    assert what_happened(compressed) == what_happened(plain)


def test_rows_of_a_compressed_transaction_are_places_in_log_order(recorded: Recorded) -> None:
    items = EventScanner(START, wanted).feed(*recorded("mysql-9.7-compressed"))

    rows = [item for item in items if isinstance(item, RowsLogged)]
    places = [(item.rows_offset, item.first_row) for item in rows]

    assert len(rows) == 6
    assert places == sorted(set(places))


@pytest.mark.parametrize("name", ["mysql-9.7-compressed", "mariadb-10.11-compressed", "mysql-9.7-plain"])
def test_every_place_of_a_recorded_log_can_be_gone_on_from(recorded: Recorded, name: str) -> None:
    whole = EventScanner(START, wanted).feed(*recorded(name))
    began, start = START, whole[0]

    for index, item in enumerate(whole[:-1]):
        match item:
            case TransactionBegan():
                began = BinlogPosition(FILE, item.offset)
                start = item
            case RowsLogged():
                here = BinlogPosition(FILE, began.offset, item.rows_from)
                behind = BinlogPosition(FILE, began.offset, item.rows_from + 1)
                read = what_happened(EventScanner(here, wanted).feed(*recorded(name)))
                assert read == what_happened([start, *whole[index:]])
                read = what_happened(EventScanner(behind, wanted).feed(*recorded(name)))
                rest = what_happened(whole[index + 1 :])
                assert read in (rest, [TransactionBegan, *rest])
            case StatementLogged(end=end) | TransactionEnded(end=end) if end.rows_from == 0:
                assert EventScanner(end, wanted).feed(*recorded(name)) == whole[index + 1 :]
            case _:
                pass


@given(st.lists(st.tuples(st.integers(1, 1 << 24), st.integers(1, 1 << 23)), min_size=2, max_size=20))
def test_no_two_rows_of_a_compressed_transaction_have_one_place(sizes: list[tuple[int, int]]) -> None:
    inside, last = 19, (0, 0)
    for size_bytes, rows in sizes:
        event = RowsLogged(NO_MAP, Op.CREATE, b"", FILE, 1000, 0, "", 1, inside)
        assert (event.rows_offset, event.first_row) > last
        # A row has a byte at least.
        last = event.rows_offset, event.first_row + min(rows, size_bytes) - 1
        inside += size_bytes


def test_decoded_rows_are_numbered_through_the_compressed_transaction(one_column: OneColumn) -> None:
    writer = one_column(IntegerType(32, unsigned=False))
    events = [replace(writer.event([[1], [2]]), inside=inside) for inside in (40, 100, 1 << 23)]

    batch = decode_rows(writer.schema, events)

    assert batch.offsets.tolist() == [1000] * 4 + [1001] * 2
    assert batch.rows.tolist() == [40, 41, 100, 101, 0, 1]


def test_a_transaction_larger_than_memory_comes_in_pieces(log_writer: type[LogWriter]) -> None:
    inner = log_writer(checksums=False)
    inner.query("BEGIN")
    inner.table_map("users")
    row = b"\x01\x01\xfe" + bytes(100_000)
    for _ in range(500):
        inner.rows(row)
    inner.xid()
    log = log_writer().opening()
    log.gtid(1)
    log.payload(inner)
    buffer, spans = log.stream()
    assert len(buffer) < 100_000
    del inner
    scanner = EventScanner(START, wanted, held_bytes_max=1 << 20)
    tracemalloc.start()

    sizes = [sum(isinstance(item, RowsLogged) for item in piece) for piece in scanner.pieces(buffer, spans)]

    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(sizes) == 500
    assert max(sizes) == 11
    assert most < 8 << 20


def test_a_transaction_may_be_in_the_envelope_without_compression(log: LogWriter, log_writer: type[LogWriter]) -> None:
    log.gtid(1)
    log.payload(an_update(log_writer), compression=255)

    assert [type(item) for item in scan(log)] == [TransactionBegan, RowsLogged, TransactionEnded]


def test_the_end_of_a_compressed_transaction_is_a_boundary(log: LogWriter, log_writer: type[LogWriter]) -> None:
    log.gtid(1)
    log.payload(an_update(log_writer))
    boundary = log.offset
    log.insert(2)

    items = scan(log)

    assert [item.end.offset for item in items if isinstance(item, TransactionEnded)] == [boundary, log.offset]
    assert scan(log, BinlogPosition(FILE, boundary)) == items[3:]


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda log, inner: log.payload(inner, compression=7), "unknown compression 7"),
        (lambda log, inner: log.payload(inner, plain_bytes=5), "announces 5"),
        (lambda log, _: log.event(40, b"\1\1\x05\0zz"), "2 bytes that announces 5"),
        (lambda log, _: log.event(40, b"\2\1\0\0not zstd"), "zstd refuses"),
        (lambda log, _: log.event(40, b"\2\3\xfc\xff\0\0" + bytes(30)), "says that it has 0 bytes"),
        (lambda log, _: log.event(40, b"\2\3\xfc\xff\0\0" + bytes(10)), "ends within an event"),
        (lambda log, _: log.event(40, b"\2\5\0"), "announced where"),
    ],
)
def test_damage_is_an_error_with_its_place(
    log: LogWriter, log_writer: type[LogWriter], damage: Callable[[LogWriter, LogWriter], int], says: str
) -> None:
    log.gtid(1)
    start = damage(log, an_update(log_writer))
    scanner = EventScanner(START, wanted)

    with pytest.raises(CorruptLogError, match=f"{FILE}:{start}.*{says}"):
        scanner.feed(*log.stream()) and scanner.feed(b"", ())


def test_a_zstd_stream_that_was_cut_off_is_an_error_behind_its_items(
    log: LogWriter, log_writer: type[LogWriter]
) -> None:
    log.gtid(1)
    log.payload(an_update(log_writer))
    body = log.events.pop()[19:-4]
    log.event(40, b"\2\1\0\0" + body[body.index(b"\x28\xb5\x2f\xfd") : -3])

    scanner = EventScanner(START, wanted)

    with pytest.raises(CorruptLogError, match="zstd refuses"):
        scanner.feed(*log.stream()) and scanner.feed(b"", ())


@pytest.mark.parametrize("code", [4, 15, 33, 35, 40, 99])
def test_no_event_about_files_or_gtids_is_in_a_transaction(
    log: LogWriter, log_writer: type[LogWriter], code: int
) -> None:
    inner = log_writer(checksums=False)
    inner.query("BEGIN")
    inner.event(code, bytes(60))
    inner.xid()
    log.gtid(1)
    log.payload(inner)

    with pytest.raises(CorruptLogError, match=f"an event of type {code}"):
        scan(log)


def test_an_event_that_may_be_ignored_is_ignored_in_a_transaction_too(
    log: LogWriter, log_writer: type[LogWriter]
) -> None:
    inner = log_writer(checksums=False)
    inner.query("BEGIN")
    inner.event(99, bytes(60), flags=0x80)
    inner.xid()
    log.gtid(1)
    log.payload(inner)

    assert [type(item) for item in scan(log)] == [TransactionEnded]


@pytest.mark.parametrize("behind", [True, False])
def test_a_compressed_transaction_is_exactly_one(log: LogWriter, log_writer: type[LogWriter], *, behind: bool) -> None:
    inner = an_update(log_writer)
    if behind:
        inner.query("BEGIN")
    else:
        inner.events.pop()
    log.gtid(1)
    log.payload(inner)
    scanner = EventScanner(START, wanted)

    with pytest.raises(CorruptLogError, match="an event of type 2" if behind else "without its end"):
        scanner.feed(*log.stream()) and scanner.feed(b"", ())

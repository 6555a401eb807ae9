"""Damaged events: always one of our errors, never another one and never silence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import CorruptLogError, LogError
from penstock.core.mysql.log.scan import EventScanner
from penstock.core.positions import BinlogPosition

if TYPE_CHECKING:
    from tests.unit.mysql_log.conftest import LogWriter

    from penstock.core.mysql.log.log_items import LogItem

START = BinlogPosition("mysql-bin.000001", 4)


def a_log_of_everything(log: LogWriter) -> LogWriter:
    log.opening()
    log.gtid_list((0, 7, 1))
    log.insert(2)
    log.gtid(3, flags=1)
    log.query("CREATE TABLE t (a INT)")
    log.gtid(4, flags=0x42, rest=bytes(8) + b"\x01\0\0\0\x01\x01ab")
    log.table_map("other", table_id=9)
    log.query("XA END X'61'")
    log.event(38, b"\0\1\0\0\0\1\0\0\0\0\0\0\0a")
    log.event(35, b"\x01" + bytes(7) + bytes(16) + b"\x01" + bytes(7) + b"\x01" + bytes(7) + b"\x05" + bytes(7))
    log.event(33, b"\0" + bytes(16) + b"\x05" + bytes(7) + b"\x02" + bytes(16) + bytes(7))
    log.query("BEGIN")
    log.query("ROLLBACK")
    log.rotate("mysql-bin.000002")
    return log


def scan_all(events: list[bytes]) -> list[LogItem]:
    scanner = EventScanner(START, lambda table: table.name == "users")
    items: list[LogItem] = []
    for event in events:
        items += scanner.feed(event, [(0, len(event))])
    scanner.feed(b"", ())
    return items


def test_the_log_that_is_damaged_below_reads_well(log_writer: type[LogWriter]) -> None:
    assert len(scan_all(a_log_of_everything(log_writer()).events)) == 7


def test_every_changed_byte_breaks_the_checksum(log_writer: type[LogWriter]) -> None:
    events = a_log_of_everything(log_writer()).events
    for index, event in enumerate(events):
        for at in range(len(event)):
            damaged = bytearray(event)
            damaged[at] ^= 0x55
            with pytest.raises(LogError):
                scan_all([*events[:index], bytes(damaged), *events[index + 1 :]])


def test_a_checksum_that_differs_is_named_with_its_place(log_writer: type[LogWriter]) -> None:
    log = log_writer().opening()
    log.insert(1)
    place = log.offset
    log.insert(2)
    broken = log.starts.index(place)
    log.events[broken] = log.events[broken][:-1] + b"\0"

    with pytest.raises(CorruptLogError, match=f"mysql-bin.000001:{place}: the checksum"):
        scan_all(log.events)


def test_every_prefix_of_an_event_is_an_error(log_writer: type[LogWriter]) -> None:
    events = a_log_of_everything(log_writer()).events
    for index, event in enumerate(events):
        for size in range(len(event)):
            with pytest.raises(LogError):
                scan_all([*events[:index], event[:size]])


@given(st.integers(1, 17), st.data())
def test_without_checksums_damage_is_an_error_of_ours_or_another_value(
    log_writer: type[LogWriter], index: int, data: st.DataObject
) -> None:
    log = a_log_of_everything(log_writer(checksums=False))
    event = bytearray(log.events[index])
    for _ in range(data.draw(st.integers(1, 3))):
        event[data.draw(st.integers(13, len(event) - 1))] = data.draw(st.integers(0, 255))
    log.events[index] = bytes(event)

    try:
        scan_all(log.events)
    except LogError:
        return


@given(st.integers(1, 17), st.data())
def test_a_body_cut_short_behind_a_right_header_is_an_error_or_says_less(
    log_writer: type[LogWriter], index: int, data: st.DataObject
) -> None:
    whole = a_log_of_everything(log_writer())
    event = whole.events[index]
    body = event[19:-4][: data.draw(st.integers(0, len(event) - 24))] if len(event) > 24 else b""
    log = log_writer(offset=whole.starts[index])
    log.event(event[4], body, flags=int.from_bytes(event[17:19], "little"))

    try:
        scan_all([*whole.events[:index], *log.events])
    except LogError:
        return

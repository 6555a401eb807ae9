"""Damaged bytes of real binlogs: an error that says where, or a correct parse; never another error, a hang or a flood.

Short as a test; `make fuzz` looks for as long as it is told to.
"""

from __future__ import annotations

import re
import struct
import tracemalloc
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.mysql_log.single_items import without_beginnings

from penstock.core.errors import LogError, TableStoppedError
from penstock.core.mysql.events.gtid_sets import parse_gtids
from penstock.core.mysql.events.transaction_payload import inner_events
from penstock.core.mysql.log.log_items import LogItem, TransactionBegan
from penstock.core.mysql.log.scan import EventScanner, Grouping
from penstock.core.mysql.rows.decode import decode_rows
from penstock.core.mysql.types.logged_rows import RowsLogged
from penstock.core.positions import BinlogPosition
from penstock.core.tables import Column, IntegerType, PrintedType, TableId, TableSchema, TextType

RECORDED = Path(__file__).parents[1] / "unit" / "mysql_log" / "recorded"
NAMES = sorted(file.stem for file in RECORDED.glob("*.binlog"))
FILE = "mysql-bin.000001"
PAYLOAD = 40
HEADER_BYTES = 19
MEMORY_BYTES_MAX = 64 << 20
SCHEMA = TableSchema(
    TableId("shop", "users"),
    (
        Column("id", IntegerType(32, unsigned=False), nullable=False),
        Column("name", TextType(4_294_967_295, "utf8mb4"), nullable=True),
    ),
    ("id",),
)
ORDERS = TableSchema(
    TableId("shop", "orders"),
    (SCHEMA.columns[0], *(Column(name, PrintedType("json"), nullable=True) for name in ("doc", "notes", "made"))),
    ("id",),
)


def events_of(name: str) -> list[bytes]:
    """The events of a recorded file."""
    return split((RECORDED / f"{name}.binlog").read_bytes()[4:])


def split(stream: bytes) -> list[bytes]:
    events, at = [], 0
    while at < len(stream):
        length = int.from_bytes(stream[at + 9 : at + 13], "little")
        events.append(stream[at : at + length])
        at += length
    return events


def damaged(raw: bytes, data: st.DataObject) -> bytes:
    """`raw` with some bytes changed, cut out or put in."""
    changed = bytearray(raw)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, max(0, len(changed) - 1)))
        match data.draw(st.sampled_from(["flip", "set", "ones", "cut", "end", "insert", "repeat"])):
            case "flip" if changed:
                changed[at] ^= 1 << data.draw(st.integers(0, 7))
            case "set" if changed:
                changed[at] = data.draw(st.integers(0, 255))
            case "ones":
                count = min(data.draw(st.integers(1, 8)), len(changed) - at)
                changed[at : at + count] = b"\xff" * count
            case "cut":
                del changed[at : at + data.draw(st.integers(1, 16))]
            case "end":
                del changed[at:]
            case "insert":
                changed[at:at] = data.draw(st.binary(min_size=1, max_size=16))
            case "repeat":
                changed[at:at] = changed[at : at + 16]
            case _:
                pass
    return bytes(changed)


def expected(event: bytes) -> bytes:
    """The event with the length and the checksum that it has now."""
    front = event[:9] + struct.pack("<I", len(event) + 4) + event[13:]
    return front + struct.pack("<I", zlib.crc32(front))


def damaged_inside(event: bytes, data: st.DataObject) -> bytes:
    """A compressed transaction with damage in the events that it holds, and right sizes around them."""
    inner = [bytes(found) for _, found in inner_events(memoryview(event)[HEADER_BYTES:-4])]
    index = data.draw(st.integers(0, len(inner) - 1))
    inner[index] = damaged(inner[index], data)
    if data.draw(st.booleans()):
        inner[index] = inner[index][:9] + struct.pack("<I", len(inner[index])) + inner[index][13:]
    packed = pa.Codec("zstd").compress(b"".join(inner), asbytes=True)
    return expected(event[:HEADER_BYTES] + b"\2\1\0\0" + packed)


def scan_once(events: list[bytes], grouping: Grouping) -> tuple[list[LogItem], LogError | None]:
    """Scan all of it as one stream; the items, and what ends them."""
    spans, at = [], 0
    for event in events:
        spans.append((at, at + len(event)))
        at += len(event)
    scanner = EventScanner(
        BinlogPosition(FILE, 4),
        lambda table: table.name != "secret",
        held_bytes_max=1 << 20,
        grouping=grouping,
    )
    items: list[LogItem] = []
    try:
        for piece in scanner.pieces(b"".join(events), spans):
            items += piece
    except LogError as error:
        return without_beginnings(items), error
    return without_beginnings(items), None


def scan(events: list[bytes]) -> list[LogItem]:
    """Scan one by one and together, which is the same, and decode what rows there are; errors are those that may be."""
    items, error = scan_once(events, Grouping(len(events) + 1))
    for grouping in Grouping(1), Grouping(len(events) + 1, few=True):
        together, same_error = scan_once(events, grouping)
        assert together == items
        assert str(same_error) == str(error)
    refused: list[LogError | TableStoppedError] = [error] if error else []
    for item in items:
        if isinstance(item, RowsLogged):
            try:
                decode_rows(ORDERS if item.table_map.table == ORDERS.table else SCHEMA, [item])
            except TableStoppedError as error:
                refused.append(error)
        elif not isinstance(item, TransactionBegan):
            assert item.end.order >= (0, 0, 0)
            parse_gtids(item.end.gtids)
    for why in refused:
        assert re.search(r"\.[0-9]+:[0-9]+", why.message), why.message
        assert why.hint
    return items


@pytest.mark.parametrize("name", NAMES)
def test_the_logs_that_are_damaged_below_read_well(name: str) -> None:
    assert len(scan(events_of(name))) > 10


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_damaged_events_are_errors_with_their_place_or_other_events(name: str, data: st.DataObject) -> None:
    events = events_of(name)
    index = data.draw(st.integers(0, len(events) - 1))
    match data.draw(st.sampled_from(["raw", "sealed", "sealed body", "dropped", "doubled", "moved"])):
        case "raw":
            events[index] = damaged(events[index], data)
        case "sealed":
            events[index] = expected(damaged(events[index][:-4], data))
        case "sealed body":
            event = events[index]
            events[index] = expected(event[:HEADER_BYTES] + damaged(event[HEADER_BYTES:-4], data))
        case "dropped":
            del events[index]
        case "doubled":
            events.insert(index, events[index])
        case _:
            events.insert(data.draw(st.integers(0, len(events) - 1)), events.pop(index))

    tracemalloc.start()
    scan(events)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < MEMORY_BYTES_MAX


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("mysql") and "compressed" in name])
@given(data=st.data())
def test_damage_within_a_compressed_transaction_is_found_too(name: str, data: st.DataObject) -> None:
    events = events_of(name)
    payloads = [index for index, event in enumerate(events) if event[4] == PAYLOAD]
    index = data.draw(st.sampled_from(payloads))
    events[index] = damaged_inside(events[index], data)

    scan(events)

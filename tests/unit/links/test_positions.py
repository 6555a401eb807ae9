"""Positions of every kind of source: their order, and what is written of them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import PositionError
from penstock.core.positions import (
    BinlogPosition,
    WalPosition,
    binlog_position,
    file_number,
    in_timeline,
    parse_lsn,
    position_from_mapping,
    timeline_of,
    wal_position,
)
from penstock.core.publication import CaptureRecord

lsns = st.integers(0, 2**64 - 1)
oids = st.integers(0, 2**32 - 1)
passed_by = st.lists(oids, unique=True, max_size=5).map(tuple)
wal_positions = st.builds(
    WalPosition,
    lsns,
    *[st.integers(0, 2**31 - 1)] * 2,
    st.integers(0, 9),
    passed_by,
    partitions=st.sampled_from(["one", "many"]),
)

RECORD_ON_DISK = {
    "file": "mysql-bin.000017",
    "offset": 4711,
    "rows_from": 4900,
    "gtids": "0-1-5",
    "file_created": 1_700_000_000,
    "prepared": [["X'67',X'62',1", "mysql-bin.000016", 99]],
    "epoch": 3,
    "timestamp_ms": 1_700_000_000_123,
    "rows": {"shop.orders": [2, 1_700_000_000_123]},
    "stopped": {"shop.users": {"position": "mysql-bin.000016:4", "error": "no", "hint": "mend it"}},
    "era": 1,
    "heartbeat": {
        "serial": 7,
        "timestamp_ms": 5,
        "file": "mysql-bin.000017",
        "offset": 400,
        "transactions": 1,
        "row_bytes": 2,
        "checksum": 3,
    },
    "server": "uuid",
    "turn": {"plan": "p", "number": 1, "state": "open"},
    "copying": True,
}
"""As it stands in the position topic of a pipeline that was started before there were other kinds of source."""


def test_a_record_on_disk_is_read_and_written_as_it_was() -> None:
    record = CaptureRecord.from_mapping(RECORD_ON_DISK)

    assert record.position.order == (17, 4711, 4900)
    assert json.loads(json.dumps(record.to_mapping())) == RECORD_ON_DISK


@given(wal_positions)
def test_a_record_of_a_wal_survives_kafka(position: WalPosition) -> None:
    record = CaptureRecord(position, 1, 2)

    found = CaptureRecord.from_mapping(json.loads(json.dumps(record.to_mapping())))

    assert found == record
    assert position_from_mapping(position.to_mapping()) == position


def test_the_publication_that_rows_are_counted_by_survives_in_the_middle_of_a_transaction_alone() -> None:
    inside = WalPosition(7, rows_from=3, publication="shop")

    assert WalPosition.from_mapping(json.loads(json.dumps(inside.to_mapping()))).publication == "shop"
    assert "publication" not in replace(inside, rows_from=0).to_mapping()
    assert WalPosition.from_mapping({"lsn": "0/7", "rows_from": 3, "tables_from": 0}).publication == ""


@given(wal_positions, wal_positions)
def test_a_wal_is_ordered_by_lsn_and_then_by_row(one: WalPosition, other: WalPosition) -> None:
    assert (one.order < other.order) == ((one.lsn, one.rows_from) < (other.lsn, other.rows_from))


@given(wal_positions)
def test_what_a_message_says_of_a_wal_is_what_its_position_says(position: WalPosition) -> None:
    assert (file_number(position.file), position.offset) == position.order[:2] == position.reach


@given(lsns)
def test_an_lsn_is_read_as_it_is_printed(lsn: int) -> None:
    assert parse_lsn(str(WalPosition(lsn))) == lsn


@pytest.mark.parametrize("text", ["", "16", "binlog.000001", "G/1", "1/1FFFFFFFFF/", "FFFFFFFF1/0", "-1/0"])
def test_what_is_no_lsn_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no LSN|invalid literal"):
        parse_lsn(text)


@given(wal_positions, st.integers(1, 9))
def test_a_place_of_a_later_timeline_is_behind_every_other(position: WalPosition, timeline: int) -> None:
    last = in_timeline(WalPosition(2**64 - 1, 2**31 - 1).order, timeline - 1)

    assert in_timeline(position.order, timeline) > last
    assert timeline_of(in_timeline(position.order, timeline)) == timeline


def test_a_source_that_is_of_another_kind_now_is_named() -> None:
    with pytest.raises(PositionError, match="stands at 0/10 in the log of a PostgreSQL server, and its"):
        binlog_position(WalPosition(16))
    with pytest.raises(PositionError, match=r"stands at binlog.000001:4 in the log of a MySQL server"):
        wal_position(BinlogPosition("binlog.000001", 4))


def test_no_message_is_behind_the_last_row_of_a_piece_of_a_transaction() -> None:
    assert BinlogPosition("binlog.000001", 100, rows_from=150).reach == (1, 150)
    assert BinlogPosition("binlog.000001", 100).reach == (1, 100)
    assert WalPosition(100, rows_from=150).reach == (0, 100)


@given(st.lists(st.integers(100, 5000), max_size=2000))
def test_a_table_whose_rows_were_passed_by_is_never_taken_for_a_new_one(passed: list[int]) -> None:
    position = WalPosition(7, tables_from=1000)
    for oid in passed:
        position = position.passing_by(oid)

    assert not any(position.has_all_of(oid) for oid in passed)
    assert position.has_all_of(5001)
    assert len(position.passed_by) <= 1000


def test_tables_that_nobody_passed_by_are_new_while_few_were() -> None:
    position = WalPosition(7, tables_from=1000)
    for oid in range(1001, 3001, 2):
        position = position.passing_by(oid)

    assert all(position.has_all_of(oid) for oid in range(1000, 3000, 2))
    assert not position.passing_by(3001).has_all_of(1000)

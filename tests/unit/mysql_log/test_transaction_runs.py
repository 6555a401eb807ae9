"""Transactions that are read together are those that are read one by one."""

from __future__ import annotations

import random
import struct
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.mysql_log.scanning import FEW, FILE, RUNS, SINGLE, START, scan
from tests.unit.mysql_log.single_items import one_by_one, without_beginnings

from penstock.core.mysql.log.log_items import (
    FewTransactions,
    LogAdvanced,
    StatementLogged,
    TransactionBegan,
    TransactionEnded,
    TransactionsLogged,
)
from penstock.core.mysql.log.scan import Grouping
from penstock.core.mysql.types.logged_rows import RowsLogged

if TYPE_CHECKING:
    from tests.unit.mysql_log.conftest import LogWriter

    from penstock.core.mysql.log.log_items import LogItem
    from penstock.core.positions import BinlogPosition

BOTH = Grouping(40, few=True)
TABLES = ("users", "orders", "secret")
ROW = b"\xfe\x2a\0\0\0"
FRONTS = (
    b"\x01\x01",
    b"\x01\x01",
    b"\x01\xff",
    b"\x01\x00",
    b"\x02\x01",
    b"\xfc\x01\0\x01",
    b"\xfc\x01\0\x00",
    b"\x01",
    b"",
)
NO_NUMBERS = (0, 1 << 63, (1 << 64) - 1)
"""What a GTID of MySQL never has."""
UUIDS = (bytes(range(16)), bytes(15) + b"\0", bytes(range(1, 16)) + b"\0")


class Chance(random.Random):
    """What hypothesis seeds: the seldom things are to be seldom, which its own choices would not be."""

    def seldom(self, one_in: int) -> bool:
        return self.randrange(one_in) == 0


def add_rows(log: LogWriter, chance: Chance) -> None:
    """Statements: tables described, rows of them, now and then under a number that has another meaning elsewhere."""
    for _ in range(chance.randint(1, 2)):
        if chance.seldom(5):
            log.event(chance.choice([29, 160]), b"INSERT ...")
        described = [(TABLES.index(table), table) for table in chance.sample(TABLES, chance.choice([1, 1, 1, 2]))]
        if chance.seldom(200):
            described = [(7, table) for _, table in described]
        for number, table in described:
            log.table_map(table, 20 + number, columns=b"\x03" * (9 if chance.seldom(100) else 1))
        for _ in range(chance.randint(1, 3)):
            number = chance.randrange(4) if chance.seldom(100) else chance.choice(described)[0]
            front = chance.choice(FRONTS) if chance.seldom(5) else FRONTS[0]
            code, flags = chance.choice([23, 23, 24, 25, 30, 31, 32]), 0xFFFF if chance.seldom(20) else 1
            log.rows(front + ROW * chance.randint(0, 3), 20 + number, code, flags)


def add_end(log: LogWriter, chance: Chance) -> None:
    if not chance.seldom(50):
        log.xid()
    elif not chance.seldom(3):
        log.query(chance.choice(["COMMIT", "ROLLBACK"]))


def add_mariadb(log: LogWriter, chance: Chance, number: int) -> None:
    flags = chance.choice([1, 0x40, 0x80]) if chance.seldom(100) else chance.choice([0, 2, 4, 8])
    log.server_id = chance.choice([7, 7, 7, 8])
    log.gtid(number, flags, chance.choice([0, 0, 0, 1, 0xFFFF_FFFF]))
    if chance.seldom(2):
        log.server_id = 7
    add_rows(log, chance)
    add_end(log, chance)


def add_mysql(log: LogWriter, chance: Chance, number: int) -> None:
    code = 34 if chance.seldom(10) else 33
    number += 1 << 62 if chance.seldom(20) else 5 if chance.seldom(5) else 0
    number = chance.choice(NO_NUMBERS) if chance.seldom(100) else number
    time = chance.choice([b"", bytes(7), struct.pack("<Q", 1_700_000_000_123_456)[:7], b"\xff" * 7])
    uuid = chance.choice(UUIDS) if chance.seldom(3) else UUIDS[0]
    log.event(code, b"\1" + uuid + struct.pack("<QBQQ", number, 2, 0, 1) + time)
    log.query(chance.choice(["begin", "BEGIN ", "x BEGIN"]) if chance.seldom(12) else "BEGIN", chance.choice(["", "s"]))
    add_rows(log, chance)
    add_end(log, chance)


def add_something_else(log: LogWriter, chance: Chance, number: int, kinds: int) -> None:
    """One of the first `kinds` of these; only the first two stand in logs of MySQL."""
    match chance.randrange(kinds):
        case 0:
            log.event(27, FILE.encode(), end=0)
        case 1:
            log.rotate(f"mysql-bin.{int(log.file[-6:]) + 1:06}")
            log.checksums = chance.choice([True, True, False])
            log.event(15, struct.pack("<H50sIB", 4, log.server_version, 0, 19) + bytes(40) + bytes([log.checksums]))
        case 2:
            log.gtid(number, flags=1)
            log.query("CREATE TABLE BEGIN")
        case 3:
            log.xa_prepare(b"a")
        case 4:
            log.xa_finish("ROLLBACK", b"a")
        case _:
            log.gtid(number)
            log.table_map("users")
            log.compressed_rows(166)
            log.xid()


def damage(events: list[bytes], chance: Chance) -> None:
    index = chance.randrange(2, len(events))
    match chance.randrange(5):
        case 0:
            del events[index]
        case 1:
            events.insert(index, events[index])
        case 2:
            events[index] = events[index][: chance.randint(0, len(events[index]))]
        case 3:
            events[index] = events[index][:9] + b"\x50" + events[index][10:]
        case _:
            at = chance.randrange(len(events[index]))
            events[index] = events[index][:at] + bytes([events[index][at] ^ 0x55]) + events[index][at + 1 :]


def random_log(log: LogWriter, chance: Chance) -> LogWriter:
    """A log of mostly usual transactions, with gaps, ends that are left out, and sometimes damage."""
    log.checksums = not chance.seldom(4)
    log.opening()
    add = chance.choice([add_mariadb, add_mysql])
    if chance.seldom(2):
        (log.gtid_list((0, 7, 0)) if add is add_mariadb else log.event(35, bytes(8)))
    for number in range(1, chance.randint(2, 15)):
        if chance.seldom(20):
            log.offset += chance.choice([40, 40, 1 << 30, (1 << 31) - 1, (1 << 32) - 100])
        first = len(log.events)
        if chance.seldom(12):
            add_something_else(log, chance, number, 6 if add is add_mariadb else 2)
        else:
            add(log, chance, number)
        if chance.seldom(10):
            leave_out_ends(log, first)
        if chance.seldom(12):
            cut_short(log, chance)
    if chance.seldom(4):
        damage(log.events, chance)
    return log


def leave_out_ends(log: LogWriter, first: int) -> None:
    """As MariaDB 11.7 and newer do within transactions."""
    for index in range(first + 1, len(log.events) - 1):
        event = log.events[index]
        body = event[19:-4] if log.checksums else event[19:]
        again = type(log)(checksums=log.checksums, server_id=int.from_bytes(event[5:9], "little"))
        again.event(event[4], body, flags=int.from_bytes(event[17:19], "little"), end=0)
        log.events[index] = again.events[0]


def cut_short(log: LogWriter, chance: Chance) -> None:
    """Leave the last bytes of some event's body out, and let its frame say so."""
    index = chance.randrange(2, len(log.events))
    event, start = log.events[index], log.starts[index]
    body = event[19:-4] if log.checksums else event[19:]
    left = body[: chance.randint(0, 24)]
    again = type(log)(checksums=log.checksums, offset=start + len(body) - len(left), server_id=7)
    again.event(event[4], left)
    log.events[index] = again.events[0]


def some_position(found: list[LogItem], chance: Chance) -> BinlogPosition:
    """A boundary, or a place in the middle of a transaction."""
    begin, boundary, places = 0, START, [START]
    for item in found:
        match item:
            case TransactionBegan():
                begin = item.offset
            case RowsLogged():
                places.append(replace(boundary, offset=begin, rows_from=item.offset))
            case TransactionEnded() | LogAdvanced() | StatementLogged():
                boundary = item.end
                places.append(boundary)
    return chance.choice(places)


@settings(max_examples=2 * settings().max_examples)
@given(st.integers(0, 1 << 64))
def test_what_is_read_together_is_what_the_scanner_of_single_events_finds(
    log_writer: type[LogWriter], seed: int
) -> None:
    chance = Chance(seed)
    log = random_log(log_writer(), chance)
    cuts = sorted(chance.choices(range(len(log.events) + 1), k=chance.randint(0, 3)))

    expected = scan(log, START, SINGLE, cuts)
    assert not expected.runs
    assert not expected.few
    for position, one_file in (START, False), (some_position(expected.found, chance), chance.seldom(2)):
        single, in_runs, few, both = (
            scan(log, position, grouping, cuts, one_file=one_file) for grouping in (SINGLE, RUNS, FEW, BOTH)
        )
        assert (in_runs.items, in_runs.error) == (single.items, single.error)
        assert (one_by_one(few.found), few.error) == (single.found, single.error)
        assert (both.items, both.error) == (single.items, single.error)
        for block in chain.from_iterable(run.blocks for run in (*in_runs.runs, *both.runs)):
            assert len(block) == 1 or {event.front for event in block} == {block.front}


@pytest.mark.parametrize("leaves_out_ends", [False, True])
@pytest.mark.parametrize("checksums", [False, True])
@pytest.mark.parametrize("code", [162, 33, 34])
def test_usual_transactions_are_one_run(
    log_writer: type[LogWriter], code: int, *, checksums: bool, leaves_out_ends: bool
) -> None:
    log = log_writer(checksums=checksums).opening()
    for number in range(1, 9):
        first = len(log.events)
        log.server_id = 7 + number % 2
        if code == 162:
            log.gtid(number, domain=number % 3)
        else:
            log.event(code, b"\1" + UUIDS[number % 2] + struct.pack("<QBQQ", number, 2, 0, 1))
            log.query("BEGIN", schema="shop" * (number % 2))
        for table_id in (20, 21):
            log.table_map(TABLES[table_id - 20], table_id)
            log.rows(table_id=table_id, code=23 + number % 3)
        log.xid()
        if leaves_out_ends:
            leave_out_ends(log, first)

    found, few = (scan(log, START, grouping, cuts=[2]).found for grouping in (Grouping(48), FEW))
    single = scan(log, START, SINGLE)

    assert [type(item) for item in found] == [TransactionsLogged]
    assert without_beginnings(found) == single.items
    assert [type(item) for item in few] == [FewTransactions]
    assert one_by_one(few) == single.found


def test_what_is_read_on_the_way_to_a_position_is_in_no_run(log: LogWriter) -> None:
    log.xa_prepare(b"a")
    for number in range(3, 9):
        log.insert(number)
    log.xa_finish("COMMIT", b"a")
    found = scan(log, START, SINGLE).found
    for end in [item.end for item in found if isinstance(item, TransactionEnded)]:
        expected, in_runs, few = (scan(log, end, grouping) for grouping in (SINGLE, RUNS, FEW))

        assert (in_runs.items, in_runs.error) == (expected.items, expected.error)
        assert (one_by_one(few.found), few.error) == (expected.found, expected.error)


@pytest.mark.parametrize("checksums", [False, True])
def test_a_run_ends_before_an_event_that_says_another_length(log_writer: type[LogWriter], *, checksums: bool) -> None:
    log = log_writer(checksums=checksums).opening()
    for number in range(3, 9):
        log.insert(number)
    last = log.events[-1]
    log.events[-1] = last[:9] + bytes([last[9] ^ 1]) + last[10:]

    in_runs, few = (scan(log, START, grouping, cuts=[2]) for grouping in (RUNS, FEW))

    assert "an event of" in in_runs.error
    assert in_runs.error == few.error == scan(log, START, SINGLE).error
    assert [len(run.ends) for run in in_runs.runs] == [5]
    assert [len(run.places) for run in few.few] == [5]


def test_a_run_ends_before_a_table_map_that_cannot_be_read(log: LogWriter) -> None:
    for number in range(3, 9):
        log.insert(number)
    log.gtid(9)
    log.event(19, b"\x15\0\0\0\0\0\1\0\x04shop\0\x06broken\0\x05\x03")
    log.rows(table_id=21)
    log.xid()

    in_runs, few = (scan(log, START, grouping) for grouping in (RUNS, FEW))

    assert "are announced" in in_runs.error
    assert in_runs.error == few.error == scan(log, START, SINGLE).error
    assert [len(run.ends) for run in in_runs.runs] == [6]
    assert [len(run.places) for run in few.few] == [6]


@pytest.mark.parametrize("number", NO_NUMBERS)
def test_a_run_ends_before_a_gtid_that_no_set_can_hold(log_writer: type[LogWriter], number: int) -> None:
    log = log_writer().opening()
    log.event(35, struct.pack("<Q", 1) + UUIDS[0] + struct.pack("<QQQ", 1, 1, 2))
    for each in (2, 3, 4, number):
        log.event(33, b"\1" + UUIDS[0] + struct.pack("<QBQQ", each, 2, 0, 1))
        log.query("BEGIN")
        log.table_map("users")
        log.rows()
        log.xid()

    in_runs, few = (scan(log, START, grouping, cuts=[3]) for grouping in (RUNS, FEW))

    assert f"a GTID with the number {number}" in in_runs.error
    assert in_runs.error == few.error == scan(log, START, SINGLE).error
    assert [run.end.gtids for run in in_runs.runs] == [f"{UUID(bytes=UUIDS[0])}:1-4"]
    assert few.few[-1].end.gtids == f"{UUID(bytes=UUIDS[0])}:1-4"

"""Transactions read as runs are those that are read one by one."""

from __future__ import annotations

import random
import struct
from itertools import pairwise
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.mysql_log.single_items import without_beginnings

from penstock.core.errors import LogError
from penstock.core.mysql.log_items import LogAdvanced, StatementLogged, TransactionEnded, TransactionsLogged
from penstock.core.mysql.scan import EventScanner
from penstock.core.positions import BinlogPosition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.unit.mysql_log.conftest import LogWriter

    from penstock.core.mysql.log_items import LogItem

FILE = "mysql-bin.000001"
START = BinlogPosition(FILE, 4)
NEVER = 1 << 30
TABLES = ("users", "orders", "secret")
ROW = b"\xfe\x2a\0\0\0"
FRONTS = (b"\x01\x01", b"\x01\x01", b"\x01\xff", b"\x01\x00", b"\x02\x01", b"\xfc\x01\0\x01", b"")
UUIDS = (bytes(range(16)), bytes(15) + b"\0", bytes(range(1, 16)) + b"\0")
HELD_BYTES_MAX = 900


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
            number = 3 if chance.seldom(300) else chance.choice(described)[0]
            front = chance.choice(FRONTS) if chance.seldom(10) else FRONTS[0]
            log.rows(front + ROW * chance.randint(0, 3), 20 + number, chance.choice([23, 23, 24, 25, 30, 31, 32]))


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
    time = chance.choice([b"", bytes(7), struct.pack("<Q", 1_700_000_000_123_456)[:7], b"\xff" * 7])
    uuid = chance.choice(UUIDS) if chance.seldom(3) else UUIDS[0]
    log.event(code, b"\1" + uuid + struct.pack("<QBQQ", number, 2, 0, 1) + time)
    log.query(chance.choice(["begin", "BEGIN ", "x BEGIN"]) if chance.seldom(50) else "BEGIN", chance.choice(["", "s"]))
    add_rows(log, chance)
    add_end(log, chance)


def add_something_else(log: LogWriter, chance: Chance, number: int, kinds: int) -> None:
    """One of the first `kinds` of these; only the first two stand in logs of MySQL."""
    match chance.randrange(kinds):
        case 0:
            log.event(27, FILE.encode(), end=0)
        case 1:
            log.rotate(f"mysql-bin.{int(log.file[-6:]) + 1:06}")
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
    match chance.randrange(4):
        case 0:
            del events[index]
        case 1:
            events.insert(index, events[index])
        case 2:
            events[index] = events[index][: chance.randint(0, len(events[index]))]
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
        if chance.seldom(25):
            add_something_else(log, chance, number, 6 if add is add_mariadb else 2)
        else:
            add(log, chance, number)
        if chance.seldom(10):
            leave_out_ends(log, first)
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


def scan(
    log: LogWriter, position: BinlogPosition, run_events_min: int, cuts: Sequence[int]
) -> tuple[list[LogItem], str, list[int]]:
    """What comes, in single items, the error that ends it, and how long the runs were."""
    scanner = EventScanner(
        position, lambda table: table.name != "secret", held_bytes_max=HELD_BYTES_MAX, run_events_min=run_events_min
    )
    buffer, spans = log.stream()
    items: list[LogItem] = []
    error = ""
    try:
        for first, after in pairwise([0, *cuts, len(spans)]):
            for piece in scanner.pieces(buffer, spans[first:after]):
                items += piece
        items += scanner.advanced()
    except LogError as raised:
        error = f"{type(raised)} {raised.message} {raised.hint}"
    return without_beginnings(items), error, [len(i.ends) for i in items if isinstance(i, TransactionsLogged)]


@given(st.integers(0, 1 << 64))
def test_runs_are_what_the_scanner_of_single_events_finds(log_writer: type[LogWriter], seed: int) -> None:
    chance = Chance(seed)
    log = random_log(log_writer(), chance)
    cuts = sorted(chance.choices(range(len(log.events) + 1), k=chance.randint(0, 3)))

    items, error, runs = scan(log, START, NEVER, cuts)

    assert not runs
    assert scan(log, START, 1, cuts)[:2] == (items, error)
    ends = [i.end for i in items if isinstance(i, TransactionEnded | LogAdvanced | StatementLogged)]
    if ends:
        position = chance.choice(ends)
        assert scan(log, position, 1, cuts)[:2] == scan(log, position, NEVER, cuts)[:2]

"""ROLLBACK TO SAVEPOINT in a log: what stands between the two never appears, however the name is written."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import LogError
from penstock.core.mysql.log.log_items import LogItem, StatementLogged, TransactionBegan
from penstock.core.mysql.log.scan import PREPARED_BYTES_MAX, EventScanner
from penstock.core.mysql.types.logged_rows import RowsLogged
from penstock.core.positions import BinlogPosition

if TYPE_CHECKING:
    from tests.unit.mysql_log.conftest import LogWriter

FILE = "mysql-bin.000001"
START = BinlogPosition(FILE, 4)
MEBIBYTE_OF_ROWS = b"\x01\x01" + b"\xfe\x01\x00\x00\x00" * 210_000


def rows_offsets(log: LogWriter, prepared_bytes_max: int = PREPARED_BYTES_MAX) -> list[int]:
    scanner = EventScanner(START, lambda _: True, prepared_bytes_max=prepared_bytes_max)
    items = scanner.feed(*log.stream())
    scanner.require_readable()
    return [item.offset for item in items if isinstance(item, RowsLogged)]


def scanned(log: LogWriter, position: BinlogPosition, held_bytes_max: int) -> tuple[list[LogItem], str]:
    """The items from `position` on, and the error that ends them."""
    scanner = EventScanner(position, lambda _: True, held_bytes_max=held_bytes_max)
    items: list[LogItem] = []
    try:
        for piece in scanner.pieces(*log.stream()):
            items += piece
    except LogError as raised:
        return items, raised.message
    return items, ""


def test_what_was_rolled_back_to_a_savepoint_never_appears(log: LogWriter) -> None:
    log.gtid(1)
    log.query("SAVEPOINT `before all`")
    log.table_map("users")
    log.rows()
    log.query("ROLLBACK TO `before all`")
    kept = log.rows()
    log.query("SAVEPOINT `s`")
    log.rows()
    log.query("ROLLBACK TO `s`")
    also_kept = log.rows()
    log.xid()

    assert rows_offsets(log) == [kept, also_kept]


@pytest.mark.parametrize(
    ("first", "second", "back"),
    [
        ('"a"', '"b"', '"a"'),
        ("a1", "b1", "a1"),
        ("`a`", "`b`", "`A`"),
        ("`a`", "`b`", '"a"'),
        ("a", "b", "`a`"),
        ("`\N{LATIN SMALL LETTER E WITH ACUTE}`", "`f`", "`E`"),
        ("`a``1`", "`b``1`", '"a`1"'),
        ('"a""1"', '"b""1"', '`a"1`'),
    ],
)
def test_a_savepoint_is_found_however_its_name_is_written(log: LogWriter, first: str, second: str, back: str) -> None:
    log.gtid(1)
    log.table_map("users")
    kept = log.rows()
    log.query(f"SAVEPOINT {first}")
    log.rows()
    log.query(f"SAVEPOINT {second}")
    log.rows()
    log.query(f"ROLLBACK TO {back}")
    log.xid()

    assert rows_offsets(log) == [kept]


def test_a_savepoint_that_the_log_does_not_have_is_named(log: LogWriter) -> None:
    log.gtid(1)
    log.table_map("users")
    log.rows()
    log.query("ROLLBACK TO `nowhere`")

    with pytest.raises(LogError, match=r"ROLLBACK TO `nowhere`.* at mysql-bin.000001:\d+.*no such savepoint"):
        rows_offsets(log)


@pytest.mark.parametrize(
    ("names", "back"),
    [(("か", "が"), "が"), (("и", "й"), "й"), (("ß", "s"), "s"), (("é", "e"), "E"), (("ss", "ß"), "ß")],
)
def test_the_last_of_all_savepoints_that_may_be_meant_is_meant(
    log: LogWriter, names: tuple[str, str], back: str
) -> None:
    log.gtid(1)
    log.table_map("users")
    kept = []
    for name in names:
        kept.append(log.rows())
        log.query(f"SAVEPOINT `{name}`")
    log.rows()
    log.query(f"ROLLBACK TO `{back}`")
    log.xid()

    assert rows_offsets(log) == kept


@pytest.mark.parametrize(
    ("first", "second", "back"),
    [
        ("か", "が", "か"),
        ("й", "и", "й"),
        ("s", "ß", "s"),
        ("e", "é", "e"),
        ("É", "E", "é"),
        ("i", "\N{LATIN SMALL LETTER DOTLESS I}", "I"),
    ],
)
def test_a_name_that_means_another_savepoint_on_another_server_stops_the_log(
    log: LogWriter, first: str, second: str, back: str
) -> None:
    log.gtid(1)
    log.table_map("users")
    log.query(f"SAVEPOINT `{first}`")
    log.rows()
    log.query(f"SAVEPOINT `{second}`")
    log.rows()
    place = log.query(f"ROLLBACK TO `{back}`")

    with pytest.raises(LogError, match=rf"ROLLBACK TO `{back}`.* at mysql-bin.000001:{place}: .* another") as caught:
        rows_offsets(log)

    assert "more than case and accents" in caught.value.hint


def test_savepoints_that_are_gone_or_without_rows_between_them_are_not_mistaken(log: LogWriter) -> None:
    log.gtid(1)
    log.table_map("users")
    log.query("SAVEPOINT `s`")
    log.query("SAVEPOINT `e`")
    log.query("SAVEPOINT `é`")
    log.rows()
    log.query("ROLLBACK TO `e`")
    log.query("ROLLBACK TO `s`")
    kept = log.rows()
    log.query("SAVEPOINT `é`")
    log.rows()
    log.query("ROLLBACK TO `É`")
    log.xid()

    assert rows_offsets(log) == [kept]


def test_names_of_savepoints_are_utf8_whatever_the_character_set_of_the_client(log: LogWriter) -> None:
    log.gtid(1)
    log.table_map("users")
    log.query("SAVEPOINT `é`", charset=8)
    log.rows()
    log.query("ROLLBACK TO `É`", charset=8)
    kept = log.rows()
    log.xid()

    assert rows_offsets(log) == [kept]


def test_what_is_rolled_back_needs_no_room(log: LogWriter) -> None:
    log.gtid(1)
    log.table_map("users")
    for _ in range(10):
        log.query("SAVEPOINT `s`")
        log.rows(MEBIBYTE_OF_ROWS)
        log.query("ROLLBACK TO `s`")
    kept = log.rows()
    log.xid()

    assert rows_offsets(log) == [kept]


def test_nor_does_it_in_an_xa_transaction(log: LogWriter) -> None:
    name = b"a"
    log.gtid(1, flags=0x48, rest=struct.pack("<IBB", 1, len(name), 0) + name)
    log.table_map("users")
    for _ in range(5):
        log.query("SAVEPOINT `s`")
        log.rows(MEBIBYTE_OF_ROWS)
        log.query("ROLLBACK TO `s`")
    log.query(f"XA END X'{name.hex()}',X'',1")
    log.event(38, struct.pack("<BIII", 0, 1, len(name), 0) + name)

    assert rows_offsets(log, prepared_bytes_max=4 << 20) == []


@given(
    st.lists(
        st.sampled_from(["row", "row", "statement", "statement that stays", "set s", "set t", "to s", "to t"]),
        max_size=10,
    ),
    st.sampled_from([40, 100, 8 << 20]),
)
def test_from_every_place_that_was_read_exactly_what_is_left_comes(
    log_writer: type[LogWriter], acts: list[str], held_bytes_max: int
) -> None:
    log = log_writer().opening()
    begin = log.gtid(1)
    log.table_map("users")
    savepoints: list[str] = []
    for act in acts:
        verb, _, name = act.partition(" ")
        match verb:
            case "row":
                log.rows()
            case "set":
                log.query(f"SAVEPOINT `{name}`")
                savepoints = [*(each for each in savepoints if each != name), name]
            case "to" if name in savepoints:
                log.query(f"ROLLBACK TO `{name}`")
                savepoints = savepoints[: savepoints.index(name) + 1]
            case "statement":
                log.query("DROP TABLE users" if name else "CREATE TABLE users (a INT)")
            case _:
                pass
    log.xid()

    whole, error = scanned(log, START, held_bytes_max)

    for index, item in enumerate(whole):
        left = whole[index + 1 :]
        if isinstance(item, RowsLogged):
            behind = BinlogPosition(FILE, begin, item.rows_from + 1)
        elif isinstance(item, StatementLogged):
            behind = item.end
        else:
            continue
        found, found_error = scanned(log, behind, held_bytes_max)
        assert ([each for each in found if not isinstance(each, TransactionBegan)], found_error) == (left, error)


def test_what_an_earlier_reader_passed_over_was_hidden_from_it_whatever_is_wanted_now(log: LogWriter) -> None:
    begin = log.gtid(1)
    log.table_map("users")
    log.query("SAVEPOINT `e`")
    log.rows()
    log.query("ROLLBACK TO `e`")
    log.query("SAVEPOINT `é`")
    log.query("ROLLBACK TO `e`")
    behind = log.rows()
    kept = log.rows()
    log.xid()

    items, error = scanned(log, BinlogPosition(FILE, begin, behind + 1), held_bytes_max=10)

    assert ([item.offset for item in items if isinstance(item, RowsLogged)], error) == ([kept], "")


def test_rows_that_a_reader_of_more_tables_published_cannot_be_taken_back(log: LogWriter) -> None:
    """It did not hold them back, as they were too many with those of a table that is not wanted any more."""
    begin = log.gtid(1)
    log.table_map("users")
    log.query("SAVEPOINT `s`")
    published = log.rows()
    log.query("ROLLBACK TO `s`")
    log.xid()

    _, error = scanned(log, BinlogPosition(FILE, begin, published + 1), held_bytes_max=1 << 20)

    assert "after a part of it was read" in error

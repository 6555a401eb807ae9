"""The text of a statement: whatever character set its client had, it is read as a column of that set is."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import pytest

from penstock.core.errors import LogError
from penstock.core.mysql.log.log_items import StatementLogged
from penstock.core.mysql.log.scan import EventScanner
from penstock.core.mysql.types.charsets import BYTES_PER_CHARACTER, text_decoder
from penstock.core.mysql.types.collations import BINARY, CHARSETS
from penstock.core.positions import BinlogPosition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.mysql_log.conftest import LogWriter

START = BinlogPosition("mysql-bin.000001", 4)
COLLATIONS = {
    charset: [number for _, number in group]
    for charset, group in groupby(
        sorted((charset, number) for number, charset in CHARSETS.items() if charset != BINARY), key=lambda pair: pair[0]
    )
}


def scan(log: LogWriter) -> str:
    (statement,) = EventScanner(START, lambda _: True).feed(*log.stream())
    assert isinstance(statement, StatementLogged)
    return statement.sql


def read(log: LogWriter, raw: bytes, charset: int) -> str:
    log.gtid(1, flags=1)
    log.query(raw.decode("utf-8", "surrogateescape"), charset=charset)
    return scan(log)


def characters(charset: str) -> Iterator[tuple[bytes, str]]:
    """Two bytes of each lead, and all single ones, as far as a column may have them."""
    decode = text_decoder(charset)
    raws = [bytes([first]) for first in range(0x20, 0x100)]
    raws += [bytes([first, second]) for first in range(0x81, 0xFF) for second in range(0x40, 0xFF, 3)]
    raws += [bytes([0x8F, 0xA2, 0xB7]), bytes.fromhex("8135f437"), b"\0\0\x20\xac", "日🐬".encode()]
    for raw in raws:
        try:
            yield raw, decode(raw)
        except UnicodeDecodeError:
            continue


@pytest.mark.parametrize("charset", COLLATIONS)
def test_a_statement_is_read_as_a_column_of_its_character_set(log_writer: type[LogWriter], charset: str) -> None:
    raws, meant = zip(*characters(charset), strict=True)

    for number in COLLATIONS[charset]:
        assert read(log_writer().opening(), b"".join(raws), number) == "".join(meant)


@pytest.mark.parametrize(
    ("raw", "charset", "meant"),
    [
        (b"a\xb0 \xb0\xa1b\xff", 19, "a\udcb0 가b\udcff"),
        (b"\xff'\x81", 13, "\udcff'\udc81"),
        (b"\xd0\xce\xff c", 248, "形\udcff c"),
        (b"\xe9\xff", 33, "\udce9\udcff"),
        (b"\xc3\xa9\xff", 63, "é\udcff"),
    ],
)
def test_bytes_that_are_no_text_in_it_are_kept(log: LogWriter, raw: bytes, charset: int, meant: str) -> None:
    assert read(log, raw, charset) == meant


def test_the_bytes_per_character_are_known_of_each() -> None:
    assert set(CHARSETS.values()) - {BINARY} == set(BYTES_PER_CHARACTER)


def test_ascii_needs_no_character_set(log: LogWriter) -> None:
    assert read(log, b"TRUNCATE t", 999) == "TRUNCATE t"


def test_other_text_of_a_collation_that_we_do_not_know_stops_the_log(log: LogWriter) -> None:
    log.gtid(1, flags=1)
    start = log.query("TRUNCATE é", charset=999)

    with pytest.raises(LogError, match=rf"at mysql-bin.000001:{start} .* collation 999") as caught:
        scan(log)

    assert "SET NAMES utf8mb4" in caught.value.hint

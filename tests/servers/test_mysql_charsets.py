"""Every character of every character set, as the server converts it."""

from __future__ import annotations

from contextlib import closing
from itertools import product
from typing import TYPE_CHECKING

import pytest
from tests.servers.sessions import log_in
from tests.servers.source_log import connected

from penstock.core.mysql.types.charsets import BYTES_PER_CHARACTER, text_decoder
from penstock.core.mysql.types.collations import CHARSETS
from penstock.embedded.mysql import OracleMysql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pymysql

    from penstock.embedded.mariadb import MariadbServer

_UNICODE = ("utf8mb3", "utf8mb4", "utf16", "utf16le", "utf32", "ucs2")
_BY_BYTES = tuple(name for name in BYTES_PER_CHARACTER if name not in {*_UNICODE, "gb18030"})


def _sequences(charset: str) -> Iterator[bytes]:
    yield from (bytes([byte]) for byte in range(256))
    if BYTES_PER_CHARACTER[charset] > 1:
        yield from (bytes([lead, trail]) for lead in range(0x80, 0x100) for trail in range(0x40, 0x100))
    if BYTES_PER_CHARACTER[charset] > 2:
        yield from (bytes([0x8F, row, cell]) for row in range(0xA1, 0xFF) for cell in range(0xA1, 0xFF))


@pytest.fixture(scope="module")
def connection(mariadb: MariadbServer) -> Iterator[pymysql.Connection]:
    with log_in(mariadb) as connection:
        with connection.cursor() as cursor:
            cursor.execute("CREATE OR REPLACE DATABASE charsets")
            cursor.execute("USE charsets")
            cursor.execute("SET sql_mode = '', sql_log_bin = 0")
        yield connection


@pytest.mark.parametrize("charset", _BY_BYTES)
def test_every_sequence_of_bytes_is_the_text_that_the_server_says(connection: pymysql.Connection, charset: str) -> None:
    decode = text_decoder(charset)
    with connection.cursor() as cursor:
        cursor.execute(
            f"CREATE OR REPLACE TABLE t (raw VARBINARY(4) PRIMARY KEY, v VARCHAR(4) CHARACTER SET {charset})"
        )
        cursor.executemany("INSERT IGNORE INTO t VALUES (%s, %s)", [(raw, raw) for raw in _sequences(charset)])
        cursor.execute("SELECT raw, CONVERT(v USING utf8mb4) FROM t WHERE CAST(v AS BINARY) = raw")
        said = dict(cursor.fetchall())

    assert len(said) >= 128
    assert {raw: _text(decode, raw) for raw in said} == {raw: _known(raw, text) for raw, text in said.items()}


def _gb18030_sequences() -> Iterator[bytes]:
    """All that may be in the plane of Unicode with most characters, and some beyond it."""
    yield from (bytes([byte]) for byte in range(256))
    yield from (bytes([lead, trail]) for lead in range(0x81, 0xFF) for trail in range(0x40, 0xFF))
    for first, thirds in ((0x81, 1), (0x82, 1), (0x83, 1), (0x84, 1), (0x90, 9), (0xE3, 9)):
        for second, third, fourth in product(range(0x30, 0x3A), range(0x81, 0xFF, thirds), range(0x30, 0x3A)):
            yield bytes([first, second, third, fourth])


def test_gb18030_is_the_one_of_the_year_2005(mysql_server: OracleMysql, fresh_name: str) -> None:
    replacement = bytes.fromhex("8431a437")
    decode = text_decoder("gb18030")
    with closing(connected(mysql_server)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {fresh_name}")
        cursor.execute(f"USE {fresh_name}")
        cursor.execute("SET NAMES utf8mb4, sql_mode = ''")
        cursor.execute("CREATE TABLE t (raw VARBINARY(4) PRIMARY KEY, v VARCHAR(4) CHARACTER SET gb18030)")
        rows = [(raw, raw) for raw in _gb18030_sequences() if raw != replacement]
        cursor.executemany("INSERT IGNORE INTO t VALUES (%s, %s)", rows)
        cursor.execute("SELECT raw, CONVERT(v USING utf8mb4) FROM t WHERE CAST(v AS BINARY) = raw")
        said = dict(cursor.fetchall())
        cursor.execute(f"DROP DATABASE {fresh_name}")

    assert len(said) > 60_000
    assert {raw: _text(decode, raw) for raw in said} == {raw: _known(raw, text) for raw, text in said.items()}


def _text(decode: Callable[[bytes], str], raw: bytes) -> str | None:
    try:
        return decode(raw)
    except UnicodeDecodeError:
        return None


def _known(raw: bytes, text: str) -> str | None:
    """None where the server has no character: it prints a question mark, or U+FFFD."""
    return None if (text.startswith("?") and raw[:1] != b"?") or "\ufffd" in text else text


@pytest.mark.parametrize("charset", _UNICODE)
def test_unicode_in_every_form(connection: pymysql.Connection, charset: str) -> None:
    text = "a é ह € \uffff" + ("" if charset in {"utf8mb3", "ucs2"} else "🐬 \U0010ffff")
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE OR REPLACE TABLE t (v VARCHAR(40) CHARACTER SET {charset})")
        cursor.execute("INSERT INTO t VALUES (%s)", (text,))
        cursor.execute("SELECT CAST(v AS BINARY) FROM t")
        raw = cursor.fetchall()[0][0]

    assert text_decoder(charset)(raw) == text


def test_every_collation_belongs_to_the_character_set_that_the_server_says(
    any_source: MariadbServer | OracleMysql,
) -> None:
    # MariaDB has collations with a number for each of their character sets, which only this table tells.
    table = "COLLATIONS" if isinstance(any_source, OracleMysql) else "COLLATION_CHARACTER_SET_APPLICABILITY"
    with closing(connected(any_source)) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT ID, CHARACTER_SET_NAME FROM information_schema.{table} WHERE ID IS NOT NULL")
        said = dict(cursor.fetchall())

    assert len(said) > 250
    assert {number: CHARSETS.get(number) for number in said} == said


def test_what_ucs2_does_not_have_is_refused() -> None:
    with pytest.raises(UnicodeDecodeError):
        text_decoder("ucs2")("🐬".encode("utf-16-be"))

"""What MariaDB compresses: equal to the same events uncompressed, and never more memory than there are bytes."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import CorruptLogError
from penstock.core.mysql.events.compressed import inflate
from penstock.core.mysql.log.log_items import LogItem, StatementLogged, TransactionEnded
from penstock.core.mysql.log.scan import EventScanner
from penstock.core.mysql.types.bytes_reader import MalformedError
from penstock.core.mysql.types.logged_rows import RowsLogged
from penstock.core.positions import BinlogPosition

if TYPE_CHECKING:
    from tests.unit.mysql_log.conftest import LogWriter

FILE = "mysql-bin.000001"
START = BinlogPosition(FILE, 4)


def record(plain: bytes, announced: int | None = None) -> bytes:
    length = len(plain) if announced is None else announced
    return b"\x84" + struct.pack(">I", length) + zlib.compress(plain)


def scan(log: LogWriter) -> list[LogItem]:
    return EventScanner(START, lambda table: table.name != "secret").feed(*log.stream())


@given(st.binary(max_size=3000))
def test_what_was_compressed_comes_back(plain: bytes) -> None:
    assert inflate(record(plain)) == plain


@pytest.mark.parametrize("code", range(166, 172))
def test_compressed_rows_are_the_rows(log: LogWriter, code: int) -> None:
    kind, version_two = (code - 166) % 3, code >= 169
    front = b"\x01\x01" + b"\x01" * (kind == 1)
    log.gtid(1)
    log.table_map("users")
    log.rows(front + b"\xfe\x2a\0\0\0", code=(30 if version_two else 23) + kind)
    log.compressed_rows(code, front)
    log.xid()

    first, second = (item for item in scan(log) if isinstance(item, RowsLogged))

    assert (first.op, first.payload) == (second.op, second.payload)


def test_a_compressed_statement_is_the_statement(log: LogWriter) -> None:
    sql = "ALTER TABLE users ADD note VARCHAR(200) COMMENT 'é'"
    log.gtid(1, flags=1)
    log.query(sql)
    log.gtid(2, flags=1)
    log.compressed_query(sql)

    plain, compressed = (item for item in scan(log) if isinstance(item, StatementLogged))

    assert (plain.sql, plain.default_schema) == (compressed.sql, compressed.default_schema)


def test_compressed_rows_of_a_table_that_nobody_wants_are_not_even_looked_at(log: LogWriter) -> None:
    log.gtid(1)
    log.table_map("secret")
    log.rows(b"nonsense", code=166)
    log.xid()

    assert [type(item) for item in scan(log)] == [TransactionEnded]


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"\x00" + record(b"x")[1:],
        b"\x94" + record(b"x")[1:],
        b"\x80" + record(b"x")[1:],
        b"\x85" + record(b"x")[1:],
        record(b"x" * 100)[:-1],
        record(b"x" * 100) + b"?",
        record(b"x", announced=2),
        record(b"xx", announced=1),
        record(b"x", announced=(1 << 30) + 1),
        b"\x81\x01nonsense",
    ],
)
def test_damaged_compression_is_an_error_with_its_place(log: LogWriter, damaged: bytes) -> None:
    with pytest.raises(MalformedError):
        inflate(damaged)
    log.gtid(1)
    log.table_map("users")
    start = log.rows(b"\x01\x01" + damaged, code=166)

    with pytest.raises(CorruptLogError, match=f"{FILE}:{start}"):
        scan(log)


@pytest.mark.parametrize(("size", "announced"), [(100, 1 << 30), (100 << 20, 10)])
def test_a_length_that_is_a_lie_allocates_nothing(size: int, announced: int) -> None:
    lie = record(b"x" * size, announced)
    tracemalloc.start()

    with pytest.raises(MalformedError, match=f"announces {announced}"):
        inflate(lie)

    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1 << 20

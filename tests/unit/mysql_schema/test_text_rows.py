"""Rows of a result set: columns of bytes, as they were put into packets, and nothing that is no row."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.mysql.types.bytes_reader import MalformedError
from penstock.core.mysql.types.text_rows import PrintedRows, find_rows, read_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

VALUES = st.one_of(
    st.none(), st.binary(max_size=20), st.integers(245, 260).map(bytes), st.integers(65530, 65540).map(bytes)
)
ROWS = st.integers(1, 4).flatmap(lambda columns: st.lists(st.tuples(*[VALUES] * columns), min_size=1, max_size=6))
END = b"\xfe\0\0\x02\0"
ERROR = b"\xff\x28\x04#70100interrupted"


def written(value: bytes | None, *, longest: bool = False) -> bytes:
    """A length-encoded string; `longest` has its length in 8 bytes."""
    if value is None:
        return b"\xfb"
    if longest:
        return b"\xfe" + struct.pack("<Q", len(value)) + value
    if len(value) < 251:
        return bytes([len(value)]) + value
    short = len(value) < 1 << 16
    return (b"\xfc" if short else b"\xfd") + struct.pack("<I", len(value))[: 2 if short else 3] + value


def packet(content: bytes, sequence: int = 0) -> bytes:
    return struct.pack("<I", len(content) | sequence << 24) + content


def packets(rows: Sequence[tuple[bytes | None, ...]]) -> bytes:
    return b"".join(packet(b"".join(map(written, row)), (3 + n) % 256) for n, row in enumerate(rows))


@given(ROWS, st.integers(1, 7), st.sampled_from([b"", b"\x05", b"\x20\0\0\x07half", packet(END), packet(ERROR)]))
def test_rows_are_read_as_they_were_written_and_what_follows_is_left(
    rows: list[tuple[bytes | None, ...]], rows_max: int, behind: bytes
) -> None:
    found = find_rows(packets(rows) + behind, rows_max)

    read = read_rows(packets(rows) + behind, found, len(rows[0]))

    assert [read.row(n) for n in range(len(read))] == rows[:rows_max]
    assert found.end == len(packets(rows[:rows_max]))
    assert found.sequence == (2 + min(len(rows), rows_max)) % 256


@pytest.mark.parametrize(
    "begin", [b"", b"\x01", packet(END), packet(ERROR), b"\xff\xff\xff\0" + bytes(100), b"\x09\0\0\0abc"]
)
def test_where_no_whole_row_stands_there_is_none(begin: bytes) -> None:
    assert find_rows(begin, 10).starts == ()


def test_a_length_may_have_eight_bytes() -> None:
    buffer = packet(written(b"abc", longest=True) + written(b"d"))

    assert read_rows(buffer, find_rows(buffer, 1), 2).row(-1) == (b"abc", b"d")


@given(st.binary(min_size=1, max_size=40), st.integers(1, 4), st.integers(1, 3))
def test_damaged_rows_are_refused_or_read_within_their_packet(content: bytes, columns: int, copies: int) -> None:
    buffer = packet(content) * copies
    found = find_rows(buffer, copies)

    try:
        read = read_rows(buffer, found, columns) if found.starts else PrintedRows(())
    except MalformedError:
        return
    for n in range(len(read)):
        assert sum(len(value or b"") for value in read.row(n)) < len(content)


def test_a_value_that_begins_like_an_error_is_refused() -> None:
    buffer = packet(written(b"a") + b"\xff" + bytes(255))

    with pytest.raises(MalformedError):
        read_rows(buffer, find_rows(buffer, 1), 2)


def test_parts_are_joined_in_their_order() -> None:
    parts = [PrintedRows.of([(b"1", None)]), PrintedRows.of([(b"2", b"b"), (None, b"c")])]

    joined = PrintedRows.joined(parts)

    assert [joined.row(n) for n in range(3)] == [(b"1", None), (b"2", b"b"), (None, b"c")]
    assert len(PrintedRows(())) == 0

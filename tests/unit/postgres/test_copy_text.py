"""What COPY is sent."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa

from penstock.adapters.postgres.copy_text import render_csv
from penstock.core.printed_arrays import hexadecimal


def test_bytes_of_a_slice_are_its_own() -> None:
    array = pa.array([b"one", None, b"", b"four", b"five"], pa.binary())

    assert isinstance(array, pa.BinaryArray)
    assert hexadecimal(array.slice(1, 3)).to_pylist() == [None, "", "666f7572"]


def test_null_is_nothing_and_an_empty_text_is_quoted() -> None:
    rows = pa.table({
        "text": ["", None, 'say "hi"', "a,b\nc"],
        "bytes": pa.array([b"\x00\xff", b"", None, b"x"], pa.binary()),
        "span": pa.array([dt.timedelta(seconds=-1), None, None, None], pa.duration("us")),
        "list": pa.array([[1.5, 2.0], [], None, None], pa.list_(pa.float32())),
        "number": [Decimal("1.50"), None, None, None],
    })  # fmt: skip

    assert b"".join(render_csv(rows)).decode() == (
        '"","\\x00ff","-1 s 0 us","{1.5,2}",1.50\n,"\\x",,"{}",\n"say ""hi""",,,,\n"a,b\nc","\\x78",,,\n'
    )


def test_no_number_of_an_interval_is_too_large_for_an_older_server() -> None:
    most = (838 * 3600 + 59 * 60 + 59) * 1_000_000 + 999_999
    rows = pa.table({"span": pa.array([most, -most, -1, 86_399_000_000, 0, None], pa.duration("us"))})

    texts = b"".join(render_csv(rows)).decode().replace('"', "").splitlines()

    assert texts == ["3020399 s 999999 us", "-3020399 s -999999 us", "0 s -1 us", "86399 s 0 us", "0 s 0 us", ""]
    assert all(abs(int(number)) < 2**31 for text in texts for number in text.split()[::2])


def test_many_rows_come_in_parts_and_in_order() -> None:
    numbers = range(40_000)
    rows = pa.concat_tables([pa.table({"n": numbers[:100]}), pa.table({"n": numbers[100:]})])

    parts = [bytes(part) for part in render_csv(rows)]

    assert b"".join(parts).decode().split() == [str(number) for number in numbers]
    assert len(parts) == 3

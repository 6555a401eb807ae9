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

    assert render_csv(rows).to_pybytes().decode() == (
        '"","\\x00ff","-1000000 us","{1.5,2}",1.50\n,"\\x",,"{}",\n"say ""hi""",,,,\n"a,b\nc","\\x78",,,\n'
    )

"""Join keys as people write and read them."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.arrow_types import arrow_type
from penstock.core.errors import UsageError
from penstock.core.joins.keys import key_bytes
from penstock.core.joins.shown_keys import parse_key, show_key
from penstock.core.tables import BytesType, DateType, DecimalType, IntegerType, TextType, TimeType

if TYPE_CHECKING:
    from penstock.core.tables import ColumnType

_NUMBER, _TEXT = IntegerType(64, unsigned=False), TextType(20, "utf8mb4")


def key_of(types: list[ColumnType], values: list[Any]) -> bytes:
    columns = [pa.array([value], arrow_type(type_)) for type_, value in zip(types, values, strict=True)]
    return bytes(key_bytes(columns)[0].as_py())


@given(
    number=st.integers(-(2**63), 2**63 - 1),
    day=st.dates(date(1000, 1, 1)),
    amount=st.integers(-(10**8) + 1, 10**8 - 1),
    time=st.timedeltas(timedelta(hours=-838), timedelta(hours=838)),
    octets=st.binary(max_size=9),
    text=st.text(st.characters(exclude_categories=["Cs"]), max_size=9),
)
def test_a_key_that_is_shown_is_read_as_the_same_key(
    number: int, day: date, amount: int, time: timedelta, octets: bytes, text: str
) -> None:
    types: list[ColumnType] = [_NUMBER, DateType(), DecimalType(8, 2), TimeType(6), BytesType(9, fixed=False), _TEXT]
    key = key_of(types, [number, day, Decimal(amount).scaleb(-2), time, octets, text])

    assert parse_key(types, show_key(types, key)) == key


def test_times_are_written_as_in_sql() -> None:
    types: list[ColumnType] = [TimeType(0), TimeType(3)]
    key = key_of(types, [timedelta(hours=-1), timedelta(hours=34, milliseconds=1500)])

    assert show_key(types, key) == "-01:00:00,34:00:01.5"
    assert parse_key(types, "-01:00:00,34:00:01.500") == key


@pytest.mark.parametrize("text", ["1", "x,y"])
def test_what_is_no_key_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_key([_NUMBER, _TEXT], text)

    assert refused.value.hint.startswith(("give every value", "write numbers"))

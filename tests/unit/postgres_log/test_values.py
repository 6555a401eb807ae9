"""Values as PostgreSQL prints them."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.postgres import types
from penstock.core.postgres.array_text import print_array, print_number, print_text
from penstock.core.postgres.bad_values import BadValueError
from penstock.core.postgres.types import TypeInfo, column_type, declaration, find_type
from penstock.core.postgres.values import Value, value_reader
from penstock.core.tables import DateTimeType, DecimalType, IntegerType, PrintedType, TextType, TimeType

_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - moments without a zone
_CATALOG = {
    types.INT4: TypeInfo("int4"),
    types.TEXT: TypeInfo("text"),
    types.NUMERIC: TypeInfo("numeric"),
    1007: TypeInfo("_int4", element=types.INT4),
    20001: TypeInfo("mood", "e"),
    20002: TypeInfo("money_amount", "d", below=types.NUMERIC, modifier=(10 << 16 | 2) + 4),
    20003: TypeInfo("small_amount", "d", below=20002),
    20004: TypeInfo("citext"),
    20005: TypeInfo("hstore"),
}


def _read(oid: int, text: str, modifier: int = -1) -> Value:
    found = find_type(oid, modifier, _CATALOG)
    return value_reader(found, column_type(found), _CATALOG)(text.encode())


@given(st.datetimes())
def test_a_timestamp_is_microseconds_since_1970(moment: dt.datetime) -> None:
    printed = moment.isoformat(sep=" ").rstrip("0") if moment.microsecond else moment.isoformat(sep=" ")

    microseconds = (moment - _EPOCH) // dt.timedelta(microseconds=1)

    assert _read(types.TIMESTAMP, printed) == microseconds
    assert _read(types.TIMESTAMPTZ, f"{printed}+00") == microseconds


@given(st.dates())
def test_a_date_is_days_since_1970(day: dt.date) -> None:
    assert _read(types.DATE, day.isoformat()) == (day - _EPOCH.date()).days


@pytest.mark.parametrize("text", ["infinity", "-infinity", "0044-03-15 BC", "10000-01-01", "2024-02-30"])
def test_dates_that_our_calendar_lacks_are_refused_with_what_to_do(text: str) -> None:
    with pytest.raises(BadValueError, match="1 to 9999") as refused:
        _read(types.DATE, text)

    assert "special_values: text" in refused.value.hint


@pytest.mark.parametrize("text", ["infinity", "0044-03-15 12:00:00 BC", "294276-12-31 23:59:59.999999"])
def test_moments_that_our_calendar_lacks_are_refused(text: str) -> None:
    with pytest.raises(BadValueError):
        _read(types.TIMESTAMP, text)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_a_limited_numeric_that_is_no_number_is_refused_and_an_unlimited_one_is_text(text: str) -> None:
    with pytest.raises(BadValueError):
        _read(types.NUMERIC, text, (10 << 16 | 2) + 4)

    assert _read(types.NUMERIC, text) == text


def test_values_are_read_as_the_server_prints_them() -> None:
    assert _read(types.BOOL, "t") == 1
    assert _read(types.BOOL, "f") == 0
    assert _read(types.INT8, "-9223372036854775808") == -(2**63)
    assert _read(types.BYTEA, r"\x00ff") == b"\x00\xff"
    assert _read(types.NUMERIC, "-0.10", (10 << 16 | 2) + 4) == Decimal("-0.10")
    assert _read(types.TIME, "24:00:00") == 86_400_000_000
    assert _read(types.FLOAT8, "-Infinity") == float("-inf")
    assert _read(types.BPCHAR, "ab   ", 9) == "ab   "


def test_types_are_those_below_domains_and_have_their_modifiers() -> None:
    def carried(oid: int, modifier: int = -1) -> object:
        return column_type(find_type(oid, modifier, _CATALOG))

    assert carried(20002) == carried(20003) == DecimalType(10, 2)
    assert carried(types.NUMERIC) == PrintedType("postgres")
    assert carried(types.NUMERIC, (2 << 16 | (-3 & 0x7FF)) + 4) == DecimalType(5, 0)
    assert carried(types.NUMERIC, (3 << 16 | 5) + 4) == DecimalType(5, 5)
    assert carried(types.NUMERIC, (100 << 16 | 5) + 4) == PrintedType("postgres")
    assert carried(types.VARCHAR, 68) == TextType(64, "utf8mb4")
    assert carried(types.TIMESTAMP, 3) == DateTimeType(3)
    assert carried(types.TIME) == TimeType(6)
    assert carried(types.OID) == IntegerType(32, unsigned=True)
    assert carried(20001) == TextType(63, "utf8mb4")
    assert carried(1007) == PrintedType("json")
    assert carried(20005) == carried(999_999) == PrintedType("postgres")


def test_columns_that_are_carried_as_text_by_policy_are() -> None:
    for oid in (types.NUMERIC, types.DATE, types.TIMESTAMP, types.TIMESTAMPTZ):
        assert column_type(find_type(oid, (10 << 16 | 2) + 4, _CATALOG), "text") == PrintedType("postgres")


def test_a_declaration_is_as_a_create_table_has_it() -> None:
    def declared(oid: int, modifier: int = -1) -> str:
        return declaration(find_type(oid, modifier, _CATALOG))

    assert declared(types.NUMERIC, (10 << 16 | 2) + 4) == "numeric(10,2)"
    assert declared(types.VARCHAR, 68) == "character varying(64)"
    assert declared(1007) == "int4[]"
    assert declared(20001) == "mood"


_ELEMENTS = st.recursive(st.none() | st.text(), lambda inner: st.lists(inner, min_size=1, max_size=3), max_leaves=8)


def _printed(element: object) -> str:
    if element is None:
        return "NULL"
    if isinstance(element, list):
        return "{" + ",".join(map(_printed, element)) + "}"
    return '"' + str(element).replace("\\", "\\\\").replace('"', '\\"') + '"'


@given(st.lists(_ELEMENTS, max_size=4))
def test_an_array_becomes_the_same_array_in_json(elements: list[object]) -> None:
    assert json.loads(print_array(_printed(elements), print_text)) == elements


def test_arrays_have_their_elements_as_json_has_them() -> None:
    assert print_array("{1,-2.50,NaN,NULL}", print_number) == '[1,-2.50,"NaN",null]'
    assert print_array('{{a,"b c"},{"NULL",NULL}}', print_text) == '[["a","b c"],["NULL",null]]'
    assert print_array("{}", print_text) == "[]"
    assert print_array("{(1,1),(0,0);(2,2),(1,1)}", print_text, ";") == '["(1,1),(0,0)","(2,2),(1,1)"]'


@pytest.mark.parametrize("text", ["[0:1]={1,2}", "{1,2", "1,2", "", "{1}}"])
def test_what_json_cannot_say_of_an_array_is_refused(text: str) -> None:
    with pytest.raises(BadValueError):
        print_array(text, print_number)

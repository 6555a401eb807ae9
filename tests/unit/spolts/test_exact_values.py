"""What the codec alone would write otherwise than it is given: refused, or written into the branch that holds it."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.spolts.avro_records import AvroRecords

EAST = timezone(timedelta(hours=2))
NAIVE = datetime(2024, 1, 31, 23, 59, 1, 123456)  # noqa: DTZ001 - that it has no zone is the point
DATE = {"type": "int", "logicalType": "date"}
TIME_MILLIS = {"type": "int", "logicalType": "time-millis"}
TIME_MICROS = {"type": "long", "logicalType": "time-micros"}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
LOCAL_MILLIS = {"type": "long", "logicalType": "local-timestamp-millis"}
LOCAL_MICROS = {"type": "long", "logicalType": "local-timestamp-micros"}
WHOLE = {"type": "bytes", "logicalType": "decimal", "precision": 20}
ODD = 2**60 + 1
RECORD = {"type": "record", "name": "Inner", "fields": [{"name": "at", "type": MICROS}]}


def codec(type_: object) -> AvroRecords:
    return AvroRecords(json.dumps({"type": "record", "name": "R", "fields": [{"name": "field", "type": type_}]}))


@pytest.mark.parametrize(
    ("type_", "value", "told"),
    [
        (DATE, NAIVE, "has a time, and the schema wants a date"),
        (DATE, NAIVE.astimezone(EAST), "has a time"),
        (TIME_MILLIS, time(1, 2, 3, 4567), "has microseconds"),
        (MILLIS, NAIVE.replace(tzinfo=UTC), "has microseconds"),
        (LOCAL_MILLIS, NAIVE, "has microseconds"),
        (MILLIS, NAIVE.replace(microsecond=0), "no time zone"),
        (LOCAL_MILLIS, NAIVE.replace(microsecond=0, tzinfo=EAST), "has a time zone"),
        (LOCAL_MICROS, NAIVE.replace(tzinfo=EAST), "has a time zone"),
        (TIME_MICROS, time(1, 2, 3, tzinfo=EAST), "has a time zone"),
        ("double", ODD, "no 64-bit float holds 1152921504606846977"),
        ("double", 10**400, "no 64-bit float"),
        ("float", 2**31 + 1, "no 32-bit float holds 2147483649"),
        ("float", 10**39, "no 32-bit float"),
        (["null", "double"], ODD, "no 64-bit float"),
        (["null", "string", MICROS], NAIVE, "no time zone"),
        (["null", "string", DATE], NAIVE, "has a time"),
        (["null", "string", "double"], ODD, "no 64-bit float"),
        (["null", "double", "long"], ("double", ODD), "no 64-bit float"),
        (["null", "string", {"type": "array", "items": MICROS}], [NAIVE], "no time zone"),
        (["null", "string", {"type": "map", "values": MICROS}], {"a": NAIVE}, "no time zone"),
        (["null", "string", RECORD], {"at": NAIVE}, "at: .* has no time zone"),
        (["null", "string", RECORD], {"-type": "Inner", "at": NAIVE}, "at: .* has no time zone"),
    ],
)
def test_what_a_type_has_no_room_for_is_refused_with_its_field(type_: object, value: object, told: str) -> None:
    with pytest.raises(ValueError, match=rf"field: .*{told}"):
        codec(type_).encode({"field": value})


@pytest.mark.parametrize(
    ("type_", "value", "read"),
    [
        (DATE, date(2024, 1, 31), date(2024, 1, 31)),
        (MILLIS, NAIVE.replace(microsecond=123000, tzinfo=EAST), NAIVE.replace(microsecond=123000, tzinfo=EAST)),
        (LOCAL_MICROS, NAIVE, NAIVE),
        ("double", 2**60, 2.0**60),
        ("float", 3, 3.0),
        ("float", 0.1, pytest.approx(0.1)),
        (["null", "double", "long"], ODD, ODD),
        (["null", "float", "string", "long"], ODD, ODD),
        (["null", "double", "long"], 1.5, 1.5),
        (["null", "float", "double"], 0.1, 0.1),
        (["null", "float", "double"], 1e39, 1e39),
        (["null", "float", "double"], 2**31 + 1, 2.0**31 + 1),
        (["null", "string", MICROS], NAIVE.replace(tzinfo=UTC), NAIVE.replace(tzinfo=UTC)),
        (["null", WHOLE], 5, 5),
        (["null", "string", WHOLE], Decimal(5), Decimal(5)),
        (["null", "double", RECORD], {"at": NAIVE.replace(tzinfo=UTC)}, {"at": NAIVE.replace(tzinfo=UTC)}),
    ],
)
def test_what_a_type_has_room_for_comes_back(type_: object, value: object, read: object) -> None:
    records = codec(type_)

    assert records.decode(records.encode({"field": value})) == {"field": read}


_numbers = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)


@given(st.permutations(["float", "double", "int", "long"]), _numbers)
def test_a_number_in_a_union_is_never_rounded(branches: list[str], number: float) -> None:
    records = codec(["null", *branches])

    assert records.decode(records.encode({"field": number})) == {"field": number}

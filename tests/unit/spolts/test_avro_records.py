"""Records by schemas of any kind: what goes in comes out, and what would not is refused."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.avro_types import parse_avro
from penstock.core.spolts.arrow_schemas import arrow_of_avro, avro_of_arrow, key_avro_of_value
from penstock.core.spolts.avro_records import AvroRecords


def _schema(*fields: pa.Field[Any]) -> pa.Schema:
    return pa.schema(fields)


_TYPES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.uint16(): st.integers(0, 2**16 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.uint32(): st.integers(0, 2**32 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): st.text(st.characters(codec="utf-8"), max_size=9),
    pa.binary(): st.binary(max_size=9),
    pa.date32(): st.dates(),
    pa.time64("us"): st.times(),
    pa.timestamp("us"): st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),  # noqa: DTZ001 - without a zone
    pa.timestamp("us", "UTC"): st.datetimes(
        datetime(1, 1, 2),  # noqa: DTZ001 - hypothesis adds the zone
        datetime(9999, 12, 30),  # noqa: DTZ001
        timezones=st.just(UTC),
    ),
    pa.decimal128(9, 2): st.integers(-(10**9) + 1, 10**9 - 1).map(lambda number: Decimal(number).scaleb(-2)),
    pa.decimal128(30, 0): st.integers(-(10**28) + 1, 10**28 - 1),
}
_fields = st.sampled_from(list(_TYPES)).flatmap(
    lambda type_: st.one_of(
        st.tuples(st.just(type_), st.none() | _TYPES[type_]),
        st.tuples(st.just(pa.list_(type_)), st.none() | st.lists(st.none() | _TYPES[type_], max_size=3)),
        st.tuples(
            st.just(pa.map_(pa.string(), type_)),
            st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=3), _TYPES[type_], max_size=3),
        ),
        st.tuples(st.just(pa.struct([("inner", type_)])), st.none() | st.fixed_dictionaries({"inner": _TYPES[type_]})),
    )
)


@given(st.lists(_fields, min_size=1, max_size=5))
def test_a_record_of_an_arrow_schema_comes_back_as_it_was(fields: list[tuple[pa.DataType, Any]]) -> None:
    schema = pa.schema(pa.field(f"f{index}", type_) for index, (type_, _) in enumerate(fields))
    record = {f"f{index}": value for index, (_, value) in enumerate(fields)}
    text = avro_of_arrow("a.topic", schema)
    codec = AvroRecords(text)

    decoded = codec.decode(codec.encode(record))

    assert decoded == record
    parsed = parse_avro(text)
    struct = arrow_of_avro(parsed.root, parsed)
    assert _listed(decoded, struct) == [record]


def _listed(value: object, type_: pa.DataType) -> list[object]:
    rows = pa.RecordBatch.from_arrays([cast("pa.Array[Any]", pa.array([value], type_))], names=["value"])
    return [row["value"] for row in rows.to_pylist(maps_as_pydicts="strict")]


@pytest.mark.parametrize(
    ("type_", "value", "told"),
    [
        ("int", 2**31, "expected int"),
        ("long", 2**63, "expected long"),
        ("long", True, "expected long"),
        ("long", 1.0, "expected long"),
        ("long", None, "expected long"),
        ("string", 5, "expected string"),
        ("string", "\ud800", "surrogates"),
        ("bytes", "text", "expected bytes"),
        ("float", 1e39, "no 32-bit float holds 1e\\+39"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, Decimal("1.234"), "Scale"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, Decimal("123.45"), "precision"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, 1, "expected"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4}, 12345, "precision"),
        ({"type": "long", "logicalType": "timestamp-micros"}, datetime(2024, 1, 1), "no time zone"),  # noqa: DTZ001
        (["null", {"type": "array", "items": "float"}], [1e39], "no 32-bit float"),
        ({"type": "map", "values": "float"}, {"a": 1e39}, "no 32-bit float"),
    ],
)
def test_a_value_that_would_be_written_as_another_is_refused_with_its_field(
    type_: object, value: object, told: str
) -> None:
    codec = AvroRecords(json.dumps({"type": "record", "name": "R", "fields": [{"name": "field", "type": type_}]}))

    with pytest.raises(ValueError, match=told):
        codec.encode({"field": value})


def test_a_field_that_is_left_out_has_its_default_and_an_unknown_one_is_refused() -> None:
    text = avro_of_arrow("t", _schema(pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.string())))
    codec = AvroRecords(text)

    assert codec.decode(codec.encode({"a": 1})) == {"a": 1, "b": None}
    with pytest.raises(ValueError, match=r"Field\(.*a\) is None"):
        codec.encode({"b": "x"})
    with pytest.raises(ValueError, match="more fields than the schema specifies: c"):
        codec.encode({"a": 1, "c": 2})


@pytest.mark.parametrize("content", [b"", b"\x02", b"\x02\x02a\x00", b"\x02\x06a"])
def test_bytes_that_are_too_few_or_too_many_do_not_decode(content: bytes) -> None:
    codec = AvroRecords(
        avro_of_arrow("t", _schema(pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.string())))
    )

    with pytest.raises(ValueError, match=r"do not decode|left over"):
        codec.decode(content)


@pytest.mark.parametrize(
    "type_", [pa.null(), pa.duration("us"), pa.timestamp("ns"), pa.decimal128(3, -2), pa.float16()]
)
def test_a_type_that_avro_has_not_is_refused_with_its_field(type_: pa.DataType) -> None:
    with pytest.raises(ValueError, match="inner: Avro has no type"):
        avro_of_arrow("t", pa.schema([("outer", pa.struct([("inner", type_)]))]))


def test_a_record_that_holds_records_of_its_own_kind_goes_through() -> None:
    number = {"type": "bytes", "logicalType": "decimal", "precision": 20}
    fields = [{"name": "number", "type": number}, {"name": "next", "type": ["null", "Node"]}]
    codec = AvroRecords(json.dumps({"type": "record", "name": "Node", "fields": fields}))
    nodes = {"number": 1, "next": {"number": 2**63, "next": None}}

    assert codec.decode(codec.encode(nodes)) == nodes


def test_moments_of_other_zones_and_dates_keep_their_meaning() -> None:
    schema = _schema(
        pa.field("at", pa.timestamp("us", "UTC")), pa.field("on", pa.date32()), pa.field("o", pa.time64("us"))
    )
    codec = AvroRecords(avro_of_arrow("t", schema))
    at = datetime.fromisoformat("2024-05-01T12:00:00.000001+02:00")

    decoded = codec.decode(codec.encode({"at": at, "on": date(2024, 2, 29), "o": time(1, 2, 3, 4)}))

    assert decoded == {"at": at, "on": date(2024, 2, 29), "o": time(1, 2, 3, 4)}


def test_a_key_is_made_of_fields_of_the_value_that_are_never_null() -> None:
    value = avro_of_arrow("t", _schema(pa.field("a", pa.int64()), pa.field("b", pa.string())))

    key = AvroRecords(key_avro_of_value("t", value, ["a"]))

    assert key.decode(key.encode({"a": 5})) == {"a": 5}
    with pytest.raises(ValueError, match="expected"):
        key.encode({"a": None})
    with pytest.raises(ValueError, match="no field c for the key; it has: a, b"):
        key_avro_of_value("t", value, ["c"])

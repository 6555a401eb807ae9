"""Which schemas may share a topic."""

from __future__ import annotations

import io
import json
import string
from typing import TYPE_CHECKING, Any, TypeAlias

import fastavro
import pytest
from fastavro.read import SchemaResolutionError
from hypothesis import event, given
from hypothesis import strategies as st

from penstock.core.avro_types import AvroSchema, parse_avro
from penstock.core.compatibility import Reading, mutual_problems, reading_problems, same_encoding

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

# Schemas are drawn, written out and taken apart here; fastavro does not type them either.
Json: TypeAlias = Any

DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}


def schema(declared: Json) -> AvroSchema:
    return parse_avro(json.dumps(declared))


def row(*fields: Json) -> Json:
    return {"type": "record", "name": "shop.Row", "fields": fields}


def field(name: str, type_: Json, **more: Json) -> Json:
    return {"name": name, "type": type_, **more}


def test_large_enums_and_records_are_compared_and_what_is_entangled_is_refused() -> None:
    labels = [f"L{number}" for number in range(20_000)]
    enum = {"type": "enum", "name": "E", "symbols": labels}
    fields = [field(f"f{number}", "int") for number in range(5_000)]
    first, second = (
        schema([{"type": "fixed", "name": f"F{number}", "size": 1} for number in numbers])
        for numbers in (range(500), range(500, 1000))
    )

    assert reading_problems(schema(enum), schema({**enum, "symbols": labels[::-1]})) == ()
    assert reading_problems(schema(row(*fields)), schema(row(*fields[::-1]))) == ()
    (problem,) = reading_problems(first, second)
    assert "too entangled" in problem


def test_a_schema_is_compatible_with_itself() -> None:
    same = schema(row(field("id", "long"), field("price", DECIMAL)))

    assert mutual_problems(same, same) == ()


def test_a_nullable_field_can_come_and_go() -> None:
    with_note = schema(row(field("id", "long"), field("note", ["null", "string"], default=None)))
    without = schema(row(field("id", "long")))

    assert mutual_problems(with_note, without) == ()
    assert mutual_problems(without, with_note) == ()


def test_a_field_without_a_default_cannot_come() -> None:
    problems = mutual_problems(
        schema(row(field("id", "long"), field("note", "string"))), schema(row(field("id", "long")))
    )

    assert problems == ("new reads old: note: the writer lacks the field, and the reader has no default for it",)


def test_a_wider_number_reads_the_narrower_one_and_not_the_other_way_round() -> None:
    wide, narrow = schema(row(field("n", "long"))), schema(row(field("n", "int")))

    assert reading_problems(wide, narrow) == ()
    assert reading_problems(narrow, wide) == ("n: long is not readable as int",)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (DECIMAL, {**DECIMAL, "precision": 12}),
        (DECIMAL, {**DECIMAL, "scale": 3}),
        (DECIMAL, "bytes"),
        ("long", {"type": "long", "logicalType": "timestamp-micros"}),
        ({"type": "long", "logicalType": "timestamp-millis"}, {"type": "long", "logicalType": "timestamp-micros"}),
        ({"type": "int", "logicalType": "date"}, "int"),
        ("string", "bytes"),
        ("int", ["null", "int"]),
        ("int", "string"),
        ({"type": "fixed", "name": "F", "size": 4}, {"type": "fixed", "name": "F", "size": 5}),
        (
            {"type": "enum", "name": "E", "symbols": ["A", "B"], "default": "A"},
            {"type": "enum", "name": "E", "symbols": ["A"], "default": "A"},
        ),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, {"type": "enum", "name": "F", "symbols": ["A"]}),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}),
        ({"type": "map", "values": "int"}, {"type": "array", "items": "int"}),
    ],
)
def test_what_would_not_come_out_equal_is_incompatible_both_ways(old: Json, new: Json) -> None:
    assert mutual_problems(schema(row(field("x", new))), schema(row(field("x", old))))
    assert mutual_problems(schema(row(field("x", old))), schema(row(field("x", new))))


def test_plain_avro_reading_lets_logical_types_and_enum_defaults_pass() -> None:
    old = row(field("t", "long"), field("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}))
    new = row(
        field("t", {"type": "long", "logicalType": "timestamp-micros"}),
        field("e", {"type": "enum", "name": "E", "symbols": ["A"], "default": "A"}),
    )

    assert reading_problems(schema(new), schema(old), Reading.AVRO) == ()
    assert len(reading_problems(schema(new), schema(old), Reading.EXACT)) == 2


def test_decimals_of_another_scale_are_never_readable() -> None:
    assert reading_problems(schema(DECIMAL), schema({**DECIMAL, "scale": 3}), Reading.AVRO)


def test_a_field_is_found_by_its_alias() -> None:
    renamed = schema(row(field("total", "long", aliases=["amount"])))

    assert reading_problems(renamed, schema(row(field("amount", "long")))) == ()


def test_a_problem_deep_inside_is_named_by_its_path() -> None:
    def nested(type_: Json) -> AvroSchema:
        return schema(row(field("before", ["null", {"type": "array", "items": row(field("x", type_))}])))

    with pytest.raises(ValueError, match="declared twice"):
        nested("int")
    inner = {"type": "record", "name": "Inner", "fields": [field("x", "string")]}
    other = {"type": "record", "name": "Inner", "fields": [field("x", "int")]}
    old = schema(row(field("before", ["null", {"type": "array", "items": inner}])))
    new = schema(row(field("before", ["null", {"type": "array", "items": other}])))

    assert reading_problems(new, old) == ("before[].x: string is not readable as int",)


def test_a_schema_that_contains_itself_is_compared_once() -> None:
    chain = schema(row(field("next", ["null", "shop.Row"], default=None)))

    assert mutual_problems(chain, chain) == ()
    assert same_encoding(chain, chain)


def test_a_key_encodes_the_same_whatever_is_said_about_it() -> None:
    plain = schema(row(field("id", "long")))

    assert same_encoding(plain, schema(row(field("id", "long", doc="the order", default=0))))
    assert not same_encoding(plain, schema(row(field("id", "int"))))
    assert not same_encoding(plain, schema(row(field("nr", "long"))))
    assert not same_encoding(plain, schema(row(field("id", {"type": "long", "logicalType": "timestamp-micros"}))))


def test_a_key_in_another_order_encodes_otherwise() -> None:
    one, other = field("a", "int"), field("b", "int")

    assert not same_encoding(schema(row(one, other)), schema(row(other, one)))


PRIMITIVES: dict[str, SearchStrategy[object]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=5),
    "string": st.text(max_size=5),
}
LOGICAL: list[Json] = [
    {"type": "int", "logicalType": "date"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "timestamp-millis"},
    DECIMAL,
    {**DECIMAL, "scale": 4},
]


@st.composite
def declarations(draw: st.DrawFn, depth: int = 2, names: list[str] | None = None) -> Json:  # noqa: PLR0911 - one return per kind
    """A schema; names of records, enums and fields come from small sets, so that pairs have much in common."""
    names = list(string.ascii_uppercase) if names is None else names
    kind = draw(
        st.sampled_from(["primitive"] * 3 + ["logical", "enum", "fixed"] + ["record", "array", "union"] * depth)
    )
    match kind:
        case "logical":
            return draw(st.sampled_from(LOGICAL))
        case "enum":
            symbols = draw(st.lists(st.sampled_from("ABC"), min_size=1, unique=True))
            default: Json = {"default": symbols[0]} if draw(st.booleans()) else {}
            return {"type": "enum", "name": names.pop(0), "symbols": symbols, **dict(default)}
        case "fixed":
            return {"type": "fixed", "name": names.pop(0), "size": draw(st.integers(1, 2))}
        case "record":
            name = names.pop(0)
            fields = [
                draw(fields_of(depth - 1, names, each))
                for each in draw(st.lists(st.sampled_from("xyz"), min_size=1, unique=True))
            ]
            return {"type": "record", "name": name, "fields": fields}
        case "array":
            return {"type": "array", "items": draw(declarations(depth - 1, names))}
        case "union":
            branches: list[Json] = list(draw(st.lists(st.sampled_from(list(PRIMITIVES)), min_size=1, unique=True)))
            return branches
        case _:
            return draw(st.sampled_from(list(PRIMITIVES)))


@st.composite
def fields_of(draw: st.DrawFn, depth: int, names: list[str], name: str) -> Json:
    if draw(st.booleans()):
        return field(name, ["null", draw(st.sampled_from(["int", "long", "string"]))], default=None)
    return field(name, draw(declarations(depth, names)))


@st.composite
def evolved(draw: st.DrawFn) -> tuple[Json, Json]:
    """Two versions of one record: of each column neither, one or both have it, of the same type or another."""
    versions: tuple[list[Json], list[Json]] = ([], [])
    for name in "xyzw":
        # Each column has names of its own for its types: a name may be declared once in a schema.
        names = [f"{name}{letter}" for letter in string.ascii_uppercase]
        first = draw(fields_of(1, names.copy(), name))
        second = first if draw(st.booleans()) else draw(fields_of(1, names.copy(), name))
        for version, each in zip(versions, (first, second), strict=True):
            if draw(st.integers(0, 4)):
                version.append(each)
    return row(*versions[0]), row(*draw(st.permutations(versions[1])))


def values(declared: Json) -> SearchStrategy[object]:  # noqa: C901, PLR0911 - one return per kind
    """Values of a schema, as fastavro takes them without logical types."""
    match declared:
        case str():
            return PRIMITIVES[declared]
        case list():
            return st.one_of([values(branch) for branch in declared])
        case {"type": "enum", "symbols": list(symbols)}:
            return st.sampled_from(symbols)
        case {"type": "fixed", "size": int(size)}:
            return st.binary(min_size=size, max_size=size)
        case {"type": "array", "items": items}:
            return st.lists(values(items), max_size=2)
        case {"type": "map", "values": inner}:
            return st.dictionaries(st.text(max_size=2), values(inner), max_size=2)
        case {"type": "record", "fields": fields}:
            return st.fixed_dictionaries({each["name"]: values(each["type"]) for each in fields})
        case {"type": "int", "logicalType": _}:
            return st.integers(0, 20_000)
        case {"type": "long", "logicalType": _}:
            return st.integers(0, 10**12)
        case {"type": "bytes"}:
            return st.integers(-(10**9), 10**9).map(lambda n: n.to_bytes(5, "big", signed=True))
        case _:
            raise AssertionError(declared)


def without_logical_types(declared: Json) -> Json:
    match declared:
        case {"logicalType": _, "type": type_}:
            return type_
        case dict():
            return {key: without_logical_types(part) for key, part in declared.items()}
        case list() | tuple():
            return [without_logical_types(part) for part in declared]
        case _:
            return declared


def resolve(value: object, writer: Json, reader: Json) -> object:
    encoded = io.BytesIO()
    plain_writer, plain_reader = without_logical_types(writer), without_logical_types(reader)
    fastavro.schemaless_writer(encoded, plain_writer, value)
    encoded.seek(0)
    return fastavro.schemaless_reader(encoded, plain_writer, plain_reader)


SAMPLES = {
    "null": None,
    "boolean": True,
    "int": 1,
    "long": 1,
    "float": 1.5,
    "double": 1.5,
    "bytes": b"x",
    "string": "x",
}


@pytest.mark.parametrize("writer", SAMPLES)
@pytest.mark.parametrize("reader", SAMPLES)
def test_of_two_primitive_types_fastavro_says_the_same(writer: str, reader: str) -> None:
    try:
        resolve(SAMPLES[writer], writer, reader)
        resolvable = True
    except SchemaResolutionError:
        resolvable = False

    assert (reading_problems(schema(reader), schema(writer), Reading.AVRO) == ()) is resolvable


def test_an_unknown_symbol_needs_a_default() -> None:
    old = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
    new = {"type": "enum", "name": "E", "symbols": ["A"]}

    assert reading_problems(schema(new), schema(old), Reading.AVRO) == ("the reader does not know the symbols B",)


@given(pair=st.one_of(st.tuples(declarations(), declarations()), evolved()), data=st.data())
def test_data_can_be_resolved_wherever_the_rules_say_so(pair: tuple[Json, Json], data: st.DataObject) -> None:
    writer, reader = pair
    compatible = not reading_problems(schema(reader), schema(writer))
    event(f"compatible: {compatible}")
    if compatible:
        value = data.draw(values(writer))

        resolve(value, writer, reader)


@given(pair=evolved(), data=st.data())
def test_whole_rows_survive_a_round_trip_between_mutually_compatible_schemas(
    pair: tuple[Json, Json], data: st.DataObject
) -> None:
    one, other = pair
    compatible = not mutual_problems(schema(other), schema(one))
    event(f"compatible: {compatible}")
    if compatible:
        value = data.draw(values(one))

        read = resolve(value, one, other)

        assert isinstance(read, dict)
        assert isinstance(value, dict)
        stored = resolve(value, one, one)
        assert isinstance(stored, dict)
        assert {name: read[name] for name in read.keys() & value.keys()} == {
            name: stored[name] for name in read.keys() & value.keys()
        }


@given(pair=st.one_of(st.tuples(declarations(), declarations()), evolved()))
def test_exact_reading_never_allows_what_plain_avro_forbids(pair: tuple[Json, Json]) -> None:
    writer, reader = schema(pair[0]), schema(pair[1])

    plain = reading_problems(reader, writer, Reading.AVRO)

    assert not plain or reading_problems(reader, writer, Reading.EXACT)


@given(declared=declarations(), data=st.data())
def test_a_schema_with_the_same_encoding_reads_the_same_bytes(declared: Json, data: st.DataObject) -> None:
    other = data.draw(declarations())
    if same_encoding(schema(declared), schema(other)):
        value = data.draw(values(declared))
        encoded = io.BytesIO()
        fastavro.schemaless_writer(encoded, without_logical_types(declared), value)

        again = io.BytesIO()
        fastavro.schemaless_writer(again, without_logical_types(other), value)

        assert again.getvalue() == encoded.getvalue()

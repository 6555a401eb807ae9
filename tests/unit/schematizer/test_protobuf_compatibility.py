"""Which Protobuf schemas read each other's data, and why not; Google's own parser is the judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

import pytest
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import event, given
from hypothesis import strategies as st

from penstock.core.compatibility import Reading
from penstock.schematizer.formats.protobuf_compatibility import protobuf_problems
from penstock.schematizer.formats.protobuf_schemas import ProtobufSchema, compile_schema
from penstock.schematizer.registry.levels import Level, pair_problems


@lru_cache(1000)
def schema(body: str, syntax: str = "proto3") -> ProtobufSchema:
    return compile_schema(f'syntax = "{syntax}";\npackage p;\n{body}', {})


def message(*members: str) -> str:
    return f"message A {{ {' '.join(members)} }}"


@pytest.mark.parametrize(
    ("reader", "writer", "expected"),
    [
        ("int32 a = 1;", "int32 a = 1; string b = 2;", ()),
        ("int32 a = 1; string b = 2;", "int32 a = 1;", ()),
        ("int64 a = 1;", "bool a = 1;", ()),
        ("int64 renamed = 1;", "int64 a = 1;", ()),
        ("sint32 a = 1;", "int32 a = 1;", ("A.a: int32 is not readable as sint32",)),
        ("fixed32 a = 1;", "fixed64 a = 1;", ("A.a: fixed64 is not readable as fixed32",)),
        ("bytes a = 1;", "string a = 1;", ()),
        ("string a = 1;", "bytes a = 1;", ("A.a: bytes are not readable as string: they need not be UTF-8",)),
        ("A a = 1;", "bytes a = 1;", ("A.a: bytes is not readable as message",)),
        ("bytes a = 1;", "A a = 1;", ()),
        ("int32 a = 2;", "int32 a = 1;", ("A.a: the field has the number 2, and had 1",)),
        ("repeated string a = 1;", "string a = 1;", ()),
        ("repeated int32 a = 1;", "int32 a = 1;",
         ("A.a: the field is repeated, and was single: numbers are packed where they are repeated",)),
        ("map<string, int64> a = 1;", "map<string, int32> a = 1;", ()),
        ("map<string, string> a = 1;", "map<string, int32> a = 1;", ("A.a.value: int32 is not readable as string",)),
        ("oneof o { int32 a = 1; }", "int32 a = 1;", ()),
        ("oneof o { int32 a = 1; int32 b = 2; }", "int32 a = 1; int32 b = 2;",
         ("A.o: the fields a, b are in one oneof, and were not: of several, one would be kept",)),
        ("oneof o { int32 a = 1; int32 b = 2; }", "oneof o { int32 a = 1; } int32 b = 2;",
         ("A.o: the fields a, b are in one oneof, and were not: of several, one would be kept",)),
        ("oneof o { int32 a = 1; int32 b = 2; }", "oneof o { int32 a = 1; }", ()),
        ("oneof o { int32 a = 1; }", "oneof o { int32 a = 1; int32 b = 2; }",
         ("A.o: the field b is not there: whether it was set cannot be told",)),
        ("int32 a = 1; int32 b = 2;", "oneof o { int32 a = 1; int32 b = 2; }", ()),
        ("optional int32 a = 1; optional int32 b = 2;", "int32 a = 1; int32 b = 2;", ()),
        ("int32 a = 1;", "message B {} int32 a = 1;", ("A.B: the message is not there",)),
        ("message B { int32 x = 1; } B a = 1;", "message B { string x = 1; } B a = 1;",
         ("A.a.x: string is not readable as int32",)),
        ("enum E { Z = 0; Y = 1; } E a = 1;", "enum E { Z = 0; X = 1; } E a = 1;", ()),
        ("enum E { Z = 0; Y = 1; } E a = 1;", "enum E { Z = 0; Y = 2; } E a = 1;",
         ("A.a: the value Y is 1, and was 2",)),
        ("A next = 1; string a = 2; float b = 3;", "A next = 1; int32 a = 2; double b = 3;",
         ("A.a: int32 is not readable as string", "A.b: double is not readable as float")),
    ],
)  # fmt: skip
def test_every_reason_is_listed_with_its_path(reader: str, writer: str, expected: tuple[str, ...]) -> None:
    assert protobuf_problems(schema(message(reader)), schema(message(writer))) == expected


def test_a_required_field_must_have_been_required() -> None:
    required, optional = (schema(message(f"{word} int32 a = 1;"), "proto2") for word in ("required", "optional"))

    assert protobuf_problems(optional, required) == ()
    assert protobuf_problems(required, optional) == ("A.a: the field is required, and was not",)
    assert protobuf_problems(required, schema("message A {}", "proto2")) == (
        "A.a: the field is required, and the writer lacks it",
    )


def test_packages_do_not_count() -> None:
    other = compile_schema('syntax = "proto3"; package q; message A { A a = 1; }', {})

    assert protobuf_problems(other, schema(message("A a = 1;"))) == ()


@pytest.mark.parametrize("level", [level for level in Level if level is not Level.NONE])
def test_what_was_reserved_is_used_again_at_no_level_but_none(level: Level) -> None:
    old = schema(message("reserved 2, 5 to 7; reserved 'c'; enum E { Z = 0; reserved 4; }"))
    new = schema(message("int32 a = 2; int32 c = 9; enum E { Z = 0; Y = 4; }"))

    assert pair_problems(level, Reading.AVRO, new, old) == (
        "A.a: the number 2 is reserved in the older schema",
        "A.c: the name is reserved in the older schema",
        "A.E.Y: the number 4 is reserved in the older schema",
    )
    assert pair_problems(level, Reading.AVRO, old, schema(message("enum E { Z = 0; }"))) == ()
    assert pair_problems(Level.NONE, Reading.AVRO, new, old) == ()


TYPES = ["int32", "int64", "uint32", "sint32", "bool", "fixed32", "double", "string", "bytes", "E", "B"]
FIELDS = st.one_of(
    st.tuples(st.sampled_from(["", "optional ", "repeated "]), st.sampled_from(TYPES)).map("".join),
    st.sampled_from(["map<string, int32>", "map<int32, string>", "oneof int32", "oneof string"]),
)
BODIES = st.dictionaries(st.integers(1, 4), FIELDS, min_size=1)
INTEGERS = {"int32": 31, "int64": 63, "uint32": 32, "sint32": 31, "fixed32": 32}


def body(fields: dict[int, str]) -> str:
    plain = [f"{kind} f{number} = {number};" for number, kind in fields.items() if not kind.startswith("oneof")]
    chosen = [f"{kind[6:]} f{number} = {number};" for number, kind in fields.items() if kind.startswith("oneof")]
    oneof = f"oneof o {{ {' '.join(chosen)} }}" if chosen else ""
    return message(*plain, oneof) + " message B { int32 x = 1; } enum E { Z = 0; Y = 1; }"


def values(kind: str) -> st.SearchStrategy[object]:
    if kind.startswith("repeated "):
        return st.lists(values(kind[9:]), max_size=3)
    if kind.startswith("map<"):
        key, value = kind[4:-1].split(", ")
        return st.dictionaries(values(key), values(value), max_size=2)
    if kind in INTEGERS:
        return st.integers(0, (1 << INTEGERS[kind]) - 1)
    plain = {"bool": st.booleans(), "double": st.floats(allow_nan=False), "string": st.text(max_size=3)}
    others = {"bytes": st.binary(max_size=3), "E": st.integers(0, 2), "B": st.just({"x": 5})}
    return (plain | others)[kind]


def plain(value: object) -> object:
    """Messages of two schemas are never equal as they are: their classes differ."""
    match value:
        case Message():
            return value.SerializeToString(deterministic=True)
        case Mapping():
            return dict(value)
        case str() | bytes() | int() | float():
            return value
        case _:
            assert isinstance(value, Iterable)
            return [plain(each) for each in value]


@given(writer=BODIES, reader=BODIES, keeps=st.booleans(), data=st.data())
def test_data_can_be_read_wherever_the_rules_say_so(
    writer: dict[int, str], reader: dict[int, str], keeps: bool, data: st.DataObject  # noqa: FBT001 - hypothesis passes names
) -> None:  # fmt: skip
    reader = {**writer, **dict(list(reader.items())[:1])} if keeps else reader
    written, read = schema(body(writer)), schema(body(reader))
    compatible = not protobuf_problems(read, written)
    event(f"compatible: {compatible}")
    if not compatible:
        return
    ours = {number: kind.removeprefix("oneof ").removeprefix("optional ") for number, kind in writer.items()}
    one, other = (GetMessageClass(each.file.message_types_by_name["A"]) for each in (written, read))
    for _ in range(5):
        sent = one(**{f"f{number}": data.draw(values(kind)) for number, kind in ours.items()})
        try:
            received = other.FromString(sent.SerializeToString())
        except DecodeError as error:
            raise AssertionError(sent) from error
        same = [number for number, kind in writer.items() if reader.get(number) == kind]

        assert [plain(getattr(received, f"f{n}")) for n in same] == [plain(getattr(sent, f"f{n}")) for n in same]

"""Whether data written with one Avro schema can be read with another, and means the same.

Rules: Avro 1.12 specification, "Schema Resolution". In EXACT reading, which
tables are held to, a value must also come out equal: logical types and decimal
precision and scale must be the same, text is not read as bytes, and an enum's
default never stands in for a symbol that the reader does not know.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, assert_never

from penstock.core.avro_types import (
    Array,
    AvroSchema,
    AvroType,
    Enumeration,
    Fixed,
    Map,
    Named,
    Primitive,
    Record,
    Reference,
    Union,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_STEPS_MAX = 200_000
_WIDER = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}


class Reading(StrEnum):
    """How much must survive a change of schema: AVRO that it can be read, EXACT also that it reads equal."""

    AVRO = "avro"
    EXACT = "exact"


def reading_problems(reader: AvroSchema, writer: AvroSchema, reading: Reading = Reading.EXACT) -> tuple[str, ...]:
    """List why data written with `writer` cannot be read with `reader`, each with its path; empty if it can.

    Schemas that take more than 200,000 steps to compare count as not readable.
    """
    walk = _Walk(reader, writer, reading)
    try:
        return tuple(walk.compare(reader.root, writer.root, ""))
    except _EntangledError:
        return ("the schemas are too entangled to be compared: nobody can say whether all data can be read",)


def mutual_problems(new: AvroSchema, old: AvroSchema, reading: Reading = Reading.EXACT) -> tuple[str, ...]:
    """List why `new` and `old` cannot each read what the other wrote; empty if they can."""
    backward = (f"new reads old: {problem}" for problem in reading_problems(new, old, reading))
    forward = (f"old reads new: {problem}" for problem in reading_problems(old, new, reading))
    return (*backward, *forward)


def same_encoding(one: AvroSchema, other: AvroSchema) -> bool:
    """Tell whether both write the same bytes with the same meaning: same fields, order, types and logical types.

    Documentation, aliases and defaults do not count. It is what two schemas of
    a message key must have in common to share a topic.
    """
    return _normal_form(one.root, one, ()) == _normal_form(other.root, other, ())


class _EntangledError(Exception):
    """A comparison takes too many steps."""


class _Walk:
    """One comparison of a reader with a writer."""

    def __init__(self, reader: AvroSchema, writer: AvroSchema, reading: Reading) -> None:
        self._reader = reader
        self._writer = writer
        self._exact = reading is Reading.EXACT
        self._seen: set[tuple[str, str]] = set()
        self._steps = 0

    def compare(self, reader: AvroType, writer: AvroType, path: str) -> Iterator[str]:
        """Yield the problems of one pair of types. Raises _EntangledError when all pairs are too many."""
        self._count(1)
        reader, writer = self._reader.resolve(reader), self._writer.resolve(writer)
        if isinstance(writer, Union):
            for branch in writer.branches:
                yield from self.compare(reader, branch, path)
            return
        if isinstance(reader, Union):
            yield from self._compare_with_union(reader, writer, path)
            return
        if not self._matches(reader, writer):
            yield f"{_at(path)}{_name(writer)} is not readable as {_name(reader)}"
            return
        yield from self._compare_matching(reader, writer, path)

    def _compare_with_union(self, reader: Union, writer: AvroType, path: str) -> Iterator[str]:
        """Resolve against the branch of the same name, or else, as the specification says, the first that matches."""
        self._count(len(reader.branches))
        branches = [self._reader.resolve(branch) for branch in reader.branches]
        for branch in sorted(branches, key=lambda each: not _is_called(each, writer)):
            if self._matches(branch, writer):
                yield from self.compare(branch, writer, path)
                return
        yield f"{_at(path)}{_name(writer)} is not readable as {_name(reader)}"

    def _count(self, steps: int) -> None:
        self._steps += steps
        if self._steps > _STEPS_MAX:
            raise _EntangledError

    def _matches(self, reader: AvroType, writer: AvroType) -> bool:
        """Tell whether two types match at their top, before their parts are looked at."""
        match reader, writer:
            case Primitive(), Primitive():
                return reader.name == writer.name or reader.name in _WIDER.get(writer.name, ())
            case Record() | Enumeration() | Fixed(), Record() | Enumeration() | Fixed():
                return type(reader) is type(writer) and self._same_name(reader, writer)
            case (Array(), Array()) | (Map(), Map()):
                return True
            case _:
                return False

    def _same_name(self, reader: Named, writer: Named) -> bool:
        """Namespaces need not be the same to read data, only to read it exactly."""
        if reader.name == writer.name or writer.name in reader.aliases:
            return True
        return not self._exact and reader.name.rpartition(".")[2] == writer.name.rpartition(".")[2]

    def _compare_matching(self, reader: AvroType, writer: AvroType, path: str) -> Iterator[str]:
        match reader, writer:
            case Primitive(), Primitive():
                yield from self._compare_primitives(reader, writer, path)
            case Array(), Array():
                yield from self.compare(reader.items, writer.items, f"{path}[]")
            case Map(), Map():
                yield from self.compare(reader.values, writer.values, f"{path}{{}}")
            case Fixed(), Fixed():
                if reader.size != writer.size:
                    yield f"{_at(path)}{writer.size} bytes are not readable as {reader.size} bytes"
                yield from self._compare_meanings(reader, writer, path)
            case Enumeration(), Enumeration():
                yield from self._compare_symbols(reader, writer, path)
            case Record(), Record():
                yield from self._compare_records(reader, writer, path)
            case _:
                message = f"{_name(reader)} and {_name(writer)} do not match"
                raise AssertionError(message)

    def _compare_primitives(self, reader: Primitive, writer: Primitive, path: str) -> Iterator[str]:
        if self._exact and reader.name != writer.name and "bytes" in {reader.name, writer.name}:
            yield f"{_at(path)}{writer.name} is not readable as {reader.name}: not every value would come out equal"
        yield from self._compare_meanings(reader, writer, path)

    def _compare_meanings(self, reader: Primitive | Fixed, writer: Primitive | Fixed, path: str) -> Iterator[str]:
        """Decimals must always agree (specification, "Logical Types"); other meanings only in exact reading."""
        both_decimal = reader.meaning.logical == writer.meaning.logical == "decimal"
        if (self._exact or both_decimal) and reader.meaning != writer.meaning:
            yield f"{_at(path)}{_name(writer)} does not mean the same as {_name(reader)}"

    def _compare_symbols(self, reader: Enumeration, writer: Enumeration, path: str) -> Iterator[str]:
        known = set(reader.symbols)
        unknown = [symbol for symbol in writer.symbols if symbol not in known]
        if unknown and (self._exact or reader.default is None):
            yield f"{_at(path)}the reader does not know the symbols {', '.join(unknown)}"
        if self._exact and reader.meaning != writer.meaning:
            yield f"{_at(path)}{_name(writer)} does not mean the same as {_name(reader)}"

    def _compare_records(self, reader: Record, writer: Record, path: str) -> Iterator[str]:
        if (reader.name, writer.name) in self._seen:
            return
        self._seen.add((reader.name, writer.name))
        if self._exact and reader.meaning != writer.meaning:
            yield f"{_at(path)}{_name(writer)} does not mean the same as {_name(reader)}"
        by_name = {written.name: written for written in writer.fields}
        for field in reader.fields:
            inner = f"{path}.{field.name}" if path else field.name
            # Of the same name, or else of the first alias that is there.
            written = next((by_name[name] for name in (field.name, *field.aliases) if name in by_name), None)
            if written is not None:
                yield from self.compare(field.type, written.type, inner)
            elif not field.has_default:
                yield f"{_at(inner)}the writer lacks the field, and the reader has no default for it"


def _is_called(reader: AvroType, writer: AvroType) -> bool:
    named = (Record, Enumeration, Fixed)
    return isinstance(reader, named) and isinstance(writer, named) and reader.name == writer.name


def _normal_form(type_: AvroType, schema: AvroSchema, within: tuple[str, ...]) -> object:  # noqa: PLR0911 - one return per member of the union
    """Return nested tuples that are equal exactly for types with the same encoding and meaning."""
    match type_:
        case Primitive(name, meaning):
            return name, meaning
        case Reference(name):
            return ("again", name) if name in within else _normal_form(schema.resolve(type_), schema, within)
        case Array(items):
            return "array", _normal_form(items, schema, within)
        case Map(values):
            return "map", _normal_form(values, schema, within)
        case Union(branches):
            return "union", tuple(_normal_form(branch, schema, within) for branch in branches)
        case Fixed(name, _, size, meaning):
            return "fixed", name, size, meaning
        case Enumeration(name, _, symbols, _, meaning):
            return "enum", name, symbols, meaning
        case Record(name, _, fields, meaning):
            inner = (*within, name)
            return "record", name, meaning, tuple((f.name, _normal_form(f.type, schema, inner)) for f in fields)
        case _:
            assert_never(type_)


def _name(type_: AvroType) -> str:
    """Name a type as a person reads it: `bytes/decimal(10,2)`, `union of null and long`."""
    match type_:
        case Primitive(name, meaning):
            return f"{name}{meaning}"
        case Union(branches):
            return f"union of {' and '.join(_name(branch) for branch in branches)}"
        case Array() | Map():
            return type(type_).__name__.lower()
        case Reference(name):
            return name
        case Record() | Enumeration() | Fixed():
            return _named(type_)
        case _:
            assert_never(type_)


def _named(type_: Named) -> str:
    kind = {Record: "record", Enumeration: "enum", Fixed: "fixed"}[type(type_)]
    return f"{kind} {type_.name}{type_.meaning}"


def _at(path: str) -> str:
    return f"{path}: " if path else ""

"""Avro schemas as types: what the compatibility rules look at.

Source: Avro 1.12 specification, "Schema Declaration", "Names" and "Logical
Types". Only the parts that decide how data resolves are kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_SIMPLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Json: TypeAlias = "str | int | float | bool | Sequence[Json] | Mapping[str, Json] | None"


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a type's values stand for beyond their Avro type.

    `logical` is the logicalType ("" for none), `precision` and `scale` those of
    a decimal (else 0).
    """

    logical: str = ""
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        """`/decimal(10,2)`, `/timestamp-micros`, or nothing."""
        if self.logical == "decimal":
            return f"/decimal({self.precision},{self.scale})"
        return f"/{self.logical}" if self.logical else ""


@dataclass(frozen=True, slots=True)
class Primitive:
    """One of the eight primitive types."""

    name: str
    meaning: Meaning = field(default_factory=Meaning)


@dataclass(frozen=True, slots=True)
class Reference:
    """A named type that is defined elsewhere in the schema, by its full name."""

    name: str


@dataclass(frozen=True, slots=True)
class Array:
    """An array."""

    items: AvroType


@dataclass(frozen=True, slots=True)
class Map:
    """A map from strings."""

    values: AvroType


@dataclass(frozen=True, slots=True)
class Union:
    """A union, its branches in order."""

    branches: tuple[AvroType, ...]


@dataclass(frozen=True, slots=True)
class Fixed:
    """`size` bytes."""

    name: str
    aliases: frozenset[str]
    size: int
    meaning: Meaning


@dataclass(frozen=True, slots=True)
class Enumeration:
    """An enum; `default` is None where it has none."""

    name: str
    aliases: frozenset[str]
    symbols: tuple[str, ...]
    default: str | None
    meaning: Meaning


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record."""

    name: str
    aliases: tuple[str, ...]
    type: AvroType
    has_default: bool


@dataclass(frozen=True, slots=True)
class Record:
    """A record."""

    name: str
    aliases: frozenset[str]
    fields: tuple[Field, ...]
    meaning: Meaning


Named: TypeAlias = Record | Enumeration | Fixed
AvroType: TypeAlias = Primitive | Reference | Array | Map | Union | Named


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A schema and its named types by full name."""

    root: AvroType
    names: Mapping[str, Named]

    def resolve(self, type_: AvroType) -> AvroType:
        """Follow `type_` to its definition if it is a reference."""
        return self.names[type_.name] if isinstance(type_, Reference) else type_


def parse_avro(text: str, known: Mapping[str, Named] | None = None) -> AvroSchema:
    """Parse a schema from its JSON text, which may use the `known` types of other schemas, by full name.

    Raises ValueError, with the place in the text or in the schema, where it is
    not JSON or not a schema.
    """
    try:
        declared: Json = json.loads(text)
        names: dict[str, Named] = dict(known or {})
        root = _parse(declared, "", names)
    except json.JSONDecodeError as error:
        message = f"not JSON at line {error.lineno}, column {error.colno}: {error.msg}"
        raise ValueError(message) from error
    except RecursionError as error:
        message = "nested too deeply"
        raise ValueError(message) from error
    return AvroSchema(root, names)


def _parse(declared: Json, namespace: str, names: dict[str, Named]) -> AvroType:
    match declared:
        case str():
            return _parse_name(declared, namespace, names)
        case Mapping():
            return _parse_declaration(declared, namespace, names)
        case Sequence():
            return _parse_union(declared, namespace, names)
        case _:
            message = f"{json.dumps(declared)} is not a type"
            raise ValueError(message)


def _parse_name(name: str, namespace: str, names: dict[str, Named]) -> AvroType:
    if name in PRIMITIVES:
        return Primitive(name)
    full = _full_name(name, namespace)
    if full not in names:
        message = f'there is no type "{name}"'
        raise ValueError(message)
    return Reference(full)


def _parse_declaration(declared: Mapping[str, Json], namespace: str, names: dict[str, Named]) -> AvroType:
    kind = declared.get("type")
    match kind:
        case "array":
            return Array(_parse(_part(declared, "items"), namespace, names))
        case "map":
            return Map(_parse(_part(declared, "values"), namespace, names))
        case "record" | "error" | "enum" | "fixed":
            return _parse_named(str(kind), declared, namespace, names)
        case str() if kind in PRIMITIVES:
            return Primitive(kind, _meaning(declared))
        case str():
            return _parse_name(kind, namespace, names)
        case _:
            message = f"{json.dumps(declared)[:80]} does not name its type"
            raise ValueError(message)


def _parse_union(declared: Sequence[Json], namespace: str, names: dict[str, Named]) -> Union:
    branches = tuple(_parse(branch, namespace, names) for branch in declared)
    kinds = [b.name if isinstance(b, Primitive | Reference) else type(b).__name__.lower() for b in branches]
    if len(set(kinds)) < len(kinds) or "union" in kinds:
        message = f"a union of {', '.join(kinds)} has two branches of one kind, or a union in it"
        raise ValueError(message)
    return Union(branches)


def _parse_named(kind: str, declared: Mapping[str, Json], namespace: str, names: dict[str, Named]) -> Reference:
    simple = _valid(_text(declared, "name"), _NAME)
    inner = simple.rpartition(".")[0] if "." in simple else _text(declared, "namespace", namespace)
    name = _full_name(simple, inner)
    if name in names:
        message = f'the type "{name}" is declared twice'
        raise ValueError(message)
    aliases = frozenset(_full_name(alias, inner) for alias in _texts(declared, "aliases"))
    meaning = _meaning(declared)
    if kind == "fixed":
        names[name] = Fixed(name, aliases, _number(declared, "size"), meaning)
    elif kind == "enum":
        default = _text(declared, "default") if "default" in declared else None
        symbols = _texts({"symbols": _part(declared, "symbols")}, "symbols")
        names[name] = Enumeration(name, aliases, symbols, default, meaning)
    else:
        # The name must be known while the fields are parsed: they may refer to it.
        names[name] = Record(name, aliases, (), meaning)
        fields = _sequence(_part(declared, "fields"), f'the fields of "{name}"')
        names[name] = Record(name, aliases, _distinct(_parse_field(f, inner, names) for f in fields), meaning)
    return Reference(name)


def _parse_field(declared: Json, namespace: str, names: dict[str, Named]) -> Field:
    if not isinstance(declared, Mapping):
        message = f"{json.dumps(declared)[:80]} is not a field"
        raise ValueError(message)  # noqa: TRY004 - one error for every fault of a schema
    name = _valid(_text(declared, "name"), _SIMPLE_NAME)
    try:
        type_ = _parse(_part(declared, "type"), namespace, names)
    except ValueError as error:
        message = f'field "{name}": {error}'
        raise ValueError(message) from error
    return Field(name, _texts(declared, "aliases"), type_, "default" in declared)


def _distinct(fields: Iterable[Field]) -> tuple[Field, ...]:
    by_name: dict[str, Field] = {}
    for each in fields:
        if by_name.setdefault(each.name, each) is not each:
            message = f'the field "{each.name}" is there twice'
            raise ValueError(message)
    return tuple(by_name.values())


def _valid(name: str, pattern: re.Pattern[str]) -> str:
    if pattern.fullmatch(name) is None:
        message = f'"{name}" is not a name: names are of letters, digits and "_"'
        raise ValueError(message)
    return name


def _meaning(declared: Mapping[str, Json]) -> Meaning:
    logical = _text(declared, "logicalType", "")
    if logical != "decimal":
        return Meaning(logical)
    scale = _number(declared, "scale") if "scale" in declared else 0
    return Meaning(logical, _number(declared, "precision"), scale)


def _full_name(name: str, namespace: str) -> str:
    return f"{namespace}.{name}" if namespace and "." not in name else name


def _part(declared: Mapping[str, Json], key: str) -> Json:
    if key not in declared:
        message = f'"{key}" is missing in {json.dumps(declared)[:80]}'
        raise ValueError(message)
    return declared[key]


def _text(declared: Mapping[str, Json], key: str, default: str | None = None) -> str:
    value = declared.get(key, default)
    if not isinstance(value, str):
        message = f'"{key}" is missing or not text in {json.dumps(declared)[:80]}'
        raise ValueError(message)  # noqa: TRY004 - one error for every fault of a schema
    return value


def _texts(declared: Mapping[str, Json], key: str) -> tuple[str, ...]:
    values = _sequence(declared.get(key, ()), f'"{key}"')
    if not all(isinstance(value, str) for value in values):
        message = f'"{key}" is not a list of texts in {json.dumps(declared)[:80]}'
        raise ValueError(message)
    return tuple(str(value) for value in values)


def _number(declared: Mapping[str, Json], key: str) -> int:
    value = declared.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        message = f'"{key}" is missing or not a whole number in {json.dumps(declared)[:80]}'
        raise ValueError(message)
    return value


def _sequence(value: Json, what: str) -> Sequence[Json]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        message = f"{what} is not a list"
        raise ValueError(message)  # noqa: TRY004 - one error for every fault of a schema
    return value

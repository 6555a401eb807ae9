"""How the bytes of a record follow one another, read from its Avro schema."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from penstock.core.avro.json_values import JsonObject, JsonValue, refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

Primitive: TypeAlias = Literal["int", "long", "float", "double", "string", "bytes", "floats"]
_PRIMITIVES: Final[Mapping[str, Primitive]] = {
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "bytes",
}


@dataclass(frozen=True, slots=True)
class FieldLayout:
    """One field: `nullable` puts a union's branch (0 for null, 1 for a value) before it."""

    name: str
    nullable: bool
    type: Primitive | RecordLayout


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """The fields of a record, in the order of their bytes."""

    fields: tuple[FieldLayout, ...]

    def record(self, name: str) -> RecordLayout:
        """The record in the field called `name`; PenstockError if there is none."""
        for field in self.fields:
            if field.name == name and isinstance(field.type, RecordLayout):
                return field.type
        return refuse(f"it has no record in a field called {name}")


@lru_cache(maxsize=1024)
def parse_layout(schema: str) -> RecordLayout:
    """Return the layout of the record that `schema` (JSON text) describes.

    Knows what Penstock's own schemas are made of: records, unions of null with
    one type, arrays of floats ("floats"), and the primitives above. Raises PenstockError for anything else.
    """
    return _record(JsonObject.parse(schema), {})


def _record(schema: JsonObject, named: dict[str, RecordLayout]) -> RecordLayout:
    fields = tuple(_field(field, named) for field in schema.objects("fields"))
    layout = RecordLayout(fields)
    named[schema.text("name")] = layout
    return layout


def _field(field: JsonObject, named: dict[str, RecordLayout]) -> FieldLayout:
    declared = field.fields.get("type")
    name = field.text("name")
    if not isinstance(declared, list):
        return FieldLayout(name, nullable=False, type=_type(declared, named))
    if len(declared) != 2 or declared[0] != "null":  # noqa: PLR2004 - null and the one type
        refuse(f"the union in {name} is not of null and one type")
    return FieldLayout(name, nullable=True, type=_type(declared[1], named))


def _type(declared: JsonValue, named: dict[str, RecordLayout]) -> Primitive | RecordLayout:
    if isinstance(declared, str):
        if declared in _PRIMITIVES:
            return _PRIMITIVES[declared]
        return named[declared] if declared in named else refuse(f"{declared} is an unknown type")
    described = JsonObject.of(declared, "a type")
    if described.fields.get("type") == "record":
        return _record(described, named)
    if described.fields.get("type") == "array" and described.fields.get("items") == "float":
        return "floats"
    return _type(described.text("type"), named)

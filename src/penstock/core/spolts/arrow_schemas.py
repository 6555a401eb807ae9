"""Avro schemas for Arrow's, so that a batch of user code says by itself what it holds.

Source: Avro 1.12 specification, "Primitive Types", "Complex Types" and "Logical
Types". What Avro has no type for is refused, never carried as something near.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.types as kinds

from penstock.core.avro.names import avro_name
from penstock.core.avro_types import Array, Enumeration, Map, Meaning, Primitive, Record, Union

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.core.avro.json_values import JsonValue
    from penstock.core.avro_types import AvroSchema, AvroType

    _Kind = Callable[[pa.DataType], bool]

_DECIMAL128_PRECISION_MAX: Final = 38
NAMESPACE: Final = "penstock.spolts"
_SIMPLE: Final[Sequence[tuple[tuple[_Kind, ...], JsonValue]]] = (
    ((kinds.is_boolean,), "boolean"),
    ((kinds.is_int8, kinds.is_int16, kinds.is_int32, kinds.is_uint8, kinds.is_uint16), "int"),
    ((kinds.is_int64, kinds.is_uint32), "long"),
    ((kinds.is_uint64,), {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 0}),
    ((kinds.is_float32,), "float"),
    ((kinds.is_float64,), "double"),
    ((kinds.is_string, kinds.is_large_string), "string"),
    ((kinds.is_binary, kinds.is_large_binary, kinds.is_fixed_size_binary), "bytes"),
    ((kinds.is_date32,), {"type": "int", "logicalType": "date"}),
)
_PRIMITIVE: Final[Mapping[str, pa.DataType]] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: Final[Mapping[str, pa.DataType]] = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
}
_TIMES: Final = {"ms": "timestamp-millis", "us": "timestamp-micros"}


def avro_of_arrow(name: str, schema: pa.Schema) -> str:
    """Return the Avro schema (JSON text) of a record called `name` for rows of an Arrow schema.

    A field that may be null is a union with null, and null is its default. Equal
    Arrow schemas give equal text. Raises ValueError, with the field, for a type
    that Avro does not have.
    """
    return json.dumps(_record(avro_name(name), schema) | {"namespace": NAMESPACE})


def key_avro_of_value(name: str, value_schema: str, fields: Sequence[str]) -> str:
    """Return the schema of a key that is made of some fields of a value, as the value's schema declares them.

    ValueError for a field that the value does not have, or that may be null, and for
    a value that is no record.
    """
    declared = json.loads(value_schema)
    found = declared.get("fields") if isinstance(declared, dict) else None
    if not isinstance(found, list):
        message = "its value is no record, so its key has no fields to be made of"
        raise ValueError(message)  # noqa: TRY004 - one error for every fault of a schema
    by_name = {field["name"]: field["type"] for field in found}
    for field in fields:
        if field not in by_name:
            message = f"its value has no field {field} for the key; it has: {', '.join(by_name)}"
            raise ValueError(message)
    key = [{"name": field, "type": _without_null(by_name[field])} for field in fields]
    return json.dumps({"type": "record", "name": f"{avro_name(name)}_key", "fields": key, "namespace": NAMESPACE})


def arrow_of_avro(type_: AvroType, schema: AvroSchema) -> pa.DataType:
    """Return the Arrow type for decoded values of an Avro type that is a part of `schema`.

    ValueError for a type that Arrow has none for: a union of several types, a fixed
    or a record that holds itself.
    """
    match schema.resolve(type_):
        case Primitive(name, meaning):
            return _arrow_primitive(name, meaning)
        case Enumeration():
            return pa.string()
        case Array(items):
            return pa.list_(arrow_of_avro(items, schema))
        case Map(values):
            return pa.map_(pa.string(), arrow_of_avro(values, schema))
        case Union(branches):
            rest = [branch for branch in branches if branch != Primitive("null")]
            if len(rest) == 1:
                return arrow_of_avro(rest[0], schema)
        case Record(fields=fields):
            return pa.struct([pa.field(each.name, arrow_of_avro(each.type, schema)) for each in fields])
    message = "Arrow has no type for one of its fields; take one message at a time instead"
    raise ValueError(message)


def _arrow_primitive(name: str, meaning: Meaning) -> pa.DataType:
    match meaning.logical:
        case "decimal":
            wide = meaning.precision > _DECIMAL128_PRECISION_MAX
            return (pa.decimal256 if wide else pa.decimal128)(meaning.precision, meaning.scale)
        case logical if logical in _LOGICAL:
            return _LOGICAL[logical]
        case _:
            return _PRIMITIVE[name]


def _without_null(type_: JsonValue) -> JsonValue:
    """The type of a field as a key has it: the other branch of a union with null."""
    if isinstance(type_, list):
        rest = [branch for branch in type_ if branch != "null"]
        return rest[0] if len(rest) == 1 else rest
    return type_


def _record(name: str, fields: pa.Schema | pa.StructType) -> dict[str, JsonValue]:
    return {"type": "record", "name": name, "fields": [_field(name, field) for field in fields]}


def _field(record: str, field: pa.Field[Any]) -> JsonValue:
    try:
        type_ = _type(f"{record}_{avro_name(field.name)}", field.type)
    except ValueError as error:
        message = f"{field.name}: {error}"
        raise ValueError(message) from error
    name: dict[str, JsonValue] = {"name": avro_name(field.name)}
    if field.nullable:
        return name | {"type": ["null", type_], "default": None}
    return name | {"type": type_}


def _type(name: str, type_: pa.DataType) -> JsonValue:  # noqa: C901, PLR0911 - one return per type
    """Return the Avro type, a record in it called `name`."""
    for tests, avro in _SIMPLE:
        if any(test(type_) for test in tests):
            return avro
    match type_:
        case pa.Decimal128Type() | pa.Decimal256Type() if 0 <= type_.scale <= type_.precision:
            return {"type": "bytes", "logicalType": "decimal", "precision": type_.precision, "scale": type_.scale}
        case pa.TimestampType() if type_.unit in _TIMES:
            return {"type": "long", "logicalType": ("" if type_.tz else "local-") + _TIMES[type_.unit]}
        case pa.Time64Type() if type_.unit == "us":
            return {"type": "long", "logicalType": "time-micros"}
        case pa.Time32Type() if type_.unit == "ms":
            return {"type": "int", "logicalType": "time-millis"}
        case pa.StructType():
            return _record(name, type_)
        case pa.ListType() | pa.LargeListType():
            return {"type": "array", "items": _nullable(name, type_.value_field)}
        case pa.MapType() if kinds.is_string(type_.key_type):
            return {"type": "map", "values": _nullable(name, type_.item_field)}
        case pa.DictionaryType():
            return _type(name, type_.value_type)
        case _:
            message = f"Avro has no type for Arrow's {type_}; cast it to one that it has"
            raise ValueError(message)


def _nullable(name: str, field: pa.Field[Any]) -> JsonValue:
    type_ = _type(name, field.type)
    return ["null", type_] if field.nullable else type_

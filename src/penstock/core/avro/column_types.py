"""The Avro type of each column type, and the attributes from which the column type is read back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeVar, assert_never, get_args

from penstock.core.avro.json_values import JsonObject, JsonValue, refuse
from penstock.core.tables import (
    BitType,
    BytesType,
    ColumnType,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FloatType,
    GeometryType,
    IntegerType,
    PrintedKind,
    PrintedType,
    SetType,
    TextType,
    TimestampType,
    TimeType,
    UnsupportedType,
    VectorType,
    YearType,
    bit_integer,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_Found = TypeVar("_Found", int, str)
_Value = TypeVar("_Value")
_ZERO_IS_NULL: Final = "penstock.zero_is_null"
_UNSIGNED_64_DIGITS: Final = 20
_INTEGER_BITS: Final[Mapping[int, Literal[8, 16, 24, 32, 64]]] = {8: 8, 16: 16, 24: 24, 32: 32, 64: 64}
_PRINTED_KINDS: Final[Mapping[str, PrintedKind]] = {kind: kind for kind in get_args(PrintedKind)}
_FLOAT_BITS: Final[Mapping[int, Literal[32, 64]]] = {32: 32, 64: 64}


def avro_type(type_: ColumnType) -> JsonValue:  # noqa: C901, PLR0911, PLR0912 - one return per member of the union
    """Return the Avro type (without null) that carries `type_`; ValueError for a type that nothing carries."""
    match type_:
        case IntegerType(bits, unsigned):
            return _integer(bits, unsigned=unsigned)
        case BitType(bits):
            return avro_type(bit_integer(bits))
        case DecimalType(precision, scale):
            return _decimal(precision, scale)
        case FloatType(bits):
            return "float" if bits == 32 else "double"  # noqa: PLR2004 - the width itself
        case PrintedType("uuid"):
            return {"type": "string", "logicalType": "uuid"}
        case TextType() | EnumType() | SetType() | PrintedType():
            return "string"
        case BytesType() | GeometryType():
            return "bytes"
        case VectorType():
            return {"type": "array", "items": "float"}
        case TimeType():
            return "long"
        case DateType():
            return {"type": "int", "logicalType": "date"}
        case DateTimeType():
            return {"type": "long", "logicalType": "local-timestamp-micros"}
        case TimestampType():
            return {"type": "long", "logicalType": "timestamp-micros"}
        case YearType():
            return "int"
        case UnsupportedType(declaration):
            message = f"no Avro type carries {declaration}"
            raise ValueError(message)
        case _:
            assert_never(type_)


def type_attributes(type_: ColumnType) -> dict[str, JsonValue]:  # noqa: C901, PLR0911, PLR0912 - one return per type
    """Return the `penstock.` attributes that tell `type_` from every other; ValueError as in `avro_type`."""
    match type_:
        case IntegerType(bits, unsigned):
            return {"penstock.type": "integer", "penstock.bits": bits, "penstock.unsigned": unsigned}
        case BitType(bits):
            return {"penstock.type": "bit", "penstock.bits": bits}
        case DecimalType(precision, scale):
            return {"penstock.type": "decimal", "penstock.precision": precision, "penstock.scale": scale}
        case FloatType(bits):
            return {"penstock.type": "float", "penstock.bits": bits}
        case TextType(characters_max, charset):
            return {"penstock.type": "text", "penstock.characters_max": characters_max, "penstock.charset": charset}
        case BytesType(bytes_max, fixed):
            return {"penstock.type": "bytes", "penstock.bytes_max": bytes_max, "penstock.fixed": fixed}
        case DateType(zero_is_null):
            return {"penstock.type": "date", **_zero(zero_is_null=zero_is_null)}
        case TimeType(digits):
            return {"penstock.type": "time", "penstock.fraction_digits": digits}
        case DateTimeType(digits, zero_is_null):
            zero = _zero(zero_is_null=zero_is_null)
            return {"penstock.type": "datetime", "penstock.fraction_digits": digits, **zero}
        case TimestampType(digits, zero_is_null):
            zero = _zero(zero_is_null=zero_is_null)
            return {"penstock.type": "timestamp", "penstock.fraction_digits": digits, **zero}
        case YearType():
            return {"penstock.type": "year"}
        case EnumType(labels):
            return {"penstock.type": "enum", "penstock.labels": labels}
        case SetType(labels):
            return {"penstock.type": "set", "penstock.labels": labels}
        case PrintedType(kind, digits):
            return {"penstock.type": "printed", "penstock.kind": kind, "penstock.fraction_digits": digits}
        case GeometryType():
            return {"penstock.type": "geometry"}
        case VectorType(dimensions):
            return {"penstock.type": "vector", "penstock.dimensions": dimensions}
        case UnsupportedType(declaration):
            message = f"no Avro type carries {declaration}"
            raise ValueError(message)
        case _:
            assert_never(type_)


def column_type(field: JsonObject) -> ColumnType:  # noqa: C901, PLR0911, PLR0912, RET503 - one return per type; refuse() does not return
    """Read back what `type_attributes` wrote; PenstockError for anything else."""
    match field.text("penstock.type"):
        case "integer":
            return IntegerType(_known(_INTEGER_BITS, field.integer("penstock.bits")), field.flag("penstock.unsigned"))
        case "decimal":
            return DecimalType(field.integer("penstock.precision"), field.integer("penstock.scale"))
        case "float":
            return FloatType(_known(_FLOAT_BITS, field.integer("penstock.bits")))
        case "text":
            return TextType(field.integer("penstock.characters_max"), field.text("penstock.charset"))
        case "bytes":
            return BytesType(field.integer("penstock.bytes_max"), field.flag("penstock.fixed"))
        case "bit":
            return BitType(field.integer("penstock.bits"))
        case "date":
            return DateType(field.flag(_ZERO_IS_NULL))
        case "time":
            return TimeType(field.integer("penstock.fraction_digits"))
        case "datetime":
            return DateTimeType(field.integer("penstock.fraction_digits"), field.flag(_ZERO_IS_NULL))
        case "timestamp":
            return TimestampType(field.integer("penstock.fraction_digits"), field.flag(_ZERO_IS_NULL))
        case "year":
            return YearType()
        case "enum":
            return EnumType(field.texts("penstock.labels"))
        case "set":
            return SetType(field.texts("penstock.labels"))
        case "printed":
            kind = _known(_PRINTED_KINDS, field.text("penstock.kind"), "penstock.kind")
            return PrintedType(kind, field.integer("penstock.fraction_digits"))
        case "geometry":
            return GeometryType()
        case "vector":
            return VectorType(field.integer("penstock.dimensions"))
        case other:
            refuse(f"penstock.type is {other!r}, which this release does not know")


def _integer(bits: int, *, unsigned: bool) -> JsonValue:
    if bits + unsigned <= 32:  # noqa: PLR2004 - Avro's int has 32 bits with its sign
        return "int"
    return _decimal(_UNSIGNED_64_DIGITS, 0) if bits == 64 and unsigned else "long"  # noqa: PLR2004 - the width itself


def _decimal(precision: int, scale: int) -> JsonValue:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def _zero(*, zero_is_null: bool) -> dict[str, JsonValue]:
    return {_ZERO_IS_NULL: True} if zero_is_null else {}


def _known(values: Mapping[_Found, _Value], found: _Found, attribute: str = "penstock.bits") -> _Value:
    if found not in values:
        refuse(f"{attribute} is {found}, which no column has")
    return values[found]

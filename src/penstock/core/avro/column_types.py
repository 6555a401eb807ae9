"""The Avro type of each column type, and the attributes from which the column type is read back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeVar, assert_never

from penstock.core.avro.json_values import JsonObject, JsonValue, refuse
from penstock.core.tables import (
    BytesType,
    ColumnType,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FloatType,
    IntegerType,
    TextType,
    TimestampType,
    UnsupportedType,
    YearType,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_Width = TypeVar("_Width", bound=int)
_UNSIGNED_64_DIGITS: Final = 20
_INTEGER_BITS: Final[Mapping[int, Literal[8, 16, 24, 32, 64]]] = {8: 8, 16: 16, 24: 24, 32: 32, 64: 64}
_FLOAT_BITS: Final[Mapping[int, Literal[32, 64]]] = {32: 32, 64: 64}


def avro_type(type_: ColumnType) -> JsonValue:  # noqa: C901, PLR0911 - one return per member of the union
    """Return the Avro type (without null) that carries `type_`; ValueError for a type that nothing carries."""
    match type_:
        case IntegerType(bits, unsigned):
            return _integer(bits, unsigned=unsigned)
        case DecimalType(precision, scale):
            return _decimal(precision, scale)
        case FloatType(bits):
            return "float" if bits == 32 else "double"  # noqa: PLR2004 - the width itself
        case TextType() | EnumType():
            return "string"
        case BytesType():
            return "bytes"
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


def type_attributes(type_: ColumnType) -> dict[str, JsonValue]:  # noqa: C901, PLR0911 - one return per type
    """Return the `penstock.` attributes that tell `type_` from every other; ValueError as in `avro_type`."""
    match type_:
        case IntegerType(bits, unsigned):
            return {"penstock.type": "integer", "penstock.bits": bits, "penstock.unsigned": unsigned}
        case DecimalType(precision, scale):
            return {"penstock.type": "decimal", "penstock.precision": precision, "penstock.scale": scale}
        case FloatType(bits):
            return {"penstock.type": "float", "penstock.bits": bits}
        case TextType(characters_max, charset):
            return {"penstock.type": "text", "penstock.characters_max": characters_max, "penstock.charset": charset}
        case BytesType(bytes_max, fixed):
            return {"penstock.type": "bytes", "penstock.bytes_max": bytes_max, "penstock.fixed": fixed}
        case DateType():
            return {"penstock.type": "date"}
        case DateTimeType(fraction_digits):
            return {"penstock.type": "datetime", "penstock.fraction_digits": fraction_digits}
        case TimestampType(fraction_digits):
            return {"penstock.type": "timestamp", "penstock.fraction_digits": fraction_digits}
        case YearType():
            return {"penstock.type": "year"}
        case EnumType(labels):
            return {"penstock.type": "enum", "penstock.labels": labels}
        case UnsupportedType(declaration):
            message = f"no Avro type carries {declaration}"
            raise ValueError(message)
        case _:
            assert_never(type_)


def column_type(field: JsonObject) -> ColumnType:  # noqa: C901, PLR0911, RET503 - one return per type; refuse() does not return
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
        case "date":
            return DateType()
        case "datetime":
            return DateTimeType(field.integer("penstock.fraction_digits"))
        case "timestamp":
            return TimestampType(field.integer("penstock.fraction_digits"))
        case "year":
            return YearType()
        case "enum":
            return EnumType(field.texts("penstock.labels"))
        case other:
            refuse(f"penstock.type is {other!r}, which this release does not know")


def _integer(bits: int, *, unsigned: bool) -> JsonValue:
    if bits + unsigned <= 32:  # noqa: PLR2004 - Avro's int has 32 bits with its sign
        return "int"
    return _decimal(_UNSIGNED_64_DIGITS, 0) if bits == 64 and unsigned else "long"  # noqa: PLR2004 - the width itself


def _decimal(precision: int, scale: int) -> JsonValue:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def _known(widths: Mapping[int, _Width], bits: int) -> _Width:
    if bits not in widths:
        refuse(f"penstock.bits is {bits}, which no column has")
    return widths[bits]

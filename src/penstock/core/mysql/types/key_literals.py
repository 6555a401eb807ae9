"""Values of a primary key as literals that the server compares as it compares the column with itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from penstock.core.arrow_types import arrow_type
from penstock.core.mysql.types.text_values import parse_values
from penstock.core.tables import (
    BitType,
    BytesType,
    DecimalType,
    EnumType,
    FloatType,
    IntegerType,
    SetType,
    TextType,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.tables import Column

_NUMBER: Final = re.compile(rb"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_PRINTED: Final = re.compile(rb"[-+:. /0-9a-zA-Z]*")


def literal(column: Column, printed: bytes) -> str:
    """Return a value that was printed as `select_expression` has it, as a literal. ValueError for one that is none."""
    match column.type:
        case TextType(charset=charset):
            # The column's collation counts: it is stronger than that of a literal.
            return f"_{charset} X'{printed.hex()}'"
        case BytesType():
            return f"X'{printed.hex()}'"
        case IntegerType() | DecimalType() | BitType() | EnumType() | SetType() if _NUMBER.fullmatch(printed):
            return printed.decode()
        case FloatType() if _NUMBER.fullmatch(printed):
            text = printed.decode()
            return text if "e" in text.lower() else f"{text}e0"
        case IntegerType() | DecimalType() | BitType() | EnumType() | SetType() | FloatType():
            pass
        case _ if _PRINTED.fullmatch(printed):
            return f"'{printed.decode()}'"
        case _:
            pass
    text = f"{printed!r} is no value of a key of type {column.declaration}"
    raise ValueError(text)


def literal_of(column: Column, value: object) -> str:
    """Return a value of `keys.read_key` as a literal. ValueError for one that the column does not hold."""
    match column.type:
        case TextType(charset=charset):
            # What was converted is as strong as the column: without its collation the two conflict.
            collate = f" COLLATE {column.collation}" if column.collation else ""
            return f"CONVERT(_utf8mb4 X'{str(value).encode().hex()}' USING {charset}){collate}"
        case EnumType() | SetType():
            return f"_utf8mb4 X'{str(value).encode().hex()}'"
        case FloatType():
            # The server compares a FLOAT as the DOUBLE that it is: 0.1 of 32 bits is no 0.1 of 64 bits.
            (held,) = key_values(column, [value]).to_pylist()
            return literal(column, repr(held).encode())
        case _:
            return literal(column, _printed(column, value))


def key_values(column: Column, values: Sequence[object]) -> pa.Array[Any]:
    """Return values of `keys.read_key` as the column's Arrow type; ValueError (pyarrow's own) as `parse_values`."""
    match column.type:
        case TextType() | EnumType() | SetType():
            return pa.array(list(map(str, values)), arrow_type(column.type))
        case _:
            return parse_values(
                column.type, pa.array([_printed(column, value) for value in values], pa.binary()), in_key=True
            )


def _printed(column: Column, value: object) -> bytes:
    if not isinstance(column.type, BytesType):
        return str(value).encode()
    text = str(value)
    if not text.startswith("0x"):
        message = f"{text!r} does not begin with 0x"
        raise ValueError(message)
    raw = bytes.fromhex(text.removeprefix("0x"))
    return raw.ljust(column.type.bytes_max, b"\0") if column.type.fixed else raw

"""What sets one warehouse's SQL apart from another's, as data that the planner reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

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


@dataclass(frozen=True, slots=True)
class Dialect:
    """One warehouse's names for types, its limits, and its ways of writing.

    `integers` maps (bits, unsigned) and `floats` maps bits to a type's name.
    `decimal` is filled with `precision` and `scale`, of which the precision may
    be `decimal_precision_max`. `instant_of_ms` turns the Unix milliseconds in
    `{ms}` into the type `timestamp`. `blob_byte` writes one `{byte}` of a
    binary literal. `printed` names the type of each kind of printed value;
    `vector` is filled with `dimensions`. Names are compared without regard to case.
    """

    name: str
    integers: Mapping[tuple[int, bool], str]
    floats: Mapping[int, str]
    decimal: str
    decimal_precision_max: int
    text: str
    binary: str
    date: str
    time: str
    datetime: str
    timestamp: str
    year: str
    printed: Mapping[PrintedKind, str]
    vector: str
    identifier_quote: str
    blob_byte: str
    instant_of_ms: str


DUCKDB = Dialect(
    name="duckdb",
    integers={
        (8, False): "TINYINT",
        (8, True): "UTINYINT",
        (16, False): "SMALLINT",
        (16, True): "USMALLINT",
        (24, False): "INTEGER",
        (24, True): "UINTEGER",
        (32, False): "INTEGER",
        (32, True): "UINTEGER",
        (64, False): "BIGINT",
        (64, True): "UBIGINT",
    },
    floats={32: "FLOAT", 64: "DOUBLE"},
    decimal="DECIMAL({precision}, {scale})",
    decimal_precision_max=38,
    text="VARCHAR",
    binary="BLOB",
    date="DATE",
    time="INTERVAL",
    datetime="TIMESTAMP",
    timestamp="TIMESTAMP WITH TIME ZONE",
    year="SMALLINT",
    printed={
        "json": "JSON",
        "uuid": "UUID",
        "inet4": "VARCHAR",
        "inet6": "VARCHAR",
        "date": "VARCHAR",
        "datetime": "VARCHAR",
        "timestamp": "VARCHAR",
    },
    vector="FLOAT[]",
    identifier_quote='"',
    blob_byte="\\x{byte:02X}",
    instant_of_ms="MAKE_TIMESTAMPTZ({ms} * 1000)",
)
"""DuckDB 1.4 and later. Its DECIMAL ends at 38 digits, its timestamps at microseconds."""


def render_type(dialect: Dialect, type_: ColumnType) -> str:  # noqa: PLR0912, C901, PLR0911 - one return per member of the union
    """Return the warehouse's name for `type_`; ValueError, which says why, where it has none."""
    match type_:
        case IntegerType(bits, unsigned):
            return dialect.integers[bits, unsigned]
        case BitType(bits):
            return render_type(dialect, bit_integer(bits))
        case DecimalType(precision, scale):
            if precision > dialect.decimal_precision_max:
                digits = f"{dialect.name} holds {dialect.decimal_precision_max} decimal digits"
                message = f"{digits}, and DECIMAL({precision},{scale}) needs {precision}"
                raise ValueError(message)
            return dialect.decimal.format(precision=precision, scale=scale)
        case FloatType(bits):
            return dialect.floats[bits]
        case TextType() | EnumType() | SetType():
            return dialect.text
        case PrintedType(kind):
            return dialect.printed[kind]
        case BytesType() | GeometryType():
            return dialect.binary
        case VectorType(dimensions):
            return dialect.vector.format(dimensions=dimensions)
        case DateType():
            return dialect.date
        case TimeType():
            return dialect.time
        case DateTimeType():
            return dialect.datetime
        case TimestampType():
            return dialect.timestamp
        case YearType():
            return dialect.year
        case UnsupportedType(declaration):
            message = f"this version cannot carry {declaration} exactly"
            raise ValueError(message)
        case _:
            assert_never(type_)


def quote_name(dialect: Dialect, *path: str) -> str:
    """Quote a name, or a dotted path of names, leaving out empty ones."""
    mark = dialect.identifier_quote
    return ".".join(f"{mark}{name.replace(mark, mark * 2)}{mark}" for name in path if name)


def quote_text(text: str) -> str:
    """Quote a text literal, as standard SQL does."""
    return "'" + text.replace("'", "''") + "'"

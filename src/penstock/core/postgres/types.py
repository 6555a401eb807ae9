"""The column types of PostgreSQL, as ours.

Sources: PostgreSQL 18 documentation, chapter 8, and "pg_type"; the OIDs of its own types are those of
`src/include/catalog/pg_type.dat`, which never change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from penstock.core.tables import (
    BytesType,
    ColumnType,
    DateTimeType,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    PrintedType,
    TextType,
    TimestampType,
    TimeType,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

SpecialValues: TypeAlias = Literal["stop", "text"]
"""`stop` stops a table at NaN in a NUMERIC and at dates that no calendar has; `text` carries such columns as text."""

BOOL, BYTEA, CHAR, NAME, INT8, INT2, INT4 = 16, 17, 18, 19, 20, 21, 23
TEXT, OID, JSON, FLOAT4, FLOAT8 = 25, 26, 114, 700, 701
BPCHAR, VARCHAR, DATE, TIME, TIMESTAMP, TIMESTAMPTZ = 1042, 1043, 1082, 1083, 1114, 1184
BIT, VARBIT, NUMERIC, UUID, JSONB = 1560, 1562, 1700, 2950, 3802
INTERVAL, TIMETZ = 1186, 1266

_UNLIMITED_TEXT: Final = 1 << 30
_UNLIMITED_BYTES: Final = 1 << 30
_NAME_LENGTH: Final = 63
_DECIMAL_PRECISION_MAX: Final = 76
_HEADER: Final = 4
"""A modifier is a length with four bytes more."""
_FRACTION_DIGITS: Final = 6
_CHARSET: Final = "utf8mb4"
_DEEP_MAX: Final = 32

_FIXED: Final[Mapping[int, ColumnType]] = {
    BOOL: IntegerType(8, unsigned=False),
    BYTEA: BytesType(_UNLIMITED_BYTES, fixed=False),
    CHAR: TextType(1, _CHARSET),
    NAME: TextType(_NAME_LENGTH, _CHARSET),
    INT8: IntegerType(64, unsigned=False),
    INT2: IntegerType(16, unsigned=False),
    INT4: IntegerType(32, unsigned=False),
    TEXT: TextType(_UNLIMITED_TEXT, _CHARSET),
    OID: IntegerType(32, unsigned=True),
    JSON: PrintedType("json"),
    JSONB: PrintedType("json"),
    FLOAT4: FloatType(32),
    FLOAT8: FloatType(64),
    UUID: PrintedType("uuid"),
}
_OTHERS: Final = PrintedType("postgres")
_PRINTED: Final = frozenset({NUMERIC, VARCHAR, BPCHAR, BIT, VARBIT, TIME, TIMESTAMP, TIMESTAMPTZ})
_UNSAID: Final = frozenset({INTERVAL, TIMETZ})
_FIRST_OF_OTHERS: Final = 16_384
"""From here on OIDs are those of extensions and users."""


@dataclass(frozen=True, slots=True)
class TypeInfo:
    """A type as the catalog has it.

    `kind` is its typtype: `b`ase, `c`omposite, `d`omain, `e`num, `m`ultirange,
    `p`seudo, `r`ange. `below` is the type of a domain, with `modifier`; `element`
    that of an array, whose elements are apart by `delimiter`; 0 for none.
    """

    name: str
    kind: str = "b"
    below: int = 0
    modifier: int = -1
    element: int = 0
    delimiter: str = ","


@dataclass(frozen=True, slots=True)
class FoundType:
    """A column's type below all domains; `info` is None for one that the catalog does not have any more."""

    oid: int
    modifier: int
    info: TypeInfo | None


def find_type(oid: int, modifier: int, types: Mapping[int, TypeInfo]) -> FoundType:
    """Look a type up among `types`, by OID."""
    info = types.get(oid)
    for _ in range(_DEEP_MAX):
        if info is None or info.kind != "d":
            break
        # A domain over a domain has the modifier of the one that was made with one.
        oid, modifier = info.below, info.modifier if modifier < 0 else modifier
        info = types.get(oid)
    return FoundType(oid, modifier, info)


def column_type(found: FoundType, special: SpecialValues = "stop") -> ColumnType:  # noqa: PLR0911 - one return per type
    """Return the type that carries a column; a type that no other database has is carried as PostgreSQL prints it."""
    oid, modifier = found.oid, found.modifier
    if oid in _FIXED:
        return _FIXED[oid]
    match oid:
        case _ if oid in {VARCHAR, BPCHAR}:
            return TextType(modifier - _HEADER if modifier >= _HEADER else _UNLIMITED_TEXT, _CHARSET)
        case _ if oid == NUMERIC and special == "stop":
            return _numeric(modifier)
        case _ if oid == TIME:
            return TimeType(_fraction_digits(modifier))
        case _ if oid == DATE and special == "stop":
            return DateType()
        case _ if oid == TIMESTAMP and special == "stop":
            return DateTimeType(_fraction_digits(modifier))
        case _ if oid == TIMESTAMPTZ and special == "stop":
            return TimestampType(_fraction_digits(modifier))
        case _:
            return _named(found.info)


def is_array(info: TypeInfo | None) -> bool:
    """Whether values are arrays; int2vector and oidvector, which print without braces, are none."""
    return info is not None and info.element > 0 and info.name.startswith("_")


def declaration(found: FoundType) -> str:
    """Return the type as a CREATE TABLE has it."""
    name = _SQL_NAMES.get(found.oid) or (found.info.name if found.info else f"oid {found.oid}")
    modifier = found.modifier
    if is_array(found.info):
        name = f"{name.removeprefix('_')}[]"
    if modifier < 0:
        return name
    match found.oid:
        case _ if found.oid == NUMERIC:
            return f"{name}({','.join(map(str, _digits(modifier)))})"
        case _ if found.oid in {VARCHAR, BPCHAR}:
            return f"{name}({modifier - _HEADER})"
        case _ if found.oid in _PRINTED:
            return f"{name}({modifier})"
        case _:
            return name


def unsaid_modifier(found: FoundType) -> int | None:
    """Return the modifier that `declaration` leaves out, -1 for none; None for a type that never has one."""
    oid = found.info.element if found.info is not None and is_array(found.info) else found.oid
    if is_array(found.info):
        return found.modifier if oid in _PRINTED | _UNSAID or oid >= _FIRST_OF_OTHERS else None
    is_added = oid >= _FIRST_OF_OTHERS and found.info is not None and found.info.kind == "b"
    return found.modifier if oid in _UNSAID or is_added else None


def _named(info: TypeInfo | None) -> ColumnType:
    if info is None:
        return _OTHERS
    if info.kind == "e":
        return TextType(_NAME_LENGTH, _CHARSET)
    if info.name == "citext":
        return TextType(_UNLIMITED_TEXT, _CHARSET)
    return PrintedType("json") if is_array(info) else _OTHERS


def _numeric(modifier: int) -> ColumnType:
    """A NUMERIC without limits, or wider than any decimal of ours, is carried as text: so NaN is a value of it."""
    if modifier < _HEADER:
        return _OTHERS
    precision, scale = _digits(modifier)
    # numeric(2,-3) rounds to thousands, numeric(3,5) has zeros behind the point.
    precision, scale = (precision - scale, 0) if scale < 0 else (max(precision, scale), scale)
    return DecimalType(precision, scale) if precision <= _DECIMAL_PRECISION_MAX else _OTHERS


def _digits(modifier: int) -> tuple[int, int]:
    """Precision and scale of a NUMERIC; the scale has 11 bits and a sign."""
    packed = modifier - _HEADER
    return packed >> 16 & 0xFFFF, ((packed & 0x7FF) ^ 1024) - 1024


def _fraction_digits(modifier: int) -> int:
    return modifier if 0 <= modifier <= _FRACTION_DIGITS else _FRACTION_DIGITS


_SQL_NAMES: Final[Mapping[int, str]] = {
    BOOL: "boolean",
    INT2: "smallint",
    INT4: "integer",
    INT8: "bigint",
    FLOAT4: "real",
    FLOAT8: "double precision",
    BPCHAR: "character",
    VARCHAR: "character varying",
    NUMERIC: "numeric",
    TIME: "time",
    TIMESTAMP: "timestamp",
    TIMESTAMPTZ: "timestamp with time zone",
    BIT: "bit",
    VARBIT: "bit varying",
}

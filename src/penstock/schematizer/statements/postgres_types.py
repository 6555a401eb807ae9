"""PostgreSQL's types: read from SQL, and as the types that tables are made of.

Source: PostgreSQL 17 documentation, chapter 8 "Data Types", and CREATE DOMAIN.
What has no counterpart in other databases is carried as the text that PostgreSQL
prints: intervals, bit strings, addresses, ranges, arrays, numbers without bounds.
A boolean is a number, 0 or 1, as in MySQL.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NoReturn

from penstock.core.tables import (
    BytesType,
    ColumnType,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FloatType,
    GeometryType,
    IntegerType,
    PrintedType,
    TextType,
    TimestampType,
    TimeType,
    VectorType,
)

if TYPE_CHECKING:
    from penstock.schematizer.statements.sql_words import WordReader

_SYNONYMS: Final = {
    "int2": "smallint",
    "int4": "integer",
    "int": "integer",
    "int8": "bigint",
    "bool": "boolean",
    "float4": "real",
    "float8": "double precision",
    "decimal": "numeric",
    "dec": "numeric",
    "char": "character",
    "nchar": "character",
    "varchar": "character varying",
    "varbit": "bit varying",
    "serial2": "smallserial",
    "serial4": "serial",
    "serial8": "bigserial",
}
_SERIALS: Final = {"smallserial": "smallint", "serial": "integer", "bigserial": "bigint"}
_INTEGERS: Final = {
    "smallint": IntegerType(16, unsigned=False),
    "integer": IntegerType(32, unsigned=False),
    "bigint": IntegerType(64, unsigned=False),
    "oid": IntegerType(32, unsigned=True),
    "boolean": IntegerType(8, unsigned=False),
}
_RANGES: Final = ("int4", "int8", "num", "ts", "tstz", "date")
_PRINTED: Final = frozenset(
    {
        *("money", "interval", "time with time zone", "bit", "bit varying", "xml", "jsonpath"),
        *("inet", "cidr", "macaddr", "macaddr8", "pg_lsn", "pg_snapshot", "txid_snapshot", "tsvector", "tsquery"),
        *("point", "line", "lseg", "box", "path", "polygon", "circle"),
        *("hstore", "ltree", "lquery", "cube", "regclass", "regtype", "regproc", "xid", "xid8", "tid", "cid"),
        *(f"{name}{kind}" for name in _RANGES for kind in ("range", "multirange")),
    }
)
_INTERVAL_WORDS: Final = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "TO")
_FRACTION_DIGITS: Final = 6
_SINGLE_PRECISION_BITS_MAX: Final = 24
_VALUE_BYTES_MAX: Final = (1 << 30) - 1
_NAME_CHARACTERS_MAX: Final = 63
_NUMBER_DIGITS_MAX: Final = 9
_CHARSET: Final = "utf8mb4"
PRINTED: Final = PrintedType("postgres")


@dataclass(frozen=True, slots=True)
class DeclaredType:
    """A type that a text declares: a domain with its NOT NULL and default, an enum, or another one."""

    type: ColumnType
    not_null: bool = False
    default: str | None = None
    default_is_expression: bool = False


@dataclass(frozen=True, slots=True)
class ReadType:
    """A column's type: as it is carried, as PostgreSQL prints it, and what a domain says beside it."""

    type: ColumnType
    declaration: str
    declared: DeclaredType | None = None
    is_serial: bool = False


@dataclass(slots=True)
class KnownTypes:
    """The types that the text has declared so far, by the last part of their names."""

    declared: dict[str, DeclaredType] = field(default_factory=dict)

    def read(self, reader: WordReader) -> ReadType:
        """Take a type. Raises RefusedError, with its place, for one that is not known."""
        at = WordMark(reader)
        is_quoted = reader.peek().kind == "name"
        path = reader.path()
        name = path[-1]
        if not is_quoted or path[:-1] == ("pg_catalog",):
            name = _whole_name(reader, _SYNONYMS.get(name, name) if name != "char" or not is_quoted else name)
        arguments = _arguments(reader)
        name, arguments = _time_zone(reader, name, arguments)
        if name == "interval":
            while reader.peek().is_word(*_INTERVAL_WORDS):
                reader.take()
            arguments = _arguments(reader) or arguments
        found = self._one(at, path, name, arguments)
        if _take_dimensions(reader):
            return ReadType(PRINTED, f"{found.declaration}[]")
        return found

    def _one(self, at: WordMark, path: tuple[str, ...], name: str, arguments: tuple[int, ...]) -> ReadType:
        declared = self.declared.get(path[-1])
        if declared is not None:
            return ReadType(declared.type, ".".join(path), declared)
        plain = _SERIALS.get(name, name)
        listed = f"({','.join(str(number) for number in arguments)})" if arguments else ""
        first, _, rest = plain.partition(" ")
        declaration = f"{first}{listed} {rest}" if rest.endswith("time zone") else f"{plain}{listed}"
        type_ = _type(plain, arguments)
        if type_ is None:
            at.refuse(
                f"there is no type {'.'.join(path)}",
                "send the CREATE TYPE or CREATE DOMAIN that makes it before the table, in the same text",
            )
        return ReadType(type_, declaration, is_serial=name in _SERIALS)


class WordMark:
    """A place to come back to with a refusal: that of the reader's next word."""

    def __init__(self, reader: WordReader) -> None:
        """Remember where `reader` is."""
        self._reader, self._place = reader, reader.place

    def refuse(self, reason: str, hint: str) -> NoReturn:
        """Refuse because of the word that was next."""
        self._reader.place = self._place
        self._reader.refuse(reason, hint)


def _whole_name(reader: WordReader, name: str) -> str:
    if name == "double":
        reader.expect("PRECISION")
        return "double precision"
    if name == "national":
        reader.expect(*(() if reader.take_if("CHAR") else ("CHARACTER",)))
        name = "character"
    if name in {"character", "bit"} and reader.take_if("VARYING"):
        return f"{name} varying"
    return name


def _time_zone(reader: WordReader, name: str, arguments: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    if name in {"timestamptz", "timetz"}:
        return f"{name.removesuffix('tz')} with time zone", arguments
    if name in {"timestamp", "time"}:
        with_zone = reader.take_if("WITH", "TIME", "ZONE")
        if not with_zone:
            reader.take_if("WITHOUT", "TIME", "ZONE")
        return f"{name} {'with' if with_zone else 'without'} time zone", arguments
    return name, arguments


def _arguments(reader: WordReader) -> tuple[int, ...]:
    if not reader.peek().is_word("("):
        return ()
    inner, numbers = reader.inner(), []
    while not inner.is_at_end:
        sign = -1 if inner.take_if("-") else 1
        word = inner.peek()
        if word.kind != "number" or not word.text.isdecimal() or len(word.text) > _NUMBER_DIGITS_MAX:
            # PostGIS writes names into its types, which do not change what a value is.
            if inner.peek().kind == "word" and word.text.isalpha():
                inner.take()
                inner.take_if(",")
                continue
            inner.refuse("there should be a whole number")
        numbers.append(sign * int(inner.take().text))
        if not inner.is_at_end:
            inner.expect(",")
    return tuple(numbers)


def _take_dimensions(reader: WordReader) -> bool:
    found = reader.take_if("ARRAY")
    while reader.take_if("["):
        found = True
        if reader.peek().kind == "number":
            reader.take()
        reader.expect("]")
    return found


def _type(name: str, arguments: tuple[int, ...]) -> ColumnType | None:  # noqa: C901, PLR0911, PLR0912 - one return per kind
    match name:
        case _ if name in _INTEGERS:
            return _INTEGERS[name]
        case "numeric":
            return _decimal(*arguments) if arguments else PRINTED
        case "real":
            return FloatType(32)
        case "double precision":
            return FloatType(64)
        case "float":
            return FloatType(32 if arguments and arguments[0] <= _SINGLE_PRECISION_BITS_MAX else 64)
        case "character":
            return TextType(arguments[0] if arguments else 1, _CHARSET)
        case "character varying" | "bpchar" | "text" | "citext":
            return TextType(arguments[0] if arguments else _VALUE_BYTES_MAX, _CHARSET)
        case "char":
            return TextType(1, _CHARSET)
        case "name":
            return TextType(_NAME_CHARACTERS_MAX, _CHARSET)
        case "bytea":
            return BytesType(_VALUE_BYTES_MAX, fixed=False)
        case "date":
            return DateType()
        case "time without time zone":
            return TimeType(_digits(arguments))
        case "timestamp without time zone":
            return DateTimeType(_digits(arguments))
        case "timestamp with time zone":
            return TimestampType(_digits(arguments))
        case "uuid":
            return PrintedType("uuid")
        case "json" | "jsonb":
            return PrintedType("json")
        case "geometry" | "geography":
            return GeometryType()
        case "vector" if arguments:
            return VectorType(arguments[0])
        case _:
            return PRINTED if name in _PRINTED else None


def _digits(arguments: tuple[int, ...]) -> int:
    return min(arguments[0], _FRACTION_DIGITS) if arguments else _FRACTION_DIGITS


def _decimal(precision: int, scale: int = 0) -> DecimalType:
    """Hold every value of NUMERIC(precision, scale), whose scale may be negative, or more than its precision."""
    return DecimalType(max(precision, scale, precision - scale), max(scale, 0))


def enum_type(labels: tuple[str, ...]) -> DeclaredType:
    """Return the type that CREATE TYPE ... AS ENUM makes."""
    return DeclaredType(EnumType(labels))

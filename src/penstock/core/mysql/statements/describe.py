"""From the rows of information_schema to the schema of a table.

Source: MariaDB Server documentation, "Information Schema COLUMNS Table" (since
10.2.7 a literal default is quoted and no default of a nullable column is the
word NULL); MySQL Reference Manual, "The INFORMATION_SCHEMA COLUMNS Table".
Tried on MariaDB 10.11: with binlog_row_image=FULL the row image holds every
column of information_schema in its order, invisible and generated ones
included (virtual ones with their computed value), and after them the two hidden
columns of a system-versioned table. Every row of such a table that there ever was
is a row in the log, whose key has the end of its period in it: ROW_END is a part
of the primary key, which information_schema says only where it is not hidden.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

from penstock.core.mysql.types.charsets import BYTES_PER_CHARACTER, has_character_for_every_byte
from penstock.core.tables import (
    BitType,
    BytesType,
    Column,
    ColumnType,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FloatType,
    GeometryType,
    IntegerType,
    PrintedType,
    SetType,
    TableId,
    TableSchema,
    TextType,
    TimestampType,
    TimeType,
    UnsupportedType,
    VectorType,
    YearType,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

Flavour: TypeAlias = Literal["mariadb", "mysql"]

_INTEGER_BITS: dict[str, Literal[8, 16, 24, 32, 64]] = {
    "tinyint": 8,
    "smallint": 16,
    "mediumint": 24,
    "int": 32,
    "bigint": 64,
}
_TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
GEOMETRY_TYPES = frozenset(
    {
        "geometry",
        "point",
        "linestring",
        "polygon",
        "multipoint",
        "multilinestring",
        "multipolygon",
        "geometrycollection",
        "geomcollection",
    }
)
"""What DATA_TYPE of information_schema calls a geometry."""
_BITS = re.compile(r"b'([01]+)'")
_NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:e[+-]?\d+)?", re.IGNORECASE)
_SAME_AS_TEXT = re.compile(r"0|-?[1-9]\d{0,8}")
_QUOTED = re.compile(r"'((?:[^'\\]|\\.|'')*+)'", re.DOTALL)
_HEXADECIMAL = re.compile(r"x'((?:[0-9a-f]{2})*)'", re.IGNORECASE)
_ESCAPED = re.compile(r"\\(.)|''", re.DOTALL)
_ESCAPES = {"0": "\0", "n": "\n", "r": "\r", "t": "\t", "b": "\b", "Z": "\x1a"}
_FLOAT_DIGITS_SAFE = 5
# How MariaDB marks times that it stores as it did before 10.0, and columns that it compresses; the log says so too.
_STORED_OTHERWISE = re.compile(r" /\* mariadb-5\.3 \*/| /\*m?!\d+ compressed\*/")
_PERIOD_BOUNDS = frozenset({"ROW START", "ROW END"})
_LABELS = re.compile(rf"(?:enum|set)\((?:{_QUOTED.pattern}(?:,(?=')|\)$))+", re.IGNORECASE | re.DOTALL)
# information_schema prints a question mark in place of a character that UTF-8 writes with four bytes, and of one that
# the server does not know; for some of these MariaDB has U+FFFD. In these sets only bytes that are no text print so.
_SAFE_WITH_QUESTION_MARK = frozenset({"", "ascii", "utf8mb3", "utf8", "ucs2"})


@dataclass(frozen=True, slots=True)
class ColumnRow:
    """One row of information_schema.columns, in its own words.

    `characters_max` is CHARACTER_MAXIMUM_LENGTH, `fraction_digits`
    DATETIME_PRECISION; both 0 where the type has none.
    """

    name: str
    data_type: str
    column_type: str
    nullable: bool
    default: str | None
    extra: str
    generation: str
    charset: str
    characters_max: int
    fraction_digits: int
    comment: str
    collation: str = ""


_HIDDEN_PERIOD = tuple(
    ColumnRow(name, "timestamp", "timestamp(6)", False, None, "STORED GENERATED, INVISIBLE", bound, "", 0, 6, "")  # noqa: FBT003 - in the order of information_schema
    for name, bound in (("row_start", "ROW START"), ("row_end", "ROW END"))
)
_ROW_END_DECLARATION = "GENERATED ALWAYS AS (ROW END) STORED"


@dataclass(frozen=True, slots=True)
class TableRow:
    """What information_schema.tables says of one table; `kind` is its TABLE_TYPE."""

    table: TableId
    kind: str
    comment: str


def describe_table(row: TableRow, columns: Sequence[ColumnRow], key: Sequence[str], flavour: Flavour) -> TableSchema:
    """Put a table together from its rows, `columns` in ordinal order.

    `key` are the columns of the primary key in key order. A key part that is
    only a prefix of its column counts as the whole column: what is unique by a
    prefix is unique by the whole.
    """
    has_hidden = row.kind == "SYSTEM VERSIONED" and not any(column.generation in _PERIOD_BOUNDS for column in columns)
    described = tuple(
        describe_column(column, flavour) for column in (*columns, *(_HIDDEN_PERIOD if has_hidden else ()))
    )
    whole_key = (*key, _HIDDEN_PERIOD[1].name) if has_hidden and key else tuple(key)
    return TableSchema(row.table, described, whole_key, row.comment)


def is_system_versioned(schema: TableSchema) -> bool:
    """Whether a table keeps its history, which a SELECT shows only when asked."""
    return any(column.declaration.endswith(_ROW_END_DECLARATION) for column in schema.columns)


def describe_column(row: ColumnRow, flavour: Flavour) -> Column:
    """One column with its type and what we can know of its default."""
    type_ = _column_type(row)
    declaration = row.column_type
    if row.generation:
        kind = "VIRTUAL" if "VIRTUAL" in row.extra.upper() else "STORED"
        declaration = f"{declaration} GENERATED ALWAYS AS ({row.generation}) {kind}"
    default, is_expression = _default(row, type_, flavour)
    counts = "AUTO_INCREMENT" in row.extra.upper()
    return Column(
        row.name,
        type_,
        row.nullable,
        declaration,
        default,
        is_expression,
        row.comment,
        row.collation,
        counts,
        (row.default or "") if is_expression and not row.generation else "",
    )


def _column_type(row: ColumnRow) -> ColumnType:
    declaration = _STORED_OTHERWISE.sub("", _QUOTED.sub("", row.column_type.lower()))
    # Any other comment in a type says that it is stored in a way that we do not know. A period of transaction
    # numbers is not known before the commit: its table's changes are logged as statements.
    if "/*" in declaration or (row.generation in _PERIOD_BOUNDS and row.data_type.lower() != "timestamp"):
        return UnsupportedType(f"{row.column_type} {row.generation}".rstrip())
    kind = row.data_type.lower()
    if kind in _TEXTS:
        charset = {"utf8": "utf8mb3"}.get(row.charset.lower(), row.charset.lower())
        unsupported = UnsupportedType(f"{row.column_type} character set {row.charset}")
        return TextType(row.characters_max, charset) if charset in BYTES_PER_CHARACTER else unsupported
    if kind in _BYTES:
        return BytesType(row.characters_max, fixed=kind == "binary")
    return (
        _number_type(kind, declaration)
        or _time_or_label_type(row, kind)
        or _special_type(kind, declaration)
        or UnsupportedType(row.column_type)
    )


def _number_type(kind: str, declaration: str) -> ColumnType | None:
    if kind in _INTEGER_BITS:
        return IntegerType(_INTEGER_BITS[kind], unsigned="unsigned" in declaration)
    if kind in {"float", "double"}:
        return FloatType(32 if kind == "float" else 64)
    if kind == "decimal" and (digits := re.search(r"\((\d+),(\d+)\)", declaration)):
        return DecimalType(int(digits[1]), int(digits[2]))
    if kind == "bit":
        return BitType(_length(declaration))
    return None


def _time_or_label_type(row: ColumnRow, kind: str) -> ColumnType | None:  # noqa: PLR0911 - one return per member of the union
    match kind:
        case "date":
            return DateType()
        case "time":
            return TimeType(row.fraction_digits)
        case "datetime":
            return DateTimeType(row.fraction_digits)
        case "timestamp":
            return TimestampType(row.fraction_digits)
        case "year" if row.column_type.lower().startswith("year(2)"):
            return UnsupportedType(f"{row.column_type}, which prints years without their century")
        case "year":
            return YearType()
        case "enum" | "set" if reason := _why_labels_are_unknown(row.column_type, row.charset):
            return UnsupportedType(f"{row.column_type}, {reason}")
        case "enum":
            return EnumType(_labels(row.column_type))
        case "set":
            return SetType(_labels(row.column_type))
        case _:
            return None


def _special_type(kind: str, declaration: str) -> ColumnType | None:
    match kind:
        case "json" | "uuid" | "inet4" | "inet6":
            return PrintedType(kind)
        case "vector":
            return VectorType(_length(declaration))
        case _:
            return GeometryType() if kind in GEOMETRY_TYPES else None


def _why_labels_are_unknown(column_type: str, charset: str) -> str:
    """Say why what the server prints are not the labels that it has; "" if they are."""
    if not _LABELS.fullmatch(column_type):
        return "of whose labels the server prints some as bytes"
    labels = _labels(column_type)
    marked = [label for label in labels if "?" in label]
    if _may_be_another_character("".join(labels), charset) or len(set(marked)) < len(marked):
        return "in which ? may stand for a character that the server hides"
    return ""


def _may_be_another_character(printed: str, charset: str) -> bool:
    """Whether a character in `printed` may stand for one that the server cannot print."""
    if "?" not in printed and "\ufffd" not in printed:
        return False
    return charset.lower() not in _SAFE_WITH_QUESTION_MARK and not has_character_for_every_byte(charset.lower())


def _labels(column_type: str) -> tuple[str, ...]:
    return tuple(_unescape(label) for label in _QUOTED.findall(column_type))


def _length(declaration: str) -> int:
    """Return the number in `bit(8)`; MySQL's VECTOR has one that it does not always print."""
    found = re.search(r"\((\d+)\)", declaration)
    return int(found[1]) if found else 1


def _default(row: ColumnRow, type_: ColumnType, flavour: Flavour) -> tuple[str | None, bool]:
    """Return the constant default, and whether only the source can say what existing rows take."""
    if row.generation or "auto_increment" in row.extra.lower():
        return None, True
    if isinstance(type_, BitType) and (bits := _BITS.fullmatch(row.default or "")):
        return str(int(bits[1], 2)), False
    default, is_expression = _mariadb_default(row.default, type_) if flavour == "mariadb" else _mysql_default(row)
    if default is not None and not _is_exact(default, type_):
        return None, True
    return default, is_expression


def _mariadb_default(text: str | None, type_: ColumnType) -> tuple[str | None, bool]:
    if text is None or text.upper() == "NULL":
        return None, False
    if quoted := _QUOTED.fullmatch(text):
        return _unescape(quoted[1]), False
    # So MariaDB 11 and newer print what is binary.
    if printed := _HEXADECIMAL.fullmatch(text):
        raw = bytes.fromhex(printed[1])
        return (raw.decode(), False) if raw.isascii() else (None, True)
    # Of TEXT and BLOB it prints what was typed: 1e1, and fills 10.
    number = _SAME_AS_TEXT if isinstance(type_, TextType | BytesType) else _NUMBER
    return (text, False) if number.fullmatch(text) else (None, True)


def _mysql_default(row: ColumnRow) -> tuple[str | None, bool]:
    text = row.default
    # MySQL 5.7 prints the one expression it knows without marking it.
    is_now = row.data_type.lower() in {"datetime", "timestamp"} and (text or "").upper().startswith("CURRENT_TIMESTAMP")
    is_expression = is_now or "DEFAULT_GENERATED" in row.extra.upper()
    return (None, True) if is_expression else (text, False)


def _is_exact(default: str, type_: ColumnType) -> bool:
    """Whether what information_schema prints is the value that the source gives to existing rows."""
    match type_:
        case TextType(charset=charset):
            return not _may_be_another_character(default, charset)
        case BytesType():
            # MariaDB prints bytes as text, with a question mark for what is none; MySQL prints them in hexadecimal.
            return default.isascii() and "?" not in default and not default.startswith("0x")
        case TimestampType():
            # A literal is an instant only in the time zone of the session that wrote it.
            return False
        case DateType() | DateTimeType():
            return _is_in_calendar(default)
        case FloatType(32):
            # It is printed with six digits; a longer one may stand behind a full six.
            return len(re.sub(r"e.*|\D", "", default, flags=re.IGNORECASE).strip("0")) <= _FLOAT_DIGITS_SAFE
        case _:
            return True


def _is_in_calendar(printed: str) -> bool:
    """Whether a DATE or DATETIME has a day that there is: servers take others, some only with ALLOW_INVALID_DATES."""
    try:
        datetime.fromisoformat(printed)
    except ValueError:
        return False
    return re.match(r"\d{4}-\d\d-\d\d", printed) is not None


def _unescape(text: str) -> str:
    """Undo the escapes of a string literal, given without its outer quotes."""
    return _ESCAPED.sub(lambda match: _ESCAPES.get(match[1], match[1]) if match[1] else "'", text)

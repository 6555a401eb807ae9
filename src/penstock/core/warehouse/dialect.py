"""What sets one warehouse's SQL apart from another's, as data that the planner reads."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Literal, assert_never

from penstock.core.charset_sizes import utf8_bytes_max
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
    import datetime as dt
    from collections.abc import Mapping


class Retype(Enum):
    """A change of a column's type that leaves the table in its place."""

    ANY = "any"
    WIDER = "any that holds each value that the old one could hold"
    LONGER_TEXT = "longer text"
    LONGER_BINARY = "longer binary"
    MORE_DIGITS = "more digits before the point"


@dataclass(frozen=True, slots=True)
class Dialect:
    """One warehouse's names for types, its limits, and its ways of writing.

    `integers` maps (bits, unsigned) and `floats` maps bits to a type's name.
    `decimal` is filled with `precision` and `scale`, of which the precision may
    be `decimal_precision_max`. `instant_of_ms` turns the Unix milliseconds in
    `{ms}` into the type `timestamp`. `blob` writes a binary literal of the
    digits `{hex}`.
    `printed` names the type of each kind of printed value; `vector` is filled
    with `dimensions`. Names are compared without regard to case.

    `text` and `binary` may be filled with `length`, which is in bytes of UTF-8 or
    in characters, and at most `text_length_max` and `binary_length_max`: where a
    value may be longer, the warehouse refuses that value; of a JSON document it
    refuses more than `json_bytes_max` bytes, 0 where it is a text. It refuses dates before
    `first_date`, and texts with the character NUL unless `text_has_nul`. `time_is_microseconds`
    where no type holds spans of time, and `escapes_backslash` where a backslash
    in a text means something. `pads_texts` where texts are equal that differ
    in blanks at their end only. `name_bytes_max` is 0 without a limit.

    `retype` fills a new `type` into the column `name`; `retypes` are the changes
    that it can make, unless `retypes_in_transaction` ahead of the transaction
    that needs them. For any other one the table is copied into a new one that takes
    its place. `replaced`: a statement that replaces what is at the quoted `path`, if
    there is one, by an empty table with `columns` in brackets. `replaced_by_copy`:
    statements that put a `copy` with the rows of `select` there, none of which reads
    what it changes, so that each can be run again.
    `not_grouped` are types that GROUP BY does not take. `fills_by_default`: a
    column that is added with a DEFAULT has it in the rows that are there.

    Where `key_index_bytes_max` is given, a key of so many bytes at most gets an
    index. `moves_tables`: ALTER TABLE can move a table to another schema.
    `distinct_on`: SELECT DISTINCT ON is there, and quick. `tables_together`: how many tables with a few rows
    each are best loaded in one transaction. `scratch` is what can be
    made TEMPORARY of a query's rows; QUERY where nothing can in a transaction. `definitions_commit`: a statement
    that defines something commits what is open, so that it has to come ahead of the transaction that needs it.
    `renames_to_path`: a table that gets another name goes to the session's schema unless the name says which one.
    `deletes_using`: the table of a DELETE has no
    alias, and other tables are read by USING. `any_text` is a text of any length
    that there may be, and `locks_tables` says that who writes a row locks its table.
    `folds_names`: all names are in small letters, however they are written.
    `ignores_case`: names that differ in upper and lower case are one.
    `prints_floats`: a float cast to a text has all of its digits.
    `listed_keys_max`: up to so many rows are found quicker by a list of their keys than by keys that are staged.
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
    blob: str
    instant_of_ms: str
    utc: str = "+00"
    text_has_nul: bool = True
    first_date: dt.date | None = None
    text_length_max: int = 0
    text_length_is_bytes: bool = False
    json_bytes_max: int = 0
    binary_length_max: int = 0
    decimal_scale_max: int = 1 << 30
    vector_dimensions_max: int = 1 << 30
    time_is_microseconds: bool = False
    escapes_backslash: bool = False
    pads_texts: bool = False
    name_bytes_max: int = 0
    reserved_columns: frozenset[str] = frozenset()
    retype: str = "ALTER COLUMN {name} SET DATA TYPE {type}"
    retypes: frozenset[Retype] = frozenset({Retype.ANY})
    retypes_in_transaction: bool = True
    replaced: str = ""
    replaced_by_copy: tuple[str, ...] = ()
    not_grouped: frozenset[str] = frozenset()
    fills_by_default: bool = True
    key_index_bytes_max: int = 0
    moves_tables: bool = False
    distinct_on: bool = False
    tables_together: int = 1
    scratch: Literal["TABLE", "VIEW", "QUERY"] = "TABLE"
    definitions_commit: bool = False
    renames_to_path: bool = False
    deletes_using: bool = False
    any_text: str = "VARCHAR"
    locks_tables: bool = False
    folds_names: bool = False
    ignores_case: bool = False
    prints_floats: bool = True
    listed_keys_max: int = 0

    def text_type(self, characters: int, bytes_: int) -> str:
        """Return the type of texts of up to so many characters, or bytes of UTF-8."""
        length = bytes_ if self.text_length_is_bytes else characters
        return self.text.format(length=min(max(length, 1), self.text_length_max))


DUCKDB = Dialect(
    name="duckdb",
    # Until its commit each column that rows are added to takes 256 KiB of memory.
    tables_together=20,
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
        "postgres": "VARCHAR",
    },
    vector="FLOAT[]",
    identifier_quote='"',
    blob="FROM_HEX('{hex}')",
    instant_of_ms="MAKE_TIMESTAMPTZ({ms} * 1000)",
    # A row that the same transaction has deleted is still converted, and may not fit.
    retypes=frozenset({Retype.WIDER}),
    ignores_case=True,
    # It has no index, and looks for each of them.
    listed_keys_max=8,
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
            return _decimal(dialect, precision, scale)
        case FloatType(bits):
            return dialect.floats[bits]
        case TextType(characters_max, charset):
            return dialect.text_type(characters_max, characters_max * utf8_bytes_max(charset))
        case EnumType(labels):
            return dialect.text_type(max(map(len, labels), default=1), max(map(_utf8_length, labels), default=1))
        case SetType(labels):
            whole = ",".join(labels)
            return dialect.text_type(len(whole), _utf8_length(whole))
        case PrintedType(kind):
            return dialect.printed[kind]
        case BytesType(bytes_max):
            return dialect.binary.format(length=min(max(bytes_max, 1), dialect.binary_length_max))
        case GeometryType():
            return dialect.binary.format(length=dialect.binary_length_max)
        case VectorType(dimensions):
            return _vector(dialect, dimensions)
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


def may_have_become(dialect: Dialect, seen: str, type_: str) -> bool:
    """Whether a column of `type_` may have the type `seen` because a change ahead of a failed transaction stayed.

    Where the dialect changes nothing but lengths, that is `type_` but for its
    length; so may be what is written as the dialect writes no type.
    """
    if dialect.retypes_in_transaction and not dialect.definitions_commit:
        return False
    if dialect.retypes & {Retype.ANY, Retype.WIDER}:
        return True
    given = (dialect.decimal, dialect.text, dialect.binary, dialect.date, dialect.time, dialect.datetime)
    more = (dialect.timestamp, dialect.year, dialect.vector)
    known = {*dialect.integers.values(), *dialect.floats.values(), *dialect.printed.values(), *given, *more}
    kind = seen.partition("(")[0]
    return kind == type_.partition("(")[0] or kind not in {name.partition("(")[0] for name in known}


def _decimal(dialect: Dialect, precision: int, scale: int) -> str:
    if precision > dialect.decimal_precision_max:
        digits = f"{dialect.name} holds {dialect.decimal_precision_max} decimal digits"
        message = f"{digits}, and DECIMAL({precision},{scale}) needs {precision}"
        raise ValueError(message)
    if scale > dialect.decimal_scale_max:
        digits = f"{dialect.name} holds {dialect.decimal_scale_max} digits after the point"
        message = f"{digits}, and DECIMAL({precision},{scale}) needs {scale}"
        raise ValueError(message)
    return dialect.decimal.format(precision=precision, scale=scale)


def _vector(dialect: Dialect, dimensions: int) -> str:
    if dimensions > dialect.vector_dimensions_max:
        message = f"{dialect.name} holds vectors of {dialect.vector_dimensions_max} dimensions, not of {dimensions}"
        raise ValueError(message)
    return dialect.vector.format(dimensions=dimensions)


def quote_name(dialect: Dialect, *path: str) -> str:
    """Quote a name, or a dotted path of names, leaving out empty ones."""
    mark = dialect.identifier_quote
    return ".".join(f"{mark}{name.replace(mark, mark * 2)}{mark}" for name in path if name)


def quote_text(text: str, dialect: Dialect | None = None) -> str:
    """Quote a text literal as standard SQL does, or as `dialect` wants it."""
    if dialect is not None and dialect.escapes_backslash:
        text = text.replace("\\", "\\\\")
    return "'" + text.replace("'", "''") + "'"


def _utf8_length(text: str) -> int:
    return len(text.encode())

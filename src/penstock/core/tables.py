"""What a source table looks like: its columns, their types, its key."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, order=True)
class TableId:
    """A table of a source, by the names the source gives it."""

    schema: str
    name: str

    def __str__(self) -> str:
        """The dotted name that users write and read; a dot in the schema's is %2E, so that `parse` finds its end."""
        if "." in self.schema or "%" in self.schema:
            return f"{self.schema.replace('%', '%25').replace('.', '%2E')}.{self.name}"
        return f"{self.schema}.{self.name}"

    @property
    def dotted(self) -> str:
        """Both names with a dot between them, as patterns of tables mean them; it may be read in more than one way."""
        return f"{self.schema}.{self.name}"

    @classmethod
    def parse(cls, dotted: str) -> TableId:
        """Read what `str` gives: the schema ends at the first dot."""
        schema, _, name = dotted.partition(".")
        return cls(schema.replace("%2E", ".").replace("%25", "%"), name)


@dataclass(frozen=True, slots=True)
class IntegerType:
    """TINYINT to BIGINT; BOOLEAN is TINYINT(1)."""

    bits: Literal[8, 16, 24, 32, 64]
    unsigned: bool


@dataclass(frozen=True, slots=True)
class DecimalType:
    """DECIMAL(precision, scale)."""

    precision: int
    scale: int


@dataclass(frozen=True, slots=True)
class FloatType:
    """FLOAT (32 bits) or DOUBLE (64 bits)."""

    bits: Literal[32, 64]


@dataclass(frozen=True, slots=True)
class BitType:
    """BIT(bits), 1 to 64 of them; a value is the unsigned number that they make."""

    bits: int


@dataclass(frozen=True, slots=True)
class TextType:
    """CHAR, VARCHAR and the TEXTs, with the character set their bytes are in."""

    characters_max: int
    charset: str


@dataclass(frozen=True, slots=True)
class BytesType:
    """BINARY, VARBINARY and the BLOBs. `fixed` values are padded with NUL to `bytes_max`."""

    bytes_max: int
    fixed: bool


@dataclass(frozen=True, slots=True)
class DateType:
    """DATE. `zero_is_null`: a date that no calendar has, such as 0000-00-00, is carried as NULL, as configured."""

    zero_is_null: bool = False


@dataclass(frozen=True, slots=True)
class TimeType:
    """TIME: a span of time, negative ones too, to 10**-fraction_digits seconds."""

    fraction_digits: int


@dataclass(frozen=True, slots=True)
class DateTimeType:
    """DATETIME: a local time without a zone, to 10**-fraction_digits seconds. `zero_is_null` as in `DateType`."""

    fraction_digits: int
    zero_is_null: bool = False


@dataclass(frozen=True, slots=True)
class TimestampType:
    """TIMESTAMP: an instant, in UTC, to 10**-fraction_digits seconds. `zero_is_null` as in `DateType`."""

    fraction_digits: int
    zero_is_null: bool = False


@dataclass(frozen=True, slots=True)
class YearType:
    """YEAR."""


@dataclass(frozen=True, slots=True)
class EnumType:
    """ENUM with its labels; a value is a label, or the empty text that stands for an invalid one."""

    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetType:
    """SET with its labels; a value is the labels that are in it, in their order, with commas between them."""

    labels: tuple[str, ...]


PrintedKind: TypeAlias = Literal["json", "uuid", "inet4", "inet6", "date", "datetime", "timestamp", "postgres"]


@dataclass(frozen=True, slots=True)
class PrintedType:
    """A type whose values are carried as the text that the source prints.

    MySQL's JSON, MariaDB's UUID, INET4 and INET6, and, where configured, dates
    and times (`fraction_digits` of which are printed, instants in UTC), so that
    0000-00-00 is a value like any other. `postgres` is any type of PostgreSQL
    that no other database has.
    """

    kind: PrintedKind
    fraction_digits: int = 0


@dataclass(frozen=True, slots=True)
class GeometryType:
    """GEOMETRY and its subtypes; a value is Extended WKB: Well-Known Binary with the SRID in it unless that is 0."""


@dataclass(frozen=True, slots=True)
class VectorType:
    """VECTOR of up to `dimensions` 32-bit floats."""

    dimensions: int


@dataclass(frozen=True, slots=True)
class UnsupportedType:
    """A type that this version cannot carry exactly; it stops its table."""

    declaration: str


ColumnType: TypeAlias = (
    IntegerType
    | BitType
    | DecimalType
    | FloatType
    | TextType
    | BytesType
    | DateType
    | TimeType
    | DateTimeType
    | TimestampType
    | YearType
    | EnumType
    | SetType
    | PrintedType
    | GeometryType
    | VectorType
    | UnsupportedType
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    `declaration` is the source's own text of the type, e.g. `varchar(64)`.
    `default` is the constant that existing rows take when the column is added,
    as the source prints it (a number, or text without its quotes); None if the
    column has no default or NULL; `default_is_expression` says that the source
    computes it, so that nobody else can know it. `number` is the source's own, which
    the column keeps when it is renamed; 0 where the source has none. `collation` and
    `is_auto_increment` say what expressions make of its values, and what may fill
    it; they make no other schema. `default_expression` is what the source computes the
    default from, as it prints it, and `filled` what rows older than the column took, in
    the notation of `default`, where the default does not say it.
    """

    name: str
    type: ColumnType
    nullable: bool
    declaration: str = ""
    default: str | None = None
    default_is_expression: bool = False
    comment: str = ""
    collation: str = field(default="", compare=False)
    is_auto_increment: bool = field(default=False, compare=False)
    default_expression: str = field(default="", compare=False)
    filled: str | None = field(default=None, compare=False)
    number: int = 0

    @property
    def is_virtual(self) -> bool:
        """Whether the source computes it whenever it is read; its log may then lack values that have changed."""
        return self.declaration.endswith(VIRTUAL)

    @property
    def is_padded(self) -> bool:
        """Whether its values may end with blanks that its source does not compare: PostgreSQL's CHAR."""
        is_char = self.declaration == "character" or self.declaration.startswith("character(")
        return is_char and isinstance(self.type, TextType)

    @property
    def expression(self) -> str:
        """What the source computes it from in each row, as it prints it; "" for a column that is written."""
        is_computed = self.declaration.endswith((VIRTUAL, _STORED)) and not self.declaration.endswith(_PERIOD_BOUNDS)
        return self.declaration.partition(_GENERATED)[2].rpartition(")")[0] if is_computed else ""

    def may_read(self, name: str) -> bool:
        """Whether the column called `name` stands in the expression, or cannot be told by its letters."""
        if not self.expression or re.search(r"[`'\"\\]", name):
            return bool(self.expression)
        return re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", self.expression, re.IGNORECASE) is not None


VIRTUAL: Final = ") VIRTUAL"
"""How the declaration of a column ends that the source does not store."""
_STORED: Final = ") STORED"
_GENERATED: Final = " GENERATED ALWAYS AS ("
_PERIOD_BOUNDS: Final = ("(ROW START) STORED", "(ROW END) STORED")


@dataclass(frozen=True, slots=True)
class TableSchema:
    """One table at one point of the log. `key` is its primary key, in key order; empty if there is none.

    `partial_rows`: a row image may lack columns outside the key, as configured.
    `number` is the source's own for the table, as a column's. `published` is another one if the table left
    the log's publication and came back, or is published otherwise: 0 where that cannot be, or is not known.
    `publication_altered_by` is the transaction that had altered the publication last when the table's rows were read,
    0 where nobody knows. `partitions` says which partitions it had then, and `partition_files` which
    files these had (core/postgres/partitions.py), 0 for none. `generated_to` is the highest number of a column that the
    log left out because the source computes it, 0 for none. `modifiers` are the type modifiers that declarations do not
    say, each as "number of the column:modifier"; a column without one is of a type that has none, or nobody knows.
    """

    table: TableId
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    comment: str = ""
    partial_rows: bool = False
    number: int = 0
    published: int = 0
    partitions: int = 0
    publication_altered_by: int = 0
    partition_files: int = 0
    generated_to: int = 0
    modifiers: tuple[str, ...] = ()

    @property
    def image_columns(self) -> tuple[Column, ...]:
        """The columns as row images have them: nullable also where an image may lack them."""
        if not self.partial_rows:
            return self.columns
        return tuple(c if c.name in self.key else replace(c, nullable=True) for c in self.columns)

    def column(self, name: str) -> Column:
        """The column called `name`; KeyError if there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    def with_columns_renamed(self, names: Sequence[tuple[str, str]]) -> TableSchema:
        """Return the table with other names (old, new) for some columns, given all at once.

        A column whose name another one gets, and which gets none itself, is gone.
        """
        new_names, taken = dict(names), taken_names(names)
        kept = (replace(c, name=new_names.get(c.name, c.name)) for c in self.columns if c.name.casefold() not in taken)
        return replace(self, columns=tuple(kept), key=tuple(new_names.get(name, name) for name in self.key))


def taken_names(names: Sequence[tuple[str, str]]) -> frozenset[str]:
    """Return, in lower case, which columns go where columns get other names (old, new), all at once.

    They are those whose name another one gets, and which get none themselves. Upper
    and lower case do not tell columns apart in MySQL, nor in any target.
    """
    return frozenset(new.casefold() for _, new in names) - {old.casefold() for old, _ in names}


def bit_integer(bits: int) -> IntegerType:
    """Return the smallest unsigned integer type of 8, 16, 32 or 64 bits that holds a BIT(bits)."""
    for width in _BIT_WIDTHS:
        if bits <= width:
            return IntegerType(width, unsigned=True)
    message = f"BIT({bits})"
    raise ValueError(message)


_BIT_WIDTHS: Final[tuple[Literal[8, 16, 32, 64], ...]] = (8, 16, 32, 64)

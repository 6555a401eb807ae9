"""What is compared of a table on one side: where it is, its columns and key, and how its rows are cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from penstock.core.audit.canonical_text import canonical_text, has_any_text

if TYPE_CHECKING:
    from penstock.core.audit.dialects import AuditDialect, HashForm, Kind

HASH_VALUES: Final = 1 << 32
"""How many values the word has by which rows are cut in partitions where the key is no whole number."""

Cut: TypeAlias = Literal["integer", "wide", "hash"]
"""By the key's value, which has 64 bits with a sign, or without one, or by the hash of the key's text."""


@dataclass(frozen=True, slots=True)
class AuditColumn:
    """A column that is compared. `zero_is_null` as in `canonical_text`.

    `is_cast_text`: to cast a value of the kind text to the database's text gives its text, so that an index may serve.
    `held`: what is compared of the value, which stands in place of `{0}` (core/audit/held_values).
    `collation`: of a text of MySQL or MariaDB, whose name begins with the character set.
    """

    name: str
    kind: Kind
    zero_is_null: bool = False
    is_cast_text: bool = True
    held: str = "{0}"
    collation: str = ""


@dataclass(frozen=True, slots=True)
class AuditSide:
    """A table in one database. `rows` is what stands behind FROM, `where` the condition of rows that count.

    `key` are columns of `columns` too. The other side has as many, in the same order
    and of kinds that are written alike; their names may differ.
    """

    dialect: AuditDialect
    rows: str
    columns: tuple[AuditColumn, ...]
    key: tuple[AuditColumn, ...]
    cut: Cut
    form: HashForm = "sha256"
    where: str = ""

    def text(self, column: AuditColumn) -> str:
        """The canonical text of a column; NULL for NULL."""
        quoted = column.held.format(self.dialect.quoted(column.name))
        return canonical_text(self.dialect, column.kind, quoted, zero_is_null=column.zero_is_null)

    def key_value(self) -> str:
        """What rows are cut by: the key itself, or the first word of its hash."""
        if self.cut == "hash":
            return _word(self.dialect, _hash(self, self.key, "sha256"), 0)
        return self.dialect.quoted(self.key[0].name)

    def row_hash(self) -> str:
        """The hash of all columns, 32 hexadecimal digits."""
        return _hash(self, self.columns, self.form)

    def partition(self, width: int) -> str:
        """The number of a row's partition, where partitions are `width` values of `key_value` wide."""
        value = self.key_value()
        if self.cut == "wide":
            return self.dialect.divide_wide.format(value, width)
        if self.cut == "hash":
            return self.dialect.divide.format(value, width)
        below = self.dialect.divide.format(f"({value} + 1)", width)
        return f"CASE WHEN {value} < 0 THEN {below} - 1 ELSE {self.dialect.divide.format(value, width)} END"


def words(dialect: AuditDialect, hash_name: str) -> tuple[str, ...]:
    """Return the four 32-bit words of a hash that stands in the column `hash_name`."""
    return tuple(_word(dialect, hash_name, place) for place in range(4))


def _word(dialect: AuditDialect, hash_text: str, place: int) -> str:
    return dialect.word.format(f"SUBSTR({hash_text}, {place * 8 + 1}, 8)")


def _hash(side: AuditSide, columns: tuple[AuditColumn, ...], form: HashForm) -> str:
    written = _classic_text if form == "classic" else _delimited_text
    return side.dialect.hashes[form].format(side.dialect.joined(tuple(written(side, each) for each in columns)))


def _classic_text(side: AuditSide, column: AuditColumn) -> str:
    return f"COALESCE({side.text(column)}, 'NULL')"


def _delimited_text(side: AuditSide, column: AuditColumn) -> str:
    """NULL is `~`, and no value is; texts have their length in bytes before them, all others end with `|`."""
    text = side.text(column)
    if has_any_text(column.kind):
        length = side.dialect.as_text.format(side.dialect.bytes_length.format(text))
        delimited = side.dialect.joined((length, "':'", text))
    else:
        delimited = side.dialect.joined((text, "'|'"))
    return f"COALESCE({delimited}, '~')"

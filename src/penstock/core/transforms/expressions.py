"""A column that a Spark SQL expression computes from the others of its row. Spark evaluates it, in `penstock.spark`."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from penstock.core.tables import Column
from penstock.core.transforms.transform import require_new_column

if TYPE_CHECKING:
    from penstock.core.tables import ColumnType, TableSchema

_GAP: Final = r"(?:\s|/\*.*?\*/|--[^\n]*\n)*"
_MOVING: Final = re.compile(
    rf"(?<!\w)(?P<moving>(?:date|timestamp(?:_ntz|_ltz)?){_GAP}r?['\"]\s*(?:now|today|tomorrow|yesterday)\b)"
    r"|(?<!\w)r(?:'[^']*'|\"[^\"]*\")|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|/\*.*?\*/|--[^\n]*",
    re.IGNORECASE | re.DOTALL,
)
"""A typed literal of Spark SQL that is a word; or what may hold one, as a text: strings, names, comments."""
_ALL: Final = re.compile(r"[(,.]\s*\*")
"""`*` for all columns, as in struct(*); behind a value it multiplies."""


@dataclass(frozen=True, slots=True)
class ExpressionColumn:
    """A new column `name` of `type`, to which the value of `sql` is cast, behind all others. It may be NULL.

    The type is named and not taken from Spark, so that the table's schema, and
    its topic, are what the config says whatever a release of Spark makes of `sql`.
    """

    name: str
    sql: str
    type: ColumnType

    def derive(self, schema: TableSchema) -> TableSchema:
        """Return the table that comes out; TableStoppedError if it has a column of this name."""
        require_new_column(schema, self.name)
        # Nobody but Spark knows what an older row has in it.
        column = Column(self.name, self.type, nullable=True, declaration=self.sql, default_is_expression=True)
        return replace(schema, columns=(*schema.columns, column))

    def reads(self, schema: TableSchema) -> frozenset[str]:
        """The columns of `schema` that may have a say in the value: those whose names stand in `sql`, as whatever."""
        if _ALL.search(self.sql):
            return frozenset(column.name for column in schema.columns)
        text = self.sql.casefold()
        return frozenset(column.name for column in schema.columns if _stands_in(column.name.casefold(), text))


def has_moving_literal(sql: str) -> bool:
    """Whether `sql` has DATE 'today' or the like, which Spark's parser replaces by what it is at that moment."""
    return any(found["moving"] for found in _MOVING.finditer(sql))


def _stands_in(name: str, text: str) -> bool:
    if not re.fullmatch(r"\w+", name):
        # Spark wants such a name in backticks, with its own doubled.
        return name.replace("`", "``") in text
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None

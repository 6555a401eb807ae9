"""What the marketplace's SQL is in one kind of source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.demo.schema import COLUMNS, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class SqlWords:
    """Statements that make and change the marketplace; `marks` has how a value of a column is written, if not `%s`.

    `in_list` is the condition that a value is one of a parameter, which is a tuple.
    `change_log` has two parameters, a text and a time, `cut_log` a time.
    """

    begin_anew: tuple[str, ...]
    create_tables: Mapping[str, str]
    add_reply: str
    add_written_on: str
    widen: str
    create_bookings: str
    in_list: str
    change_log: str
    cut_log: str
    marks: Mapping[str, str] = field(default_factory=dict)

    def insert(self, table: str, columns: tuple[str, ...] = ()) -> str:
        """An INSERT of one row, of all columns that the table has at first if none are given."""
        names = columns or COLUMNS[table]
        marks = ", ".join(self.marks.get(name, "%s") for name in names)
        return f"INSERT INTO {SCHEMA}.{table} ({', '.join(names)}) VALUES ({marks})"  # noqa: S608 - our own names

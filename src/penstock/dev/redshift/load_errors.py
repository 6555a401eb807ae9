"""Rows that a load refuses, as stl_load_errors tells them.

Source: Amazon Redshift Database Developer Guide, "Load error reference", "STL_LOAD_ERRORS".
"""

from __future__ import annotations

from dataclasses import dataclass

INVALID_LINE = 1202
TOO_LONG = 1204
BAD_DATE = 1205
BAD_TIMESTAMP = 1206
BAD_DIGIT = 1207
MISSING = 1213
NO_DELIMITER = 1214
OUT_OF_RANGE = 1216
BAD_CHARACTER = 1220
BAD_JSON = 1224


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be loaded, and why.

    `row` is its number in its file from 0, or below 0 for a row with too many or too
    few fields: -1 for the first line. `column` is None where it is about the whole row.
    """

    row: int
    column: int | None
    code: int
    reason: str
    value: str = ""
    raw_line: str = ""

    @property
    def line(self) -> int:
        """The row's number from 1."""
        return self.row + 1 if self.row >= 0 else -self.row


class LoadError(Exception):
    """A row stops the load, or is skipped where MAXERROR allows."""

    def __init__(self, bad: BadRow) -> None:
        """Carry the row."""
        super().__init__(bad)
        self.bad = bad

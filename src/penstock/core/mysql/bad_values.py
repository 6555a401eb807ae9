"""What is said of a value that cannot be carried."""

from __future__ import annotations

from typing import Final

FIX_ROW: Final = "correct the row (UPDATE) and copy the table again, or leave the column out"
COPY_TABLE: Final = "copy the table again"
WHOLE_JSON: Final = "set binlog_row_value_options='' on the server, for every session, and copy the table again"


class BadValueError(ValueError):
    """The bytes are no value of their column's type that can be carried; `hint` says what to do about it."""

    def __init__(self, reason: str, hint: str) -> None:
        """Keep both."""
        super().__init__(reason, hint)
        self.reason = reason
        self.hint = hint

"""What is said of a value that cannot be carried."""

from __future__ import annotations

from typing import Final

from penstock.core.errors import READ_AGAIN, START_ANEW

FIX_ROW: Final = f"correct the row (UPDATE), then {READ_AGAIN}"
WHOLE_JSON: Final = f"set binlog_row_value_options='' on the server, for every session, and {START_ANEW}"


class BadValueError(ValueError):
    """The bytes are no value of their column's type that can be carried; `hint` says what to do about it."""

    def __init__(self, reason: str, hint: str) -> None:
        """Keep both."""
        super().__init__(reason, hint)
        self.reason = reason
        self.hint = hint

"""What is said of a value that cannot be carried."""

from __future__ import annotations

from typing import Final

from penstock.core.errors import START_ANEW

AS_TEXT: Final = f"set `special_values: text` of the source and {START_ANEW}; or correct the row (UPDATE) and do that"
FIX_ROW: Final = f"correct the row (UPDATE), or leave the table out, and {START_ANEW}"


class BadValueError(ValueError):
    """The text is no value of its column's type that can be carried; `hint` says what to do about it."""

    def __init__(self, reason: str, hint: str = FIX_ROW) -> None:
        """Keep both."""
        super().__init__(reason, hint)
        self.reason = reason
        self.hint = hint

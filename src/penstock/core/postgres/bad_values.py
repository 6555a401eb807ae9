"""What is said of a value that cannot be carried."""

from __future__ import annotations

from typing import Final

from penstock.core.errors import READ_AGAIN

AS_TEXT: Final = f"correct the row (UPDATE), then {READ_AGAIN} with `special_values: text` of the source"
FIX_ROW: Final = f"correct the row (UPDATE), then {READ_AGAIN}; or leave the table out"


class BadValueError(ValueError):
    """The text is no value of its column's type that can be carried; `hint` says what to do about it."""

    def __init__(self, reason: str, hint: str = FIX_ROW) -> None:
        """Keep both."""
        super().__init__(reason, hint)
        self.reason = reason
        self.hint = hint

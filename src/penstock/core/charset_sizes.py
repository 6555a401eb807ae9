"""Which character sets have all characters of which others."""

from __future__ import annotations

from typing import Final

# Each has all characters of those before it.
_GROWING: Final = ("ascii", "latin1", "utf8mb3", "utf8mb4")
_ALL_OF_UNICODE: Final = frozenset({"utf8mb4", "utf16", "utf16le", "utf32"})


def has_characters(wide: str, narrow: str) -> bool:
    """Whether every text in the character set `narrow` is one in `wide`; False where we do not know."""
    if wide in _ALL_OF_UNICODE:
        return True
    known = wide in _GROWING and narrow in _GROWING
    return wide == narrow or (known and _GROWING.index(wide) >= _GROWING.index(narrow))

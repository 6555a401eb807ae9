"""Which character sets have all characters of which others, and how long they are in UTF-8."""

from __future__ import annotations

from typing import Final

# Each has all characters of those before it.
_GROWING: Final = ("ascii", "latin1", "utf8mb3", "utf8mb4")
_ALL_OF_UNICODE: Final = frozenset({"utf8mb4", "utf16", "utf16le", "utf32"})

_BEYOND_THREE_BYTES: Final = frozenset({*_ALL_OF_UNICODE, "gb18030"})
_OF_THREE_BYTES: Final = 3


def utf8_bytes_max(charset: str) -> int:
    """Return how many bytes of UTF-8 one character of a character set may need."""
    if charset == "ascii":
        return 1
    return _OF_THREE_BYTES + (charset in _BEYOND_THREE_BYTES)


def has_characters(wide: str, narrow: str) -> bool:
    """Whether every text in the character set `narrow` is one in `wide`; False where we do not know."""
    if wide in _ALL_OF_UNICODE:
        return True
    known = wide in _GROWING and narrow in _GROWING
    return wide == narrow or (known and _GROWING.index(wide) >= _GROWING.index(narrow))

"""Text as it is kept, and words as they are compared: computed here, so that every database finds the same."""

from __future__ import annotations

import unicodedata


def clean(text: str) -> str:
    """Return `text` without white space around it, and with U+FFFD for what no database keeps: NUL, lone surrogates."""
    return _storable(text).strip()


def is_clean(text: str) -> bool:
    """Tell whether every database keeps `text` as it is."""
    return _storable(text) == text


def normalise(text: str) -> str:
    """Return `text` without case, accents, differences of width, and repeated white space."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    plain = "".join(character for character in folded if not unicodedata.combining(character))
    return " ".join(plain.split())


def _storable(text: str) -> str:
    return text.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")

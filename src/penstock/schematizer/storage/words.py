"""Text as it is kept, and words as they are compared: computed here, so that every database finds the same."""

from __future__ import annotations

import json
import unicodedata


def clean(text: str) -> str:
    """Return `text` without white space around it, and with U+FFFD for what no database keeps: NUL, lone surrogates."""
    return _storable(text).strip()


def is_clean(text: str) -> bool:
    """Tell whether every database keeps `text` as it is."""
    return _storable(text) == text


def print_json(value: object, *, sort_keys: bool = False) -> str:
    """Print JSON without white space and in Unicode, or with escapes where a text in it has what UTF-8 has not."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=sort_keys)
    return text if is_clean(text) else json.dumps(value, separators=(",", ":"), sort_keys=sort_keys)


def normalise(text: str) -> str:
    """Return `text` without case, accents, differences of width, and repeated white space."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    plain = "".join(character for character in folded if not unicodedata.combining(character))
    return " ".join(plain.split())


def _storable(text: str) -> str:
    return text.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")

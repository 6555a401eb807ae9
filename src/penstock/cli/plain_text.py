"""Other people's text as a terminal may get it."""

from __future__ import annotations

from unicodedata import category


def printable(text: str) -> str:
    """Return text with control characters as U+FFFD, save line ends and tabs.

    So are the invisible ones that turn the direction of text, or hide some of it; spaces of all kinds stay.
    """
    if text.isprintable():
        return text
    kept = (each if each.isprintable() or each in "\n\t" or category(each) == "Zs" else "\ufffd" for each in text)
    return "".join(kept)

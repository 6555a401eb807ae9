"""Paths into JSON documents, as MySQL writes them into its log.

Source: MySQL reference manual, "JSON Path Syntax". Only what names one place is
in the log: members and array cells, no wildcards and no ranges.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from penstock.core.mysql.types.bytes_reader import MalformedError


@dataclass(frozen=True, slots=True)
class Index:
    """A cell of an array: the one at `number` from its start, or from its end (`last`, `last-1`...)."""

    number: int
    from_end: bool

    def within(self, length: int) -> int | None:
        """Return which cell that is of an array with `length` cells; None if it has no such one."""
        if self.number >= length:
            return None
        return length - 1 - self.number if self.from_end else self.number

    def insertion(self, length: int) -> int:
        """Return where to insert in an array with `length` cells: what lies outside is its start or its end."""
        at = self.within(length)
        outside = 0 if self.from_end else length
        return outside if at is None else at


Leg: TypeAlias = str | Index
"""The name of a member, or a cell."""

_LEG: Final = re.compile(
    r'\."(?P<quoted>(?:[^"\\]|\\.)*)"|\.(?P<name>[^\s.\[*"]+)|\[(?:(?P<cell>\d{1,10})|last(?:-(?P<last>\d{1,10}))?)\]',
    re.DOTALL | re.ASCII,
)


def parse_path(text: str) -> list[Leg]:
    """Return the legs of a path below `$`, at least one; MalformedError for anything else."""
    legs: list[Leg] = []
    at = 1
    while at < len(text) and text.startswith("$"):
        found = _LEG.match(text, at)
        if found is None:
            break
        legs.append(_leg(found))
        at = found.end()
    if not legs or at < len(text):
        message = f"{text[:200]!r} is no path to a place in a JSON document"
        raise MalformedError(message)
    return legs


def _leg(found: re.Match[str]) -> Leg:
    if found["name"] is not None:
        return found["name"]
    if found["quoted"] is not None:
        return _unescaped(found["quoted"])
    if found["cell"] is not None:
        return Index(int(found["cell"]), from_end=False)
    return Index(int(found["last"] or 0), from_end=True)


def _unescaped(quoted: str) -> str:
    try:
        name = str(json.loads(f'"{quoted}"'))
        name.encode()
    except ValueError as error:
        message = f"{quoted[:200]!r} is no name of a member: {error}"
        raise MalformedError(message) from error
    return name

"""Where in its text an Avro schema is mistaken: parsers name what is wrong, and not where.

Whatever stands before a mistake is right by itself. So a record is cut behind
its n-th field until the smallest n is found for which it is refused, and the
search goes on in that field's type; in unions likewise.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Path: TypeAlias = tuple[str | int, ...]
"""Keys and indexes that lead from a document to a part of it."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_RECORDS = frozenset({"record", "error"})
_NESTED = {"array": "items", "map": "values"}


def find_place(text: str, is_valid: Callable[[object], bool]) -> tuple[int, int]:
    """Return line and column, from 1, of the smallest part of a schema that is mistaken.

    `text` is JSON; `is_valid` says of a document whether it is a schema, and of
    that in `text` that it is none.
    """
    document = json.loads(text)
    offset = _offset(text, _Search(document, is_valid).path(()))
    before = text[:offset]
    return before.count("\n") + 1, offset - before.rfind("\n")


class _Search:
    """The search for the mistake in one document."""

    def __init__(self, document: object, is_valid: Callable[[object], bool]) -> None:
        self._document = document
        self._is_valid = is_valid

    def path(self, path: Path) -> Path:
        """Return the path to the mistake, which is in the schema at `path`."""
        match self._at(path):
            case list(branches):
                wrong = self._first_wrong(path, (), branches, least=1)
                return path if wrong is None else self.path((*path, wrong))
            case {"type": str(kind), "fields": list(fields)} if kind in _RECORDS:
                wrong = self._first_wrong(path, ("fields",), fields)
                return path if wrong is None else self._in_field((*path, "fields", wrong))
            case {"type": str(kind), **rest} if kind in _NESTED and _NESTED[kind] in rest:
                return self._inner((*path, _NESTED[kind]), path)
            case {"type": dict() | list()}:
                return self.path((*path, "type"))
            case _:
                return path

    def _in_field(self, path: Path) -> Path:
        match self._at(path):
            case {"type": _, **rest}:
                if not self._holds(path, {**rest, "type": "null", "default": None}):
                    return path
                rest.pop("default", None)
                without_default = {**rest, "type": self._at((*path, "type"))}
                return (*path, "default") if self._holds(path, without_default) else self.path((*path, "type"))
            case _:
                return path

    def _inner(self, inner: Path, outer: Path) -> Path:
        return self.path(inner) if self._holds(inner, "null") else outer

    def _first_wrong(self, path: Path, key: Path, parts: list[object], least: int = 0) -> int | None:
        """Return the index of the part with which the schema at `path` becomes wrong; None if it is without any."""
        counts = range(least, len(parts) + 1)
        found = bisect_left(counts, 1, key=lambda n: int(not self._holds((*path, *key), parts[:n])))
        return counts[found] - 1 if found < len(counts) and counts[found] else None

    def _holds(self, path: Path, part: object) -> bool:
        """Tell whether the document is a schema with `part` at `path`, and nothing behind that."""
        return self._is_valid(_cut(self._document, path, part))

    def _at(self, path: Path) -> object:
        part: object = self._document
        for step in path:
            part = part[step]  # type: ignore[index]
        return part


def _cut(document: object, path: Path, part: object) -> object:
    if not path:
        return part
    step, *rest = path
    if isinstance(document, list) and isinstance(step, int):
        return [*document[:step], _cut(document[step], tuple(rest), part)]
    assert isinstance(document, dict)  # noqa: S101 - paths are made of what is there
    return {**document, step: _cut(document[step], tuple(rest), part)}


def _offset(text: str, path: Path) -> int:
    """Return where in `text`, which is JSON, the part at `path` begins."""
    tokens = _TOKEN.finditer(text)
    begun = next(tokens)
    for step in path:
        begun = _step_into(tokens, step)
    return begun.start()


def _step_into(tokens: Iterator[re.Match[str]], step: str | int) -> re.Match[str]:
    """Go on to the value of a key, or the item with an index, of what has just begun; return its first token."""
    index = 0
    while True:
        token = next(tokens)
        if isinstance(step, str):
            key = json.loads(token[0])
            next(tokens)
            token = next(tokens)
            if key == step:
                return token
        elif index == step:
            return token
        _skip(tokens, token)
        index += 1


def _skip(tokens: Iterator[re.Match[str]], first: re.Match[str]) -> None:
    """Go on behind the value that begins with `first`, and the comma behind it."""
    depth = int(first[0] in "{[")
    while depth:
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(next(tokens)[0], 0)
    next(tokens)

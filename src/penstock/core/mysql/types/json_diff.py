"""Differences of JSON documents, which MySQL logs in place of the new document.

Source: MySQL internals, `Json_diff_vector` (`json_diff.h`): each difference is a
byte that says what to do, then a path, then the binary value, both of them after
their length; what is removed has no value. Each is to the document that the ones
before it have made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.mysql.types.bytes_reader import BytesReader, MalformedError
from penstock.core.mysql.types.json_binary import read_json
from penstock.core.mysql.types.json_path import Index, parse_path
from penstock.core.mysql.types.json_tree import print_tree, sort_members

if TYPE_CHECKING:
    from penstock.core.mysql.types.json_path import Leg
    from penstock.core.mysql.types.json_tree import Node

_REPLACE: Final = 0
_INSERT: Final = 1
_REMOVE: Final = 2


@dataclass(frozen=True, slots=True)
class ChangedJson:
    """A binary document, None where it was NULL, and what was changed in it: no bytes if nothing was."""

    before: bytes | None
    differences: bytes

    def print_after(self) -> str:
        """Return the text of the new document; MalformedError for a difference that does not fit the old one."""
        if self.before is None:
            message = "the log has differences to a JSON document that was NULL"
            raise MalformedError(message)
        changed = _Changed(read_json(self.before))
        reader = BytesReader(self.differences)
        while reader.left:
            changed.apply(reader)
        return changed.print()


class _Changed:
    """A document to which differences are applied."""

    def __init__(self, document: Node) -> None:
        self._document = document
        self._unsorted: list[dict[str, Node]] = []

    def print(self) -> str:
        """Return the document's text."""
        for members in {id(members): members for members in self._unsorted}.values():
            sort_members(members)
        return print_tree(self._document)

    def apply(self, reader: BytesReader) -> None:
        """Read one difference and apply it; MalformedError if there is no such place, or it is not free."""
        operation = reader.integer(1)
        if operation not in {_REPLACE, _INSERT, _REMOVE}:
            message = f"a difference of the unknown kind {operation}"
            raise MalformedError(message)
        path = reader.text(reader.length())
        *outer, last = parse_path(path)
        value = None if operation == _REMOVE else read_json(reader.take(reader.length()))
        container = self._find(outer)
        match container, last:
            case dict(), str():
                done = self._change_object(container, last, value, insert=operation == _INSERT)
            case list(), Index():
                done = _change_array(container, last, value, insert=operation == _INSERT)
            case _:
                done = False
        if not done:
            message = f"{path[:200]} is not found in the previous JSON document (operation {operation})"
            raise MalformedError(message)

    def _find(self, path: list[Leg]) -> Node | None:
        found: Node | None = self._document
        for leg in path:
            match found, leg:
                case dict(), str():
                    found = found.get(leg)
                case list(), Index():
                    at = leg.within(len(found))
                    found = None if at is None else found[at]
                case _:
                    return None
        return found

    def _change_object(self, members: dict[str, Node], key: str, value: Node | None, *, insert: bool) -> bool:
        """Put `value` at `key`, or take away what is there if it is None; return whether that could be done."""
        if (key in members) is insert:
            return False
        if value is None:
            del members[key]
            return True
        members[key] = value
        if insert:
            self._unsorted.append(members)
        return True


def _change_array(cells: list[Node], index: Index, value: Node | None, *, insert: bool) -> bool:
    """Put `value` at or before `index`, or take away what is there if it is None; return whether that could be done."""
    at = index.within(len(cells))
    if insert and value is not None:
        cells.insert(index.insertion(len(cells)), value)
        return True
    if at is None:
        return False
    if value is None:
        del cells[at]
    else:
        cells[at] = value
    return True

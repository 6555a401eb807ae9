"""A JSON document as a tree, and its text as MySQL prints it.

Source: MySQL reference manual, "The JSON Data Type".
"""

from __future__ import annotations

from typing import Final, TypeAlias

from penstock.core.mysql.types.bytes_reader import MalformedError

Node: TypeAlias = "str | list[Node] | dict[str, Node]"
"""A scalar as its text, an array, or an object with its members in the order in which they are printed."""

DEPTH_MAX: Final = 100
"""How many levels a value may be below its document; servers have no more."""

_ESCAPES: Final = {code: f"\\u{code:04x}" for code in range(0x20)} | {
    ord('"'): '\\"', ord("\\"): "\\\\", 8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r",
}  # fmt: skip


def print_tree(node: Node, depth: int = 0) -> str:
    """Return the text of `node`, which is `depth` levels below its document; MalformedError if it has too many."""
    if isinstance(node, str):
        return node
    if isinstance(node, list):
        check_depth(depth + bool(node))
        return f"[{', '.join([print_tree(member, depth + 1) for member in node])}]"
    check_depth(depth + bool(node))
    members = [f"{quote(key)}: {print_tree(member, depth + 1)}" for key, member in node.items()]
    return f"{{{', '.join(members)}}}"


def sort_members(members: dict[str, Node]) -> None:
    """Put the members of an object into MySQL's order: by the length of their keys, then by their bytes."""
    ordered = sorted(members.items(), key=_key_order)
    members.clear()
    members.update(ordered)


def quote(text: str) -> str:
    """Return `text` as a JSON string."""
    return f'"{text.translate(_ESCAPES)}"'


def check_depth(depth: int) -> None:
    """Raise MalformedError for a value too many levels below its document."""
    if depth > DEPTH_MAX:
        message = f"JSON nested more than {DEPTH_MAX} levels deep"
        raise MalformedError(message)


def _key_order(member: tuple[str, Node]) -> tuple[int, bytes]:
    raw = member[0].encode()
    return len(raw), raw

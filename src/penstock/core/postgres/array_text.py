"""Arrays as PostgreSQL prints them, turned into JSON.

Source: PostgreSQL 18 documentation, section 8.15.6, "Array Input and Output Syntax".
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock.core.postgres.bad_values import BadValueError

if TYPE_CHECKING:
    from collections.abc import Callable

ElementPrinter: TypeAlias = "Callable[[str], str]"
"""From an element as PostgreSQL prints it to its JSON text."""

_PLAIN: Final = r'(?:[^"\\{{}}{delimiter}]|\\.)+'
_QUOTED: Final = r'"((?:[^"\\]|\\.)*)"'
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def print_array(text: str, print_element: ElementPrinter, delimiter: str = ",") -> str:
    """Return the array as JSON text, with arrays in it for its dimensions; BadValueError where it cannot be.

    JSON has no lower bounds: an array whose first element is not number 1 cannot be carried.
    """
    if text.startswith("["):
        reason = f"the array {text[:64]} does not begin at 1"
        raise BadValueError(reason)
    token = re.compile(rf"[{{}}{delimiter}]|{_QUOTED}|{_PLAIN.format(delimiter=delimiter)}", re.DOTALL)
    printed: list[str] = []
    at = depth = 0
    while at < len(text):
        found = token.match(text, at)
        if found is None or (depth < 1 and (at or found[0] != "{")):
            break
        at = found.end()
        match found[0]:
            case "{":
                depth += 1
                printed.append("[")
            case "}":
                depth -= 1
                printed.append("]")
            case part if part == delimiter:
                printed.append(",")
            case "NULL":
                printed.append("null")
            case part:
                inside = part if found[1] is None else found[1]
                printed.append(print_element(_ESCAPED.sub(r"\1", inside)))
    if at < len(text) or depth or not printed:
        reason = f"{text[:64]!r} is no array"
        raise BadValueError(reason)
    return "".join(printed)


def print_number(text: str) -> str:
    """Return a number as JSON has it; NaN and Infinity, which it does not have, as text."""
    return text if _NUMBER.fullmatch(text) else json.dumps(text)


def print_truth(text: str) -> str:
    """Return a boolean as JSON has it."""
    return "true" if text == "t" else "false"


def print_text(text: str) -> str:
    """Return any other value as a JSON text."""
    return json.dumps(text, ensure_ascii=False)


def print_as_is(text: str) -> str:
    """Return a JSON document as it is."""
    return text

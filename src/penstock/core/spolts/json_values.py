"""JSON as user code gets it and gives it back: what nobody touched is written as it was.

A float keeps the text that it was read from where Python would write another one:
`12345678901234567.89` is `1.2345678901234568e+16` to Python, and `1e400` infinite.
Source: RFC 8259, section 6, which sets no bounds to numbers.
"""

from __future__ import annotations

import json
from typing import Any, Final, Self

_COMPACT: Final = (",", ":")


class WrittenFloat(float):
    """A float that knows how it was written. What is computed with it is a plain float."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Self:
        """Read `text`."""
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __getnewargs__(self) -> tuple[str]:  # type: ignore[override] # float's own takes the number
        """Return what it is made anew from, on its way to another process."""
        return (self.text,)


def parse_json(content: bytes) -> Any:  # noqa: ANN401 - whatever it says
    """Return the value that `content` is; ValueError if it is no JSON."""
    return json.loads(content, parse_float=_float)


def render_json(value: object) -> str:
    """Return a value as JSON. ValueError or TypeError for what JSON has not, as json.dumps."""
    try:
        return _render(value) if _has_written(value) else _dumps(value)
    except RecursionError as error:
        text = "the value is nested too deeply, or holds itself"
        raise ValueError(text) from error


def is_same(one: object, other: object) -> bool:
    """Tell whether two values are written alike: 1, 1.0 and True are equal to Python, as are 0.0 and -0.0."""
    if type(one) is not type(other):
        return False
    match one, other:
        case dict(), dict():
            return one.keys() == other.keys() and all(is_same(value, other[key]) for key, value in one.items())
        case list() | tuple(), list() | tuple():
            return len(one) == len(other) and all(map(is_same, one, other))
        case WrittenFloat(), WrittenFloat():
            return one.text == other.text
        case float(), float():
            return repr(one) == repr(other)
        case _:
            return one == other


def _float(text: str) -> float:
    number = float(text)
    return number if repr(number) == text else WrittenFloat(text)


def _has_written(value: object) -> bool:
    match value:
        case dict():
            return any(map(_has_written, value.values()))
        case list() | tuple():
            return any(map(_has_written, value))
        case _:
            return isinstance(value, WrittenFloat)


def _render(value: object) -> str:
    match value:
        case WrittenFloat():
            return value.text
        case dict():
            return "{" + ",".join(f"{_key(key)}{_render(inner)}" for key, inner in value.items()) + "}"
        case list() | tuple():
            return "[" + ",".join(map(_render, value)) + "]"
        case _:
            return _dumps(value)


def _key(key: object) -> str:
    """Return a key as json.dumps writes it, which makes texts of numbers, and the colon behind it."""
    return _dumps({key: 0})[1:-2]


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=_COMPACT, allow_nan=False)

"""MySQL's binary JSON, read into a tree with scalars as the server prints them.

Source: MySQL internals, "JSON binary format" (`json_binary.h`): a type byte,
then scalars, or arrays and objects with offsets to what does not fit inline.
Printing as in the reference manual, "The JSON Data Type".
"""

from __future__ import annotations

import base64
import struct
from typing import TYPE_CHECKING, Final

from penstock.core.mysql.types import column_codes as codes
from penstock.core.mysql.types.bytes_reader import MalformedError
from penstock.core.mysql.types.json_tree import check_depth, print_tree, quote
from penstock.core.mysql.types.packed_values import packed_decimal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.core.mysql.types.json_tree import Node

_SMALL_OBJECT: Final = 0
_LARGE_OBJECT: Final = 1
_SMALL_ARRAY: Final = 2
_LARGE_ARRAY: Final = 3
_LITERAL: Final = 4
_STRING: Final = 0x0C
_OPAQUE: Final = 0x0F
_LITERALS: Final = {0: "null", 1: "true", 2: "false"}
_NUMBERS: Final = {
    0x05: struct.Struct("<h"),
    0x06: struct.Struct("<H"),
    0x07: struct.Struct("<i"),
    0x08: struct.Struct("<I"),
    0x09: struct.Struct("<q"),
    0x0A: struct.Struct("<Q"),
}
_DOUBLE: Final = 0x0B
_INLINE_SMALL: Final = frozenset({_LITERAL, 0x05, 0x06})
_INLINE_LARGE: Final = _INLINE_SMALL | {0x07, 0x08}
_LENGTH_BYTES_MAX: Final = 5
_PLAIN_DIGITS: Final = 15
_BASE64_LINE: Final = 76


def print_json(raw: bytes) -> str:
    """Return the text of a binary document; MalformedError if it is not one."""
    return print_tree(read_json(raw))


def read_json(raw: bytes) -> Node:
    """Return a binary document as a tree; one without bytes is null. MalformedError if it is not one."""
    if not raw:
        return "null"
    try:
        return _Document(raw).value(raw[0], 1, 0)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        message = f"a JSON document that ends or points wrongly: {error}"
        raise MalformedError(message) from error


class _Document:
    """The bytes of a document, whose nested values know offsets from where they begin themselves."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._unread_bytes = len(raw)

    def value(self, kind: int, at: int, depth: int) -> Node:
        """Return the value of type `kind` at `at`."""
        if kind <= _LARGE_ARRAY:
            return self._container(kind, at, depth)
        if kind == _LITERAL:
            return _literal(self._raw[at])
        if kind in _NUMBERS:
            return str(_NUMBERS[kind].unpack_from(self._raw, at)[0])
        if kind == _DOUBLE:
            return print_double(struct.unpack_from("<d", self._raw, at)[0])
        if kind == _STRING:
            return quote(self._sized(at).decode())
        if kind == _OPAQUE:
            return _opaque(self._raw[at], self._sized(at + 1))
        message = f"the unknown JSON type {kind}"
        raise MalformedError(message)

    def _container(self, kind: int, at: int, depth: int) -> Node:
        width = 4 if kind in {_LARGE_OBJECT, _LARGE_ARRAY} else 2
        is_object = kind in {_SMALL_OBJECT, _LARGE_OBJECT}
        count, size = self._number(at, width), self._number(at + width, width)
        keys_at = at + 2 * width
        values_at = keys_at + count * (width + 2 if is_object else 0)
        values_end = values_at + count * (1 + width)
        if values_end > at + size or at + size > len(self._raw):
            message = f"a JSON value of {count} members in {size} bytes"
            raise MalformedError(message)
        self._read(values_end - at)
        check_depth(depth + bool(count))
        members = self._members(at, values_at, count, width, depth + 1)
        if not is_object:
            return members
        keys = [self._key(at, key_entry, width) for key_entry in range(keys_at, values_at, width + 2)]
        found = dict(zip(keys, members, strict=True))
        if len(found) != count:
            message = "a JSON object that has a key twice"
            raise MalformedError(message)
        return found

    def _members(self, at: int, values_at: int, count: int, width: int, depth: int) -> list[Node]:
        """Return the `count` values whose entries are at `values_at`, of the array or object at `at`."""
        inline = _INLINE_LARGE if width == 4 else _INLINE_SMALL  # noqa: PLR2004 - the width itself
        members = []
        for index in range(count):
            entry = values_at + index * (1 + width)
            kind = self._raw[entry]
            where = entry + 1 if kind in inline else at + self._number(entry + 1, width)
            members.append(self.value(kind, where, depth))
        return members

    def _key(self, at: int, key_entry: int, width: int) -> str:
        key_at = at + self._number(key_entry, width)
        return self._taken(key_at, self._number(key_entry + width, 2)).decode()

    def _number(self, at: int, width: int) -> int:
        raw = self._raw[at : at + width]
        if len(raw) != width:
            message = "a JSON value that ends after its document"
            raise MalformedError(message)
        return int.from_bytes(raw, "little")

    def _sized(self, at: int) -> bytes:
        """Return bytes that follow their length, which is written seven bits at a time."""
        length = 0
        for index in range(_LENGTH_BYTES_MAX):
            byte = self._raw[at + index]
            length |= (byte & 0x7F) << 7 * index
            if byte < 0x80:  # noqa: PLR2004 - the last one
                return self._taken(at + index + 1, length)
        message = "a JSON length of too many bytes"
        raise MalformedError(message)

    def _taken(self, at: int, count: int) -> bytes:
        if at + count > len(self._raw):
            message = f"a JSON value that ends {at + count - len(self._raw)} bytes after its document"
            raise MalformedError(message)
        self._read(count)
        return self._raw[at : at + count]

    def _read(self, count: int) -> None:
        """Count what is read, so that a document in which values overlap costs no more than its size."""
        self._unread_bytes -= count
        if self._unread_bytes < 0:
            message = "a JSON document in which values overlap"
            raise MalformedError(message)


def print_double(number: float) -> str:
    """Return the shortest text that reads back as `number`, by the server's rules (`my_gcvt`), with a point in it."""
    mantissa, _, exponent = f"{number!r}e0".partition("e")
    sign, mantissa = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent.partition("e")[0]) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if not digits:
        return f"{sign}0.0"
    if not -_PLAIN_DIGITS < point <= _PLAIN_DIGITS:
        rest = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{rest}e{point - 1}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    return f"{sign}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"


def _literal(code: int) -> str:
    if code not in _LITERALS:
        message = f"the unknown JSON literal {code}"
        raise MalformedError(message)
    return _LITERALS[code]


def _opaque(code: int, raw: bytes) -> str:
    """Print a value of one of SQL's own types, `code` as in a TABLE_MAP."""
    if code == codes.NEWDECIMAL:
        return f"{packed_decimal(raw[2:], raw[0], raw[1]):f}"
    if code in _TEMPORAL:
        return f'"{_TEMPORAL[code](struct.unpack("<q", raw)[0])}"'
    text = base64.b64encode(raw).decode()
    lines = [text[at : at + _BASE64_LINE] for at in range(0, len(text), _BASE64_LINE)]
    return quote(f"base64:type{code}:" + "\n".join(lines))


def _date(packed: int) -> str:
    days = packed >> 41
    return f"{(days >> 5) // 13:04}-{(days >> 5) % 13:02}-{days & 31:02}"


def _time(packed: int) -> str:
    sign, magnitude = ("-", -packed) if packed < 0 else ("", packed)
    clock = magnitude >> 24
    return f"{sign}{clock >> 12 & 1023:02}:{clock >> 6 & 63:02}:{clock & 63:02}.{magnitude & 0xFF_FFFF:06}"


def _datetime(packed: int) -> str:
    return f"{_date(packed)} {_time(packed & 0x1FF_FFFF_FFFF)}"


_TEMPORAL: Final[Mapping[int, Callable[[int], str]]] = {
    codes.DATE: _date,
    codes.TIME: _time,
    codes.DATETIME: _datetime,
    codes.TIMESTAMP: _datetime,
}

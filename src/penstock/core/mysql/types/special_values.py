"""Values of the rarer types: addresses, UUIDs, geometries, vectors, sets, and columns that are stored compressed.

Sources: MariaDB Knowledge Base, "UUID Data Type", "INET6", "INET4" and
"Storage-Engine Independent Column Compression"; MySQL Reference Manual,
"Supported Spatial Data Formats" and "The VECTOR Type"; the PostGIS manual on Extended WKB.
"""

from __future__ import annotations

import array
import socket
import struct
import sys
import uuid
import zlib
from typing import Final

from penstock.core.errors import START_ANEW
from penstock.core.mysql.types.bad_values import FIX_ROW, BadValueError

_UUID_BYTES: Final = 16
_INET4_BYTES: Final = 4
_INET6_BYTES: Final = 16
_INET6_COMPATIBLE: Final = 6
_INET6_MAPPED: Final = 0xFFFF
_GEOMETRY_HEADER: Final = struct.Struct("<IBI")
_LITTLE_ENDIAN: Final = 1
_HAS_SRID: Final = 0x2000_0000
_FLOAT_BYTES: Final = 4
_ZLIB: Final = 8
_RAW_DEFLATE: Final = 0x08


def print_uuid(raw: bytes) -> str:
    """Return a UUID as text; the log leaves out NULs at its end."""
    return str(uuid.UUID(bytes=_padded(raw, _UUID_BYTES)))


def print_inet4(raw: bytes) -> str:
    """Return an IPv4 address as text; the log leaves out NULs at its end."""
    return socket.inet_ntop(socket.AF_INET, _padded(raw, _INET4_BYTES))


def print_inet6(raw: bytes) -> str:
    """Return an IPv6 address as MariaDB prints it; the log leaves out NULs at its end.

    The longest run of zeros is left out, the first of several, and also a single
    one; an IPv4 address that is mapped or compatible is printed as such.
    """
    padded = _padded(raw, _INET6_BYTES)
    words = struct.unpack(">8H", padded)
    at, count = _longest_zeros(words)
    if at == 0 and (count == _INET6_COMPATIBLE or (count == _INET6_COMPATIBLE - 1 and words[count] == _INET6_MAPPED)):
        prefix = "::" if count == _INET6_COMPATIBLE else "::ffff:"
        return prefix + socket.inet_ntop(socket.AF_INET, padded[-_INET4_BYTES:])
    printed = [f"{word:x}" for word in words]
    return f"{':'.join(printed[:at])}::{':'.join(printed[at + count :])}" if count else ":".join(printed)


def _longest_zeros(words: tuple[int, ...]) -> tuple[int, int]:
    """Return where the longest run of zeros begins, the first of several, and how long it is; 0 if there is none."""
    longest = (0, 0)
    begin = 0
    for index, word in enumerate(words):
        if word:
            begin = index + 1
        elif index + 1 - begin > longest[1]:
            longest = (begin, index + 1 - begin)
    return longest


def extended_wkb(raw: bytes) -> bytes:
    """Return a geometry, which the server stores as SRID and WKB, as one Extended WKB.

    The SRID follows the type, whose bit 0x20000000 says so; without one (0) it is plain WKB.
    """
    if len(raw) < _GEOMETRY_HEADER.size:
        reason = f"{len(raw)} bytes are no geometry"
        raise BadValueError(reason, START_ANEW)
    srid, order, kind = _GEOMETRY_HEADER.unpack_from(raw)
    if order != _LITTLE_ENDIAN or not srid:
        return raw[4:]
    return struct.pack("<BII", order, kind | _HAS_SRID, srid) + raw[_GEOMETRY_HEADER.size :]


def vector_floats(raw: bytes) -> list[float]:
    """Return the 32-bit floats of a vector."""
    if len(raw) % _FLOAT_BYTES:
        reason = f"{len(raw)} bytes are no vector of 32-bit floats"
        raise BadValueError(reason, START_ANEW)
    floats = array.array("f", raw)
    if sys.byteorder == "big":
        floats.byteswap()
    return floats.tolist()


def set_text(bits: int, labels: tuple[str, ...], *, in_key: bool = False) -> str:
    """Return the labels whose bits are set, with commas between them, as the server prints a SET.

    In a key, BadValueError for what prints as another value does: with an empty label, or one that is there twice.
    """
    if bits >> len(labels):
        reason = f"the SET has bits beyond its {len(labels)} labels"
        raise BadValueError(reason, START_ANEW)
    text = ""
    for index, label in enumerate(labels):
        if not bits >> index & 1:
            continue
        # The server looks at what it has printed so far: a comma is not behind an empty label at the start.
        if in_key and ((not label and not text) or label in labels[:index]):
            reason = _two_as_one("SET", bits, set_text(bits, labels))
            raise BadValueError(reason, FIX_ROW)
        text = f"{text},{label}" if text else label
    return text


def enum_label(index: int, labels: tuple[str, ...], *, in_key: bool = False) -> str:
    """Return the label counted from 1; 0 is the empty text that the server puts in place of an invalid value.

    In a key, BadValueError for what prints as another value does: 0 beside an empty label, a label that is there twice.
    """
    if index > len(labels):
        reason = f"the ENUM index {index} is beyond its {len(labels)} labels"
        raise BadValueError(reason, START_ANEW)
    label = labels[index - 1] if index else ""
    if in_key and label in (labels[: index - 1] if index else labels):
        reason = _two_as_one("ENUM", index, label)
        raise BadValueError(reason, FIX_ROW)
    return label


def inflated(raw: bytes) -> bytes:
    """Return what a value of a compressed column holds: as it is behind a 0, or deflated behind its length."""
    if not raw or raw[0] == 0:
        return raw[1:]
    method, width = raw[0] >> 4, raw[0] & 7
    size = int.from_bytes(raw[1 : 1 + width], "big")
    if method == _ZLIB:
        inflater = zlib.decompressobj(-zlib.MAX_WBITS if raw[0] & _RAW_DEFLATE else zlib.MAX_WBITS)
        try:
            content = inflater.decompress(raw[1 + width :], size + 1)
        except zlib.error as error:
            reason = f"a compressed value does not decompress: {error}"
            raise BadValueError(reason, START_ANEW) from error
        if len(content) == size:
            return content
    reason = f"0x{raw[:8].hex()}... does not begin a compressed value"
    raise BadValueError(reason, START_ANEW)


def _two_as_one(kind: str, number: int, text: str) -> str:
    return f"the {kind} with the number {number} prints as {text!r}, and so does another one: two keys would become one"


def _padded(raw: bytes, width: int) -> bytes:
    if len(raw) > width:
        reason = f"{len(raw)} bytes where there are at most {width}"
        raise BadValueError(reason, START_ANEW)
    return raw.ljust(width, b"\0")

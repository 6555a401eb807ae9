"""Codes of column types in a TABLE_MAP event, and how their metadata is read.

Sources: MariaDB Knowledge Base, "Table_map_event" ("Optional metadata" included);
MySQL internals, `Table_map_event` ("Table_map_event column types: numerical
identifier and metadata").
"""

from __future__ import annotations

from typing import Final

TINY: Final = 1
SHORT: Final = 2
LONG: Final = 3
FLOAT: Final = 4
DOUBLE: Final = 5
TIMESTAMP: Final = 7
LONGLONG: Final = 8
INT24: Final = 9
DATE: Final = 10
TIME: Final = 11
DATETIME: Final = 12
YEAR: Final = 13
VARCHAR: Final = 15
BIT: Final = 16
TIMESTAMP2: Final = 17
DATETIME2: Final = 18
TIME2: Final = 19
BLOB_COMPRESSED: Final = 140
VARCHAR_COMPRESSED: Final = 141
COMPRESSED: Final = frozenset({BLOB_COMPRESSED, VARCHAR_COMPRESSED})
VECTOR: Final = 242
JSON: Final = 245
NEWDECIMAL: Final = 246
ENUM: Final = 247
SET: Final = 248
TINY_BLOB: Final = 249
MEDIUM_BLOB: Final = 250
LONG_BLOB: Final = 251
BLOB: Final = 252
VAR_STRING: Final = 253
STRING: Final = 254
GEOMETRY: Final = 255

BLOBS: Final = frozenset({TINY_BLOB, MEDIUM_BLOB, LONG_BLOB, BLOB})
NUMERIC: Final = frozenset({TINY, SHORT, INT24, LONG, LONGLONG, NEWDECIMAL, FLOAT, DOUBLE})
"""Types that have a bit in the optional SIGNEDNESS metadata."""

METADATA_LITTLE: Final = frozenset({VARCHAR, VARCHAR_COMPRESSED, VAR_STRING, BIT})
"""Two bytes that are one little-endian number."""

METADATA_PAIR: Final = frozenset({NEWDECIMAL, STRING, ENUM, SET})
"""Two bytes with a meaning each; we keep them as first * 256 + second."""

METADATA_BYTE: Final = (
    frozenset({FLOAT, DOUBLE, TIMESTAMP2, DATETIME2, TIME2, JSON, GEOMETRY, VECTOR, BLOB_COMPRESSED}) | BLOBS
)
"""One byte: a width, or a number of fraction digits."""

KNOWN: Final = (
    METADATA_LITTLE
    | METADATA_PAIR
    | METADATA_BYTE
    | {TINY, SHORT, LONG, TIMESTAMP, LONGLONG, INT24, DATE, TIME, DATETIME, YEAR}
)
"""Types of which we know what their metadata is; others may have any."""

_REAL_TYPE_BITS: Final = 0x30


def string_type(metadata: int) -> tuple[int, int]:
    """Split the metadata of a STRING column into its real type (STRING, ENUM or SET) and its length in bytes.

    Two bits of a length over 255 hide in the type's byte, inverted, where a real
    type always has them set (`Field_string::unpack` in the server).
    """
    first, second = metadata >> 8, metadata & 0xFF
    high = (first & _REAL_TYPE_BITS) ^ _REAL_TYPE_BITS
    return first | _REAL_TYPE_BITS, second | high << 4

"""Join keys as people write and read them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.core.arrow_types import arrow_type
from penstock.core.errors import UsageError
from penstock.core.joins.keys import key_bytes
from penstock.core.tables import BytesType, PrintedType, TimeType
from penstock.core.transforms.canonical import renderer
from penstock.core.transforms.constants import read_constant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.tables import ColumnType


def parse_key(types: Sequence[ColumnType], text: str) -> bytes:
    """The key that values with commas between them mean; bytes are hexadecimal. UsageError for what is no such key."""
    # The last value may have commas itself.
    values = text.split(",", len(types) - 1)
    if len(values) != len(types):
        message = f"the join key has {len(types)} values, and {text!r} has {len(values)}"
        raise UsageError(message, "give every value, with commas between them: --key 12,blue")
    columns: list[Any] = [_parse_value(type_, value) for type_, value in zip(types, values, strict=True)]
    return bytes(key_bytes(columns)[0].as_py())


def show_key(types: Sequence[ColumnType], key: bytes) -> str:
    """A key as `parse_key` takes it; that of a row with a null in its join key, which has one of its own, as NULL."""
    if key.startswith(b"\0"):
        return "NULL"
    return ",".join(_show_value(type_, value) for type_, value in zip(types, split_key(key), strict=True))


def split_key(key: bytes) -> Sequence[bytes]:
    """The values that `keys.key_bytes` wrote one behind the other."""
    values, at = [], 0
    while at < len(key):
        colon = key.index(b":", at)
        end = colon + 1 + int(key[at:colon])
        values.append(key[colon + 1 : end])
        at = end
    return values


def _parse_value(type_: ColumnType, text: str) -> pa.Array[Any]:
    try:
        if isinstance(type_, BytesType):
            return pa.array([bytes.fromhex(text)], pa.binary())
        if isinstance(type_, PrintedType):
            return pa.array([text])
        if isinstance(type_, TimeType):
            # Times of any precision are compared, and Arrow reads none.
            return read_constant(TimeType(6), text)
        found: pa.Array[Any] = pa.array([text]).cast(arrow_type(type_))
    except (ValueError, pa.ArrowException) as error:
        message = f"{text!r} is no value of the join key: {error}"
        hint = "write numbers in digits, dates as 2026-01-31, times as 12:00:00, bytes in hexadecimal"
        raise UsageError(message, hint) from error
    return found


def _show_value(type_: ColumnType, value: bytes) -> str:
    wanted = arrow_type(type_)
    if isinstance(type_, BytesType):
        return value.hex()
    text = value.decode("utf-8", "backslashreplace")
    if pa.types.is_date32(wanted):
        return str(pa.array([int(text)], pa.int32()).cast(wanted)[0].as_py())
    if isinstance(type_, TimeType):
        return renderer(type_)(timedelta(microseconds=int(text))).decode()
    if pa.types.is_timestamp(wanted):
        return str(pa.array([int(text)], pa.int64()).cast(wanted)[0].as_py())
    return text

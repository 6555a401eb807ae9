"""One value of a column, from its bytes in a ROWS event: the plain reading that the fast one must agree with.

Sources: MariaDB Knowledge Base, "Rows_event_v1/v2", and the "Data Type Storage"
pages; MySQL internals, `Rows_event`.
"""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock.core.errors import START_ANEW
from penstock.core.mysql.types import temporal_values as temporal
from penstock.core.mysql.types.bad_values import FIX_ROW, BadValueError
from penstock.core.mysql.types.bytes_reader import MalformedError
from penstock.core.mysql.types.charsets import text_decoder
from penstock.core.mysql.types.json_binary import print_json
from penstock.core.mysql.types.packed_values import packed_decimal
from penstock.core.mysql.types.special_values import (
    enum_label,
    extended_wkb,
    inflated,
    print_inet4,
    print_inet6,
    print_uuid,
    set_text,
    vector_floats,
)
from penstock.core.tables import (
    BitType,
    BytesType,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FloatType,
    GeometryType,
    IntegerType,
    PrintedType,
    SetType,
    TextType,
    TimestampType,
    TimeType,
    UnsupportedType,
    VectorType,
    YearType,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.mysql.types.row_layout import Cell

Value: TypeAlias = int | float | str | bytes | Decimal | list[float]
Reader: TypeAlias = "Callable[[bytes], Value | None]"

_YEAR_ZERO: Final = 1900


def value_reader(cell: Cell) -> Reader:
    """Return the function that reads values of `cell`.

    Its results are what `pyarrow.array` takes for the column's Arrow type: dates
    are days, datetimes and timestamps microseconds since 1970, times
    microseconds; None is a zero date that is to be NULL. It raises BadValueError
    for what the type cannot hold.
    """
    read = _reader(cell)
    return (lambda raw: read(inflated(raw))) if cell.compressed else read


def _reader(cell: Cell) -> Reader:  # noqa: C901, PLR0911, PLR0912 - one return per member of the union
    type_ = cell.column.type
    match type_:
        case IntegerType(unsigned=unsigned):
            return lambda raw: int.from_bytes(raw, "little", signed=not unsigned)
        case BitType():
            return lambda raw: int.from_bytes(raw, "big")
        case FloatType(bits):
            unpack = struct.Struct("<f" if bits == 32 else "<d").unpack  # noqa: PLR2004 - the width itself
            return lambda raw: float(unpack(raw)[0])
        case DecimalType(precision, scale):
            return _well_formed(lambda raw: packed_decimal(raw, precision, scale), FIX_ROW)
        case TextType(charset=charset):
            return text_reader(charset)
        case BytesType(bytes_max, fixed):
            return (lambda raw: raw.ljust(bytes_max, b"\0")) if fixed else bytes
        case DateType() | DateTimeType() | TimestampType():
            read = _moment_reader(cell)
            return _zero_as_null(read) if type_.zero_is_null else read
        case TimeType():
            return temporal.old_time_span if cell.old_format else temporal.time_span
        case YearType():
            return lambda raw: raw[0] + _YEAR_ZERO if raw[0] else 0
        case EnumType(labels):
            return lambda raw: enum_label(int.from_bytes(raw, "little"), labels, in_key=cell.in_key)
        case SetType(labels):
            return lambda raw: set_text(int.from_bytes(raw, "little"), labels, in_key=cell.in_key)
        case PrintedType():
            return _printer(cell, type_)
        case GeometryType():
            return extended_wkb
        case VectorType():
            return vector_floats
        case UnsupportedType(declaration):
            reason = f"no reading of {declaration}"
            raise BadValueError(reason, FIX_ROW)


def text_reader(charset: str) -> Callable[[bytes], str]:
    """Return the function that reads text in `charset`; BadValueError for bytes that are none."""
    decode = text_decoder(charset)

    def read(raw: bytes) -> str:
        try:
            return decode(raw)
        except UnicodeDecodeError as error:
            reason = f"{raw[:64]!r} is no {charset} text: {error.reason}"
            raise BadValueError(reason, FIX_ROW) from error

    return read


def _moment_reader(cell: Cell) -> Reader:
    match cell.column.type:
        case DateType():
            return lambda raw: temporal.days(temporal.date_moment(raw))
        case DateTimeType(digits):
            if cell.old_format:
                return lambda raw: temporal.microseconds(temporal.old_datetime_moment(raw))
            return lambda raw: temporal.datetime_microseconds(raw, digits)
        case TimestampType(digits) if not cell.old_format:
            return lambda raw: temporal.instant(temporal.timestamp_microseconds(raw, digits))
        case _:
            return lambda raw: temporal.instant(temporal.old_timestamp_microseconds(raw))


def _zero_as_null(read: Reader) -> Reader:
    def read_or_null(raw: bytes) -> Value | None:
        try:
            return read(raw)
        except BadValueError:
            return None

    return read_or_null


def _printer(cell: Cell, type_: PrintedType) -> Reader:  # noqa: C901, PLR0911 - one return per kind
    digits = type_.fraction_digits
    match type_.kind:
        case "json":
            return _well_formed(print_json, START_ANEW)
        case "uuid":
            return print_uuid
        case "inet4":
            return print_inet4
        case "inet6":
            return print_inet6
        case "date":
            return lambda raw: temporal.print_date(temporal.date_moment(raw))
        case "datetime":
            if cell.old_format:
                return lambda raw: temporal.print_datetime(temporal.old_datetime_moment(raw), 0)
            return lambda raw: temporal.print_datetime(temporal.datetime_moment(raw, digits), digits)
        case "timestamp":
            if cell.old_format:
                return lambda raw: temporal.print_instant(temporal.old_timestamp_microseconds(raw), 0)
            return lambda raw: temporal.print_instant(temporal.timestamp_microseconds(raw, digits), digits)
        case "postgres":
            message = "no table of MySQL has a column of this type"
            raise ValueError(message)


def _well_formed(read: Reader, hint: str) -> Reader:
    """Say of bytes that are malformed what to do about them."""

    def read_well_formed(raw: bytes) -> Value | None:
        try:
            return read(raw)
        except MalformedError as error:
            raise BadValueError(str(error), hint) from error

    return read_well_formed

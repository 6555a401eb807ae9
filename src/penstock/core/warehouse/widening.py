"""Which changes of a column's type leave every stored value what it is in the source."""

from __future__ import annotations

from penstock.core.charset_sizes import has_characters
from penstock.core.tables import (
    BitType,
    BytesType,
    ColumnType,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FloatType,
    IntegerType,
    SetType,
    TextType,
    TimestampType,
    TimeType,
)

_EXACT_INTEGER_BITS = {32: 24, 64: 53}
_DIGITS = {8: 3, 16: 5, 24: 8, 32: 10, 64: 20}


def widens(before: ColumnType, after: ColumnType) -> bool:  # noqa: PLR0912, C901, PLR0911 - one return per pair of types
    """Whether each value of `before` stays the same value in `after`, by a plain CAST or none at all.

    False also where the source itself changes stored values (it pads BINARY to
    its new length, rounds to fewer digits, cuts text), because it writes no
    change of a row for that.
    """
    match before, after:
        case IntegerType(), IntegerType():
            return (
                integer_range(before)[0] >= integer_range(after)[0]
                and integer_range(before)[1] <= integer_range(after)[1]
            )
        case IntegerType(bits=bits), DecimalType(precision, scale):
            return precision - scale >= _DIGITS[bits]
        case IntegerType(bits=bits), FloatType(bits=mantissa):
            return bits <= _EXACT_INTEGER_BITS[mantissa]
        case DecimalType(), DecimalType():
            whole_digits = before.precision - before.scale
            return after.scale >= before.scale and after.precision - after.scale >= whole_digits
        case FloatType(), FloatType():
            return after.bits >= before.bits
        case TextType(), TextType():
            return has_characters(after.charset, before.charset) and after.characters_max >= before.characters_max
        case BytesType(), BytesType():
            return before == after or (not after.fixed and after.bytes_max >= before.bytes_max)
        case EnumType(), EnumType():
            return set(before.labels) <= set(after.labels)
        case BitType(), BitType():
            return after.bits >= before.bits
        case SetType(), SetType():
            return after.labels[: len(before.labels)] == before.labels
        case TimeType(digits), TimeType(digits_after):
            return digits_after >= digits
        case EnumType(labels), TextType(characters_max=longest):
            return all(len(label) <= longest for label in labels)
        case DateType(), DateTimeType():
            return True
        case (DateTimeType(digits), DateTimeType(digits_after)) | (TimestampType(digits), TimestampType(digits_after)):
            return digits_after >= digits
        case _:
            return before == after


def integer_range(type_: IntegerType) -> tuple[int, int]:
    """Return the least and the greatest value."""
    if type_.unsigned:
        return 0, 2**type_.bits - 1
    return -(2 ** (type_.bits - 1)), 2 ** (type_.bits - 1) - 1

"""Changes of a column's type that keep a value or cannot hold it, and how SQL finds the values that cannot stay.

MySQL converts the rows of a table whose column gets another type, and logs no
change of a row. In strict mode, its default, it refuses where a value does not
fit; then each value of ours fits too, and is what the source has. Where one does
not, the source has changed it, and nobody else can tell what it made of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.charset_sizes import has_characters
from penstock.core.tables import BytesType, DecimalType, EnumType, IntegerType, TextType
from penstock.core.warehouse.dialect import quote_text
from penstock.core.warehouse.widening import integer_range

if TYPE_CHECKING:
    from penstock.core.tables import Column
    from penstock.core.warehouse.dialect import Dialect


def find_out_of_range(dialect: Dialect, before: Column, after: Column, value: str) -> str | None:  # noqa: PLR0911 - one return per pair of types
    """Return the SQL condition under which `value` of column `before` is not the same value in `after`.

    None where no condition tells.
    """
    match before.type, after.type:
        case IntegerType(), IntegerType():
            return _outside(value, after.type)
        case DecimalType(), IntegerType():
            return f"{_outside(value, after.type)} OR {value} <> ROUND({value}, 0)"
        case DecimalType(), DecimalType(precision, scale):
            return f"ABS({value}) >= {10 ** (precision - scale)} OR {value} <> ROUND({value}, {scale})"
        case IntegerType(), TextType(characters_max=longest) if "zerofill" not in before.declaration.casefold():
            return f"LENGTH(CAST({value} AS {dialect.text_type(20, 20)})) > {longest}"
        case TextType(charset=charset), TextType(characters_max=longest) if has_characters(after.type.charset, charset):
            return f"LENGTH({value}) > {longest}"
        case BytesType(fixed=False), BytesType(bytes_max=longest, fixed=False):
            return f"OCTET_LENGTH({value}) > {longest}"
        case EnumType(), EnumType(labels):
            return f"{value} NOT IN ({', '.join(quote_text(label, dialect) for label in labels)})"
        case _:
            return None


def _outside(value: str, type_: IntegerType) -> str:
    low, high = integer_range(type_)
    return f"{value} < {low} OR {value} > {high}"

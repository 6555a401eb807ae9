"""Masks: a value in place of every value, or the end of a text behind asterisks. NULL stays NULL."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.core.tables import (
    BitType,
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
    YearType,
)
from penstock.core.transforms.constants import read_constant
from penstock.core.transforms.transform import columns_of, declared, lay_out, refuse, require_columns, require_no_key
from penstock.core.transforms.treated import map_texts, with_treated_default

if TYPE_CHECKING:
    import numpy.typing as npt

    from penstock.core.tables import Column, ColumnType, TableSchema
    from penstock.core.transforms.transform import Values

_STARS: Final = "****"
_HASH_KEY = "hash the column instead, which keeps different keys apart, or leave it as it is"


@dataclass(frozen=True, slots=True)
class Blank:
    """Every value becomes one that says nothing: `****`, 0, 1970-01-01, the empty label."""


@dataclass(frozen=True, slots=True)
class FixedValue:
    """Every value becomes the one that `text` writes, as `read_constant` reads it."""

    text: str


@dataclass(frozen=True, slots=True)
class KeepLast:
    """All but the last `characters` of a text become asterisks, one for each; all of a text that is no longer."""

    characters: int


Mask: TypeAlias = Blank | FixedValue | KeepLast


@dataclass(frozen=True, slots=True)
class MaskColumns:
    """The values of these columns, none of which may be in the key, are masked. Their types stay."""

    columns: tuple[str, ...]
    mask: Mask

    def derive(self, schema: TableSchema) -> TableSchema:
        """See `Transform`."""
        require_columns(schema, self.columns)
        require_no_key(schema, self.columns, "masked", _HASH_KEY)
        changed = {name: self._masked_column(schema, schema.column(name)) for name in self.columns}
        return replace(schema, columns=tuple(changed.get(column.name, column) for column in schema.columns))

    def apply(self, schema: TableSchema, rows: pa.Table) -> tuple[TableSchema, pa.Table]:
        """See `Transform`."""
        after = self.derive(schema)
        masked = [
            _mask(self.mask, column, values) if column.name in self.columns else values
            for column, values in zip(schema.columns, columns_of(schema, rows), strict=True)
        ]
        return lay_out(schema, rows, after, masked)

    def _masked_column(self, schema: TableSchema, column: Column) -> Column:
        try:
            _check_mask(self.mask, column.type)
        except ValueError as error:
            reason = f"a column of type {declared(column)} cannot hold the mask: {error}"
            raise refuse(schema, column.name, reason, "give the mask another `value`, or drop the column") from error
        return with_treated_default(column, column, lambda value: _print_masked(self.mask, column, value))


def mask_text(mask: Blank | FixedValue, type_: ColumnType) -> str:
    """Return the value that `mask` puts into a column of `type_`, as text; ValueError if it cannot hold that."""
    text = mask.text if isinstance(mask, FixedValue) else _blank(type_)
    read_constant(type_, text)
    return text


def _check_mask(mask: Mask, type_: ColumnType) -> None:
    if not isinstance(mask, KeepLast):
        mask_text(mask, type_)
    elif not isinstance(type_, TextType):
        message = "only of a text the last characters can be kept"
        raise ValueError(message)  # noqa: TRY004 - the type is a value here


def _mask(mask: Mask, column: Column, values: Values) -> Values:
    if isinstance(mask, KeepLast):
        return map_texts(values, lambda text: _hide(text, mask.characters))
    fixed = read_constant(column.type, mask_text(mask, column.type))
    return fixed.take(pa.array(np.zeros(len(values), np.int64), pa.int64(), mask=_nulls(values)))


def _hide(text: str, characters: int) -> str:
    kept = text[-characters:] if 0 < characters < len(text) else ""
    return "*" * (len(text) - len(kept)) + kept


def _nulls(values: Values) -> npt.NDArray[np.bool_]:
    return np.asarray(values.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)


def _print_masked(mask: Mask, column: Column, value: Values) -> str | None:
    text: str | None = value[0].as_py()
    if text is None:
        return None
    return _hide(text, mask.characters) if isinstance(mask, KeepLast) else mask_text(mask, column.type)


def _blank(type_: ColumnType) -> str:
    match type_:
        case TextType(longest):
            return _STARS[:longest]
        case IntegerType() | BitType() | DecimalType() | FloatType() | YearType():
            return "0"
        case EnumType() | SetType():
            return ""
        case DateType():
            return "1970-01-01"
        case DateTimeType() | TimestampType():
            return "1970-01-01 00:00:00"
        case TimeType():
            return "00:00:00"
        case _:
            message = "there is no value that stands for any other"
            raise ValueError(message)

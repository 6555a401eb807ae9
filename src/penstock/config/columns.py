"""What a pipeline's file may say of columns that somebody must not see, or not as they are (docs/transforms.md)."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from penstock.config.rules import EnvironmentName  # noqa: TC001 - pydantic reads it from a field's annotation
from penstock.config.spec import Spec, Text
from penstock.core.transforms.column_patterns import ColumnPatterns
from penstock.core.transforms.masks import Blank, FixedValue, KeepLast, Mask


def as_list(given: object) -> object:
    """Take one entry for a list of one."""
    return given if isinstance(given, list) or given is None else [given]


def _as_text(value: object) -> object:
    """Write what YAML has read as a number, a truth value or a date as a column's value is written."""
    match value:
        case bool():
            return str(int(value))
        case int() | float():
            return str(value)
        case dt.datetime():
            return value.replace(tzinfo=None).isoformat(" ")
        case dt.date():
            return value.isoformat()
        case _:
            return value


def _as_mask(given: object) -> object:
    return {"columns": given} if isinstance(given, str) else given


def _check_pattern(pattern: str) -> str:
    ColumnPatterns((pattern,))
    return pattern


ColumnPattern: TypeAlias = Annotated[str, AfterValidator(_check_pattern)]
ColumnPatternList: TypeAlias = Annotated[tuple[ColumnPattern, ...], BeforeValidator(as_list), Field(min_length=1)]


class MaskingSpec(Spec):
    """How values are masked: with a fixed `value`, or all but the last characters (`keep_last`); else with a blank."""

    value: Annotated[str, BeforeValidator(_as_text)] | None = None
    keep_last: Annotated[int, Field(strict=True, ge=0, le=1000)] | None = None

    @model_validator(mode="after")
    def _one_way(self) -> MaskingSpec:
        if self.value is not None and self.keep_last is not None:
            text = "gives both value and keep_last: leave one of them out"
            raise ValueError(text)
        return self

    @property
    def masking(self) -> Mask:
        """The mask."""
        if self.keep_last is not None:
            return KeepLast(self.keep_last)
        return Blank() if self.value is None else FixedValue(self.value)


class MaskedColumnsSpec(MaskingSpec):
    """Columns that are masked, by patterns; a pattern alone is enough."""

    columns: ColumnPatternList


class ColumnsSpec(Spec):
    """Columns of a link's tables that its sink does not get (`drop`), or as hashes, or masked, in this order.

    Lists of patterns `schema.table.column`, or `column`. `salt_env` names the
    variable that holds the salt of the hashes.
    """

    drop: Annotated[tuple[ColumnPattern, ...], BeforeValidator(as_list)] = ()
    hash: Annotated[tuple[ColumnPattern, ...], BeforeValidator(as_list)] = ()
    mask: Annotated[tuple[Annotated[MaskedColumnsSpec, BeforeValidator(_as_mask)], ...], BeforeValidator(as_list)] = ()
    salt_env: EnvironmentName | None = None

    @model_validator(mode="after")
    def _hashes_are_salted(self) -> ColumnsSpec:
        if self.hash and self.salt_env is None:
            text = "hashes need a salt: name the environment variable that holds it with salt_env"
            raise ValueError(text)
        return self

    @property
    def are_treated(self) -> bool:
        """Whether anything is done to any column."""
        return bool(self.drop or self.hash or self.mask)


ColumnNames: TypeAlias = Annotated[tuple[Text, ...], BeforeValidator(as_list), Field(min_length=1)]

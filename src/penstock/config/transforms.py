"""What a pipeline's file may say of the transforms that come with Penstock (docs/transforms.md)."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - pydantic reads it from a field's annotation
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from penstock.config.columns import ColumnNames, MaskingSpec, as_list
from penstock.config.rules import EnvironmentName  # noqa: TC001 - pydantic reads it from a field's annotation
from penstock.config.spec import Spec, Text
from penstock.core.transforms.conditions import parse_condition
from penstock.core.transforms.type_names import parse_type


def _check_condition(condition: str) -> str:
    parse_condition(condition)
    return condition


def _check_type(name: str) -> str:
    parse_type(name)
    return name


TypeName: TypeAlias = Annotated[str, AfterValidator(_check_type)]


class MaskSpec(MaskingSpec):
    """Columns, by their names, whose values are masked."""

    columns: ColumnNames


class HashSpec(Spec):
    """Columns whose values become hashes, salted with what is in the environment variable `salt_env`."""

    columns: ColumnNames
    salt_env: EnvironmentName


class ExpressionSpec(Spec):
    """A new column that a Spark SQL expression computes, and the type that its value is cast to."""

    name: Text
    sql: Text
    type: TypeName


class LookupSpec(Spec):
    """Columns of a small table in a file, CSV with names in its first line or Parquet (`.parquet`).

    `match` says which column of the row equals which column of the file. `add` are
    the columns that rows get; those of a CSV file are text unless `types` says more.
    """

    file: Path
    match: Annotated[dict[Text, Text], Field(min_length=1)]
    add: ColumnNames
    types: dict[Text, TypeName] = Field(default_factory=dict)


class TransformSpec(Spec):
    """One transform: a mapping with one of these keys."""

    filter: Annotated[str, AfterValidator(_check_condition)] | None = None
    keep: ColumnNames | None = None
    drop: ColumnNames | None = None
    rename: Annotated[dict[Text, Text], Field(min_length=1)] | None = None
    mask: MaskSpec | None = None
    hash: HashSpec | None = None
    expression: ExpressionSpec | None = None
    lookup: LookupSpec | None = None

    @model_validator(mode="after")
    def _one_key(self) -> TransformSpec:
        if len(self.model_fields_set) != 1:
            text = f"should have one key of {', '.join(type(self).model_fields)}"
            raise ValueError(text)
        return self

    def with_paths_below(self, directory: Path) -> TransformSpec:
        """Return the transform with its file's path absolute."""
        if self.lookup is None:
            return self
        lookup = self.lookup.model_copy(update={"file": (directory / self.lookup.file).resolve()})
        return self.model_copy(update={"lookup": lookup})


TransformList: TypeAlias = Annotated[tuple[TransformSpec, ...], BeforeValidator(as_list)]

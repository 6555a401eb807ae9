"""Columns from a small table that is looked up by other columns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.arrow_types import arrow_type
from penstock.core.tables import Column
from penstock.core.transforms.transform import (
    columns_of,
    declared,
    lay_out,
    refuse,
    require_columns,
    require_new_column,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from penstock.core.tables import TableSchema
    from penstock.core.transforms.transform import Values

_NOT_THERE: Final = -1


@dataclass(frozen=True, slots=True)
class LookupTable:
    """m rows that are found by the columns `key`, of which no two rows have the same, and none is NULL.

    `columns` are those that rows get, by their names in `rows`; `origin` names the table in errors.
    """

    origin: str
    rows: pa.Table = field(repr=False)
    key: tuple[str, ...]
    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        """Raise ValueError for a column that is not there, a NULL in the key, and a key that is there twice."""
        for name in (*self.key, *(column.name for column in self.columns)):
            if name not in self.rows.column_names:
                message = f"{self.origin} has no column {name} (it has {', '.join(self.rows.column_names)})"
                raise ValueError(message)
        for name in self.key:
            if self.rows.column(name).null_count:
                message = f"{self.origin} has a row without a value in {name}, by which it is looked up"
                raise ValueError(message)
        counts = self.rows.group_by(list(self.key)).aggregate([([], "count_all")]).to_pylist()
        twice = next((found for found in counts if found["count_all"] > 1), None)
        if twice is not None:
            said = ", ".join(f"{name} = {twice[name]}" for name in self.key)
            message = f"{self.origin} has more than one row with {said}, so the lookup is ambiguous"
            raise ValueError(message)


@dataclass(frozen=True, slots=True)
class Lookup:
    """Rows get the columns of `table`'s row whose key equals their columns `on`, NULL where there is none.

    `on` are pairs: a column of the row, a column of the lookup's key.
    """

    table: LookupTable
    on: tuple[tuple[str, str], ...]

    def derive(self, schema: TableSchema) -> TableSchema:
        """See `Transform`."""
        require_columns(schema, [name for name, _ in self.on])
        for column in self.table.columns:
            require_new_column(schema, column.name)
        self._index(schema)
        # What an older row would have found is known only once it is looked up.
        added = (
            Column(column.name, column.type, nullable=True, default_is_expression=True) for column in self.table.columns
        )
        return replace(schema, columns=(*schema.columns, *added))

    def apply(self, schema: TableSchema, rows: pa.Table) -> tuple[TableSchema, pa.Table]:
        """See `Transform`."""
        after, columns = self.derive(schema), columns_of(schema, rows)
        values = dict(zip((column.name for column in schema.columns), columns, strict=True))
        found = self._index(schema).find([values[name] for name, _ in self.on])
        added = [self.table.rows.column(column.name).combine_chunks().take(found) for column in self.table.columns]
        return lay_out(schema, rows, after, [*columns, *added])

    def reads(self, schema: TableSchema) -> frozenset[str]:
        """The columns of `schema` that say what is found."""
        return frozenset(column.name for column in schema.columns if column.name in dict(self.on))

    def _index(self, schema: TableSchema) -> _KeyIndex:
        index = _KeyIndex([self._keys_like(schema, name, key) for name, key in self.on])
        if index.is_ambiguous:
            reason = f"two rows of {self.table.origin} have one key once it is of this column's type"
            raise refuse(schema, self.on[0][0], reason, "correct the lookup's file, or look up by a text")
        return index

    def _keys_like(self, schema: TableSchema, name: str, key: str) -> Values:
        """Return a column of the lookup's key with the type of the column that it is compared with."""
        column, keys = schema.column(name), self.table.rows.column(key).combine_chunks()
        wanted = arrow_type(column.type)
        try:
            return keys.cast(wanted)
        except pa.ArrowException as error:
            reason = f"{self.table.origin} has {key} as {keys.type}, which cannot be {declared(column)}: {error}"
            hint = "look up by a column of the same type, or correct the lookup's file"
            raise refuse(schema, name, reason, hint) from error


class _KeyIndex:
    """Finds rows of a lookup by the values of their key."""

    def __init__(self, keys: Sequence[Values]) -> None:
        """Take the columns of the key, of m values each, none of them null."""
        self._parts = [pc.unique(key) for key in keys]
        self._codes = pa.array(_codes(keys, self._parts))
        self.is_ambiguous = len(pc.unique(self._codes)) < len(self._codes)

    def find(self, asked: Sequence[Values]) -> pa.Int32Array:
        """Return for n rows, given as columns, which of the m rows has the same key (int32[n]); null where none has."""
        return pc.index_in(pa.array(_codes(asked, self._parts)), value_set=self._codes)


def _codes(columns: Sequence[Values], parts: Sequence[Values]) -> npt.NDArray[np.int64]:
    """Number the rows of `columns` so that equal ones have the same number, by where their values are in `parts`.

    -1 where a value is in none. The numbers stay below 2**63 for keys whose parts multiply to less.
    """
    codes = np.zeros(len(columns[0]), dtype=np.int64)
    known = np.ones(len(codes), dtype=np.bool_)
    for values, part in zip(columns, parts, strict=True):
        at = np.asarray(pc.index_in(values, value_set=part).fill_null(_NOT_THERE), dtype=np.int64)
        codes = codes * len(part) + at
        known &= at != _NOT_THERE
    return np.where(known, codes, _NOT_THERE)

"""What every transform is, and what is said of one that does not fit a table."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, cast

import pyarrow as pa

from penstock.core.arrow_types import arrow_type
from penstock.core.errors import TableStoppedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.core.tables import Column, TableSchema

Values: TypeAlias = "pa.Array[pa.Scalar[pa.DataType]]"
"""The values of one column."""
_WHERE = "its transforms"
_NO_COLUMN: Final = (
    "correct the name; if the table got the column later, put the rows from before aside (on_error: dead_letter), "
    "and have the table read again when the spolt is past them (penstock snapshot FILE TABLE)"
)


class Transform(Protocol):
    """Rows of one table to rows of another shape. Frozen; pickles.

    Equal rows give equal rows, in every batch and after every restart, and a NULL
    is never turned into a value. Rows with different keys keep different keys.
    """

    def derive(self, schema: TableSchema) -> TableSchema:
        """Return the table that comes out. Raises TableStoppedError if this does not fit the columns of `schema`."""
        ...

    def apply(self, schema: TableSchema, rows: pa.Table) -> tuple[TableSchema, pa.Table]:
        """Return what comes out: `derive(schema)` and its rows.

        `rows` begin with the columns of `schema`, in its order, with the types of
        `penstock.core.arrow_types`; further columns go on as they are. Raises what
        `derive` raises, and TableStoppedError for a value that cannot be carried.
        """
        ...


def lay_out(
    before: TableSchema, rows: pa.Table, after: TableSchema, columns: Sequence[Values]
) -> tuple[TableSchema, pa.Table]:
    """Return `after` and its `columns`, with those columns of `rows` that are not of `before` behind them.

    Every column of a table may be null here: a row image may lack it.
    """
    fields = [pa.field(column.name, arrow_type(column.type)) for column in after.columns]
    further = range(len(before.columns), rows.num_columns)
    layout = pa.schema([*fields, *(rows.schema.field(index) for index in further)])
    return after, pa.Table.from_arrays([*columns, *(rows.column(index) for index in further)], schema=layout)


def columns_of(schema: TableSchema, rows: pa.Table) -> list[Values]:
    """Return the columns of `rows` that are those of `schema`, in its order."""
    return [rows.column(index).combine_chunks() for index in range(len(schema.columns))]


def plain_values(values: Values) -> list[object]:
    """Return Python's values of n `values`, None for null."""
    # The stubs know how values look in Python for certain types only; text stands for any of them here.
    return list[object](cast("pa.StringArray", values).to_pylist())


def require_columns(schema: TableSchema, names: Iterable[str]) -> None:
    """Raise TableStoppedError for the first of `names` that is no column of `schema`; it tells those that are near."""
    there = [column.name for column in schema.columns]
    for name in names:
        if name not in there:
            raise refuse(schema, name, f"there is no such column{suggest(name, there)}", _NO_COLUMN)


def require_new_column(schema: TableSchema, name: str) -> None:
    """Raise TableStoppedError if `schema` has a column called `name`, upper and lower case not counted."""
    if any(column.name.casefold() == name.casefold() for column in schema.columns):
        raise refuse(schema, name, "there is a column of this name already", "give the new column another name")


def require_no_key(schema: TableSchema, names: Iterable[str], verb: str, hint: str) -> None:
    """Raise TableStoppedError if one of `names` is in the key of `schema`."""
    for name in names:
        if name in schema.key:
            reason = f"it is in the primary key, and a key that is {verb} no longer identifies a row"
            raise refuse(schema, name, reason, hint)


def suggest(name: str, known: Sequence[str]) -> str:
    """Return ` (did you mean ...?)` with the names that are near, or all of them where none is."""
    folded = {other.casefold(): other for other in known}
    close = [folded[other] for other in get_close_matches(name.casefold(), folded, n=3, cutoff=0.6)]
    return f" (did you mean {' or '.join(close)}?)" if close else f" (known here: {', '.join(known)})"


def refuse(schema: TableSchema, column: str, reason: str, hint: str) -> TableStoppedError:
    """Build the error that stops a table whose columns a transform does not fit."""
    return TableStoppedError(str(schema.table), column, _WHERE, reason, hint)


def declared(column: Column) -> str:
    """Name the column's type as the source does."""
    return column.declaration or repr(column.type)

"""Reads the files of lookups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from penstock.core.arrow_types import arrow_type
from penstock.core.errors import UsageError
from penstock.core.tables import Column
from penstock.core.transforms.arrow_columns import column_type_of
from penstock.core.transforms.lookups import LookupTable
from penstock.core.transforms.type_names import parse_type

if TYPE_CHECKING:
    from penstock.config.transforms import LookupSpec

_BYTES_MAX = 64 << 20


def read_lookup(spec: LookupSpec) -> LookupTable:
    """Read a lookup's file, at most 64 MiB of it.

    Raises UsageError for a file that is missing, too large, not what its name
    says, or lacks a column, and for keys that are there twice.
    """
    try:
        if spec.file.stat().st_size > _BYTES_MAX:
            message = f"{spec.file} has {spec.file.stat().st_size} bytes, and every task holds a lookup in memory"
            raise UsageError(message, f"use a file of {_BYTES_MAX} bytes at most, or join streams instead")
        rows = _read_parquet(spec) if spec.file.suffix == ".parquet" else _read_csv(spec)
        columns = tuple(_column(spec, name, rows) for name in spec.add)
        return LookupTable(str(spec.file), _typed(rows, columns), tuple(spec.match.values()), columns)
    except OSError as error:
        message = f"cannot read the lookup {spec.file}: {error.strerror or error}"
        raise UsageError(message, "put the file there, or correct `lookup.file`") from error
    except (pa.ArrowException, ValueError) as error:
        message = f"the lookup {spec.file} cannot be used: {error}"
        raise UsageError(message, "correct the file, or what `lookup` says of it") from error


def _read_csv(spec: LookupSpec) -> pa.Table:
    """Read the columns that are asked for, as text; an empty one is a text, not NULL."""
    names = [*spec.match.values(), *spec.add]
    convert = pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
    return pa_csv.read_csv(spec.file, convert_options=convert)


def _read_parquet(spec: LookupSpec) -> pa.Table:
    return pq.read_table(spec.file)


def _column(spec: LookupSpec, name: str, rows: pa.Table) -> Column:
    if name not in rows.column_names:
        message = f"it has no column {name} (it has {', '.join(rows.column_names)})"
        raise ValueError(message)
    told = spec.types.get(name)
    type_ = column_type_of(rows.schema.field(name).type) if told is None else parse_type(told)
    return Column(name, type_, nullable=True)


def _typed(rows: pa.Table, columns: tuple[Column, ...]) -> pa.Table:
    """Give `columns` the types that they are told to have; of text, an empty one is NULL where that is no text."""
    for column in columns:
        index, wanted = rows.column_names.index(column.name), arrow_type(column.type)
        values = rows.column(index)
        if values.type == pa.string() != wanted:
            values = pa.chunked_array([[text or None for text in values.to_pylist()]], pa.string())
        rows = rows.set_column(index, column.name, values.cast(wanted))
    return rows

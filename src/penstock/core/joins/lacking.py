"""Which columns the rows of an input's messages lack."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.changes import Op
from penstock.core.errors import PenstockError
from penstock.core.transforms.constants import fill_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.core.avro.arrays import Flags
    from penstock.core.avro.envelope_decode import DecodedRows
    from penstock.core.tables import TableSchema


def find_lacking(decoded: DecodedRows) -> Mapping[str, Flags]:
    """For each column that some row lacks, which ones do; what is deleted lacks nothing that anybody asks for."""
    found: dict[str, Flags] = {}
    if not decoded.lacks.null_count and not pc.max(pc.binary_length(decoded.lacks)).as_py():
        return found
    lacks: Any = decoded.lacks
    encoded: Any = lacks.fill_null("").dictionary_encode()
    numbers = encoded.indices.to_numpy(zero_copy_only=False)
    is_there = np.asarray(pc.not_equal(decoded.op, pa.scalar(Op.DELETE.value)), np.bool_)
    for number, names in enumerate(encoded.dictionary.to_pylist()):
        for name in json.loads(names) if names else ():
            found[name] = found.get(name, np.zeros(len(decoded), np.bool_)) | ((numbers == number) & is_there)
    return {name: flags for name, flags in found.items() if flags.any()}


def with_defaults(
    schema: TableSchema, decoded: DecodedRows, lacking: Mapping[str, Flags]
) -> tuple[pa.RecordBatch, Mapping[str, Flags]]:
    """The rows with the defaults of what created ones lack, and what changed ones lack.

    A row that is inserted is logged without a column if it took its default there.
    Raises PenstockError where only the source knows that.
    """
    is_update = np.asarray(pc.equal(decoded.op, pa.scalar(Op.UPDATE.value)), np.bool_)
    rows: Any = decoded.rows
    for name, flags in lacking.items():
        if (flags & ~is_update).any():
            index = rows.schema.get_field_index(name)
            values = pc.if_else(pa.array(flags & ~is_update), _default(schema, name), rows.column(index))
            rows = rows.set_column(index, rows.schema.field(index), values)
    return rows, {name: flags & is_update for name, flags in lacking.items() if (flags & is_update).any()}


def _default(schema: TableSchema, name: str) -> pa.Scalar[Any]:
    try:
        return fill_value(replace(schema.column(name), filled=None))[0]
    except ValueError as error:
        message = f"a row of {schema.table} was inserted without {name}, and {error}"
        hint = (
            "put the column into exclude_fields, and have a join that has begun made again: penstock joinery rebuild "
            "FILE JOIN; or set binlog_row_image=FULL in the source and begin a new pipeline"
        )
        raise PenstockError(message, hint) from error

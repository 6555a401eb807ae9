"""Files of Parquet, by position of their columns, as PostgreSQL's COPY text.

Source: Amazon Redshift Database Developer Guide, "COPY from columnar data formats", "SERIALIZETOJSON".
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from penstock.dev.redshift.copy_values import escape
from penstock.dev.redshift.errors import INTERNAL
from penstock.dev.redshift.load_errors import TOO_LONG, BadRow, LoadError
from penstock.dev.redshift.wire import RedshiftError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.dev.redshift.copy_target import Column

pc: Any = pyarrow.compute  # its stubs refuse what its functions take

_BATCH_ROWS = 20_000
_BUFFERED_BYTES = 16 << 20

_FITS: dict[str, Callable[[pa.DataType], bool]] = {
    "bool": pa.types.is_boolean,
    "int2": lambda kind: pa.types.is_int16(kind) or pa.types.is_int8(kind) or pa.types.is_int32(kind),
    "int4": lambda kind: pa.types.is_int32(kind) or pa.types.is_int16(kind) or pa.types.is_int8(kind),
    "int8": pa.types.is_int64,
    "float4": pa.types.is_float32,
    "float8": pa.types.is_float64,
    "numeric": pa.types.is_decimal,
    "date": pa.types.is_date32,
    "timestamp": pa.types.is_timestamp,
    "timestamptz": pa.types.is_timestamp,
    "time": pa.types.is_time,
    "varbyte": lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind),
    "geometry": lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind),
    "super": lambda _kind: True,
}


@dataclass
class ParquetReader:
    """Reads the files of one COPY."""

    columns: tuple[Column, ...]
    serialize_to_json: bool
    skipped: frozenset[int] = frozenset()

    def batches(self, chunks: Iterator[bytes]) -> Iterator[pa.RecordBatch]:
        """One file's rows. RedshiftError for a file that is none, or whose columns do not fit."""
        with tempfile.SpooledTemporaryFile(_BUFFERED_BYTES) as file:
            for chunk in chunks:
                file.write(chunk)
            file.seek(0)
            try:
                parquet = pq.ParquetFile(file)
            except pa.ArrowInvalid as error:
                message = "Spectrum Scan Error"
                raise RedshiftError(INTERNAL, message, f"the file is not in Parquet format: {error}") from error
            self._check(parquet.schema_arrow)
            yield from parquet.iter_batches(_BATCH_ROWS)

    def texts(self, batch: pa.RecordBatch, first_row: int) -> list[pa.Array[Any]]:
        """A batch's columns as PostgreSQL takes them. LoadError for a value that is too long."""
        return [
            escape(self._text(values, column, first_row))
            for column, values in zip(self.columns, batch.columns, strict=True)
        ]

    def _check(self, schema: pa.Schema) -> None:
        if len(schema) != len(self.columns):
            detail = f"the file has {len(schema)} columns, the table's list {len(self.columns)}"
            raise RedshiftError(INTERNAL, "Number of columns in the file and the table do not match", detail)
        for column, found in zip(self.columns, schema, strict=True):
            nested = pa.types.is_nested(found.type)
            fits = _FITS.get(column.type_name, _is_text)(found.type)
            if column.type_name == "numeric" and fits:
                fits = found.type.scale == column.scale
            if column.type_name == "super" and nested and not self.serialize_to_json:
                fits = False
            if not fits:
                message = (
                    f"File has an incompatible Parquet schema for column '{column.name}'."
                    f" Column type: {column.type_text.upper()}, Parquet schema: {found.type}"
                )
                hint = "give SERIALIZETOJSON for nested columns" if nested else ""
                raise RedshiftError(INTERNAL, "Spectrum Scan Error", message, hint)

    def _text(self, values: pa.Array[Any], column: Column, first_row: int) -> pa.Array[Any]:
        kind = values.type
        if column.type_name == "super":
            return pa.array([None if value is None else _json(value) for value in values.to_pylist()], pa.string())
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            if column.type_name in {"varbyte", "geometry"}:
                values = pa.array([None if value is None else value.hex() for value in values.to_pylist()], pa.string())
        elif pa.types.is_timestamp(kind) and kind.tz is not None:
            values = pc.binary_join_element_wise(
                values.cast(pa.timestamp(kind.unit, "UTC")).cast(pa.timestamp(kind.unit)).cast(pa.string()), "+00", ""
            )
        texts = values.cast(pa.string())
        limit = (column.length or 0) * (2 if column.type_name == "varbyte" else 1)
        if limit:
            bad = pc.index(pc.fill_null(pc.greater(pc.binary_length(texts), limit), fill_value=False), True).as_py()
            if bad >= 0:
                reason = f"The length of the data column {column.name} is longer than the length defined in the table."
                raise LoadError(BadRow(first_row + bad, column.number, TOO_LONG, reason, texts[bad].as_py()))
        return texts


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind)


def _json(value: object) -> str:
    """A nested or plain value as compact JSON; what JSON has no word for, as text."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)

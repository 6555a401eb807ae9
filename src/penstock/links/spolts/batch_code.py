"""Runs user code that takes Arrow batches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.core.avro.envelope_decode import decode_changes
from penstock.core.avro.schemas import table_schema
from penstock.core.avro_types import Record, Union, parse_avro
from penstock.core.errors import PenstockError
from penstock.core.spolts.arrow_schemas import arrow_of_avro, avro_of_arrow
from penstock.core.spolts.batches import KEY, TO, batch_of_changes, batch_of_records, told, values_of
from penstock.core.spolts.message import Output
from penstock.links.spolts.bounds import require_bounded
from penstock.links.spolts.encode import Encoded, key_of_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.config.spolts import OutputSpec
    from penstock.core.avro_types import AvroSchema, AvroType
    from penstock.core.spolts.raw import RawMessage
    from penstock.core.tables import TableSchema
    from penstock.links.spolts.decode import MessageDecoder
    from penstock.links.spolts.encode import OutputEncoder
    from penstock.links.spolts.spec import UserCode


class BatchCode:
    """A batch function between a decoder and an encoder."""

    def __init__(self, function: UserCode, decoder: MessageDecoder, encoder: OutputEncoder) -> None:
        """Call `function` with what `decoder` reads, and give what it returns to `encoder`."""
        self._function = function
        self._decoder = decoder
        self._encoder = encoder

    def process(self, raws: Sequence[RawMessage]) -> list[Encoded]:
        """Process messages that have one schema. Raises whatever user code raises."""
        found = self._function(self._read(raws))
        if isinstance(found, pa.Table):
            found = found.combine_chunks().to_batches()
            found = found[0] if found else pa.RecordBatch.from_pylist([], schema=pa.schema([]))
        if not isinstance(found, pa.RecordBatch):
            text = f"a batch function returns a pyarrow.RecordBatch, not {type(found).__name__}"
            raise TypeError(text)
        given_bytes = sum(len(raw.key or b"") + len(raw.value or b"") for raw in raws)
        require_bounded(found.num_rows, found.nbytes, given_bytes)
        return self._write(found) if found.num_rows else []

    def _read(self, raws: Sequence[RawMessage]) -> pa.RecordBatch:
        if raws[0].value is None:
            text = "a tombstone has no columns: take one message at a time to have those too"
            raise ValueError(text)
        schema = self._decoder.schema_of(raws[0].value)
        table = None if schema is None else _own_table(schema[1])
        if table is not None and schema is not None:
            values = pa.array([raw.value for raw in raws], pa.binary())
            return batch_of_changes(raws, decode_changes(table, schema[1], values))
        messages = [self._decoder.decode(raw).message for raw in raws]
        columns = None if schema is None else _columns(parse_avro(schema[1]))
        return batch_of_records(raws, messages, columns)

    def _write(self, batch: pa.RecordBatch) -> list[Encoded]:
        keys, targets = told(batch, KEY), told(batch, TO)
        values = values_of(batch)
        encoded: list[Encoded] = []
        by_target: dict[object, tuple[OutputSpec, str, list[dict[str, object]]]] = {}
        for target in dict.fromkeys(targets):
            spec = self._encoder.output(None if target is None else str(target))
            by_target[target] = (spec, *self._rows(spec, values))
        for index, (key, target) in enumerate(zip(keys, targets, strict=True)):
            spec, text, rows = by_target[target]
            row = rows[index]
            own_key = self._encoder.record_key(spec, text, Output(row)) if spec.key else key_of_text(key)
            encoded.append(Encoded(spec.topic, own_key, self._encoder.record_value(spec, text, row)))
        return encoded

    def _rows(self, spec: OutputSpec, values: pa.RecordBatch) -> tuple[str, list[dict[str, object]]]:
        """The schema of an output, and the rows as its encoder takes them."""
        wanted = self._encoder.told_schema(spec)
        if isinstance(spec.schema_file, Path):
            text = self._encoder.schema_text(spec)
        else:
            if wanted is not None:
                values = values.select(wanted.names).cast(wanted)
            text = avro_of_arrow(spec.topic, values.schema)
        return text, values.to_pylist(maps_as_pydicts="strict")


def _own_table(text: str) -> TableSchema | None:
    """The table that a schema is of, if a capture wrote it."""
    try:
        return table_schema(text)
    except PenstockError:
        return None


def _columns(schema: AvroSchema) -> pa.Schema:
    """The columns for records of a schema, of rows in somebody's envelope where it is one."""
    root = schema.resolve(schema.root)
    if not isinstance(root, Record):
        text = "its values are no records"
        raise ValueError(text)  # noqa: TRY004 - one error for all values that are not as wanted
    fields = {field.name: field.type for field in root.fields}
    row = root
    if {"before", "after", "op"} <= fields.keys():
        row = _row_record(fields["after"], schema) or root
    return pa.schema([pa.field(field.name, arrow_of_avro(field.type, schema)) for field in row.fields])


def _row_record(type_: AvroType, schema: AvroSchema) -> Record | None:
    found = schema.resolve(type_)
    branches = [schema.resolve(branch) for branch in found.branches] if isinstance(found, Union) else [found]
    return next((branch for branch in branches if isinstance(branch, Record)), None)

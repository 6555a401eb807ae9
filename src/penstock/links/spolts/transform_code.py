"""Runs the transforms that come with Penstock: changes of tables in, changes of the transformed tables out."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.core.avro.envelope_decode import decode_changes
from penstock.core.avro.envelope_encode import EncodableTable, encode_changes
from penstock.core.avro.schemas import key_schema, table_schema, value_schema
from penstock.core.avro.wire import FRAME_BYTES
from penstock.core.changes import Op, RowBatch
from penstock.core.errors import PenstockError
from penstock.core.spolts.avro_records import avro_records
from penstock.core.transforms.changed_rows import ChangedRows, changed_rows, with_blanks
from penstock.core.transforms.changes import transform_changes
from penstock.links.spolts.encode import Encoded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.core.avro.envelope_decode import DecodedChanges
    from penstock.core.spolts.raw import RawMessage
    from penstock.core.tables import TableSchema
    from penstock.core.transforms.changes import Evaluate, Step
    from penstock.core.transforms.expressions import ExpressionColumn
    from penstock.links.spolts.decode import MessageDecoder
    from penstock.ports.subjects import Subjects


@dataclass(frozen=True, slots=True)
class Transforms:
    """The transforms of a spolt, in the place of a user's function: called with ChangedRows, they return such."""

    steps: tuple[Step, ...]
    evaluate: Evaluate

    def __call__(self, given: object, /) -> ChangedRows:
        """Transform changes; raises what `transform_changes` does."""
        if not isinstance(given, ChangedRows):
            raise TypeError(given)
        return transform_changes(self.steps, given, self.evaluate)


def without_spark(column: ExpressionColumn, schema: TableSchema, rows: pa.Table) -> tuple[TableSchema, pa.Table]:
    """Refuse an expression where there is no Spark: in tests of users. Raises PenstockError."""
    del rows
    message = f"{schema.table}.{column.name} is a Spark SQL expression, and there is no Spark here to evaluate it"
    raise PenstockError(message, "run the spolt with penstock run, or leave the expression out here")


class TransformCode:
    """Transforms between a decoder and the registry."""

    def __init__(self, transforms: Transforms, topic: str, decoder: MessageDecoder, subjects: Subjects) -> None:
        """Write to `topic`, and register what is written there with `subjects`."""
        self._transforms = transforms
        self._topic = topic
        self._decoder = decoder
        self._subjects = subjects

    def process(self, raws: Sequence[RawMessage]) -> list[Encoded]:
        """Process messages that have one schema, that of a table. A tombstone is passed over: a delete came before it.

        Raises PenstockError for what no capture and no such spolt wrote, and where a
        transform does not fit the table.
        """
        schema = self._decoder.schema_of(raws[0].value)
        if schema is None:
            if raws[0].value is None:
                return []
            message = f"{raws[0].topic} has no schemas, and transforms are for changes of tables"
            raise PenstockError(message, "take it with a function of your own")
        table, text = table_schema(schema[1]), schema[1]
        changes = decode_changes(table, text, pa.array([raw.value for raw in raws], pa.binary()))
        first = avro_records(text).decode((raws[0].value or b"")[FRAME_BYTES:])
        rows = with_blanks(self._transforms(changed_rows(table, changes)))
        return self._encode(rows, changes, first["source"]["connector"]) if len(rows) else []

    def _encode(self, rows: ChangedRows, changes: DecodedChanges, connector: str) -> list[Encoded]:
        """Encode changes in their order; those that follow each other and are alike but for their rows, together."""
        before, after = (_batch(table) for table in (rows.before(), rows.after()))
        ids = self._register(rows.schema)
        encoded: list[Encoded] = []
        for run in _runs(rows, changes):
            origin = rows.origin[run.start : run.end]
            batch = RowBatch(
                schema=rows.schema,
                op=run.op,
                before=None if run.op in {Op.CREATE, Op.READ} else before.slice(run.start, run.end - run.start),
                after=None if run.op is Op.DELETE else after.slice(run.start, run.end - run.start),
                file=run.file,
                offsets=changes.pos[origin],
                rows=changes.row[origin],
                timestamps_ms=changes.ts_ms[origin],
                gtids=changes.gtid.take(pa.array(origin, pa.int64())),
                server_id=run.server_id,
                before_lacks=run.before_lacks,
                after_lacks=run.after_lacks,
            )
            table = EncodableTable(run.source, connector, rows.schema, *ids, repeatable=True)
            keys, values = encode_changes(table, batch, 0)
            pairs = zip(keys.to_pylist(), values.to_pylist(), strict=True)
            encoded += [Encoded(self._topic, key, value) for key, value in pairs]
        return encoded

    def _register(self, schema: TableSchema) -> tuple[int | None, int]:
        """Return the ids of the key's schema, None where there is no key, and of the value's."""
        key = key_schema(schema)
        key_id = None if key is None else self._subjects.register_key(f"{self._topic}-key", key)
        return key_id, self._subjects.register_subject(f"{self._topic}-value", value_schema(schema))


@dataclass(frozen=True, slots=True)
class _Run:
    """Changes `[start, end)` with one op, which come from one place, and whose rows lack the same columns."""

    start: int
    end: int
    op: Op
    file: str
    server_id: int
    source: str
    before_lacks: tuple[str, ...]
    after_lacks: tuple[str, ...]


def _runs(rows: ChangedRows, changes: DecodedChanges) -> Iterator[_Run]:
    files, sources = changes.file.to_pylist(), changes.source.to_pylist()
    servers = changes.server_id.tolist()
    origins = rows.origin.tolist()
    kinds = zip(
        map(Op, rows.ops.tolist()),
        [str(files[at]) for at in origins],
        [servers[at] for at in origins],
        [str(sources[at]) for at in origins],
        rows.lacking(rows.before_at),
        rows.lacking(rows.after_at),
        strict=True,
    )
    start = 0
    for kind, group in groupby(kinds):
        end = start + sum(1 for _ in group)
        yield _Run(start, end, *kind)
        start = end


def _batch(table: pa.Table) -> pa.RecordBatch:
    found = table.combine_chunks().to_batches()
    return found[0] if found else pa.RecordBatch.from_pylist([], schema=table.schema)

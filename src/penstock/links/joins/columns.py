"""Messages of an input with the columns that its plan knows, whatever schema they were written with."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from penstock.core.avro.schemas import table_schema
from penstock.core.errors import UnavailableError
from penstock.core.joins.described import column_origins, described, describes_anew, versions_at, versions_of
from penstock.core.joins.rows import as_planned, require_same_meaning
from penstock.core.joins.upgrade import widen_plan
from penstock.core.json_messages.keys import decode_json_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from penstock.core.avro.arrays import Flags
    from penstock.core.joins.described import Origin
    from penstock.core.joins.plan import PlannedInput
    from penstock.core.schema_changes import SchemaChange
    from penstock.core.tables import Column, TableSchema
    from penstock.links.joins.spec import JoinJob, JoinStream


class InputColumns:
    """What the columns of an input's messages are to its plan; schemas are asked for when a message needs them."""

    def __init__(self, given: PlannedInput, stream: JoinStream, value_schema: Callable[[int], str]) -> None:
        """Know schemas by `value_schema` (ports/registry.Registry)."""
        self._given = given
        self._stream = stream
        self._value_schema = value_schema
        self._versions = versions_of(stream.described)
        self._origins: dict[int, Mapping[str, Origin]] = {}
        self._tables: dict[int, TableSchema] = {}

    def pieces(
        self, schema_id: int, rows: pa.RecordBatch, orders: npt.NDArray[np.int64]
    ) -> Iterator[tuple[slice, pa.RecordBatch, Mapping[str, Origin]]]:
        """Yield rows of one schema as the plan knows them: where in `rows` each piece stands, it, and its columns.

        `orders` are those in the source's log, as in `Changed`. Raises UnavailableError for a
        schema that was announced since the join was opened, or whose announcement Kafka does
        not show yet, and PenstockError for rows that the plan does not fit any more.
        """
        numbers = versions_at(self._versions, schema_id, orders)
        if len(numbers) < len(orders):
            raise _unknown(self._stream)
        edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        table = self._table(self._stream.schema_id)
        for start, end in pairwise(edges):
            if start < end:
                origins = self._origins_at(int(numbers[start]))
                piece = as_planned(self._given, table, origins, rows.slice(start, end - start))
                yield slice(start, end), piece, origins

    def read_of(self, schema_id: int, lacking: Mapping[str, Flags]) -> Mapping[str, Flags]:
        """What rows of a schema lack (see core/joins/lacking.py) of the columns that the plan reads."""
        if not lacking:
            return lacking
        numbers = [number for number, each in enumerate(self._versions) if each.schema_id == schema_id]
        origins = [self._origins_at(number) for number in numbers]
        read = {each.get(name) for each in origins for name in self._given.read_columns}
        return {name: flags for name, flags in lacking.items() if name in read}

    def keys(self, keys: pa.BinaryArray) -> pa.RecordBatch:
        """The columns of the key in keys of JSON messages. Raises CorruptLogError for what is none.

        A topic has one key for ever, whatever else of its table changes.
        """
        table = self._table(self._stream.schema_id)
        return decode_json_keys([table.column(name) for name in self._given.row_key], keys)

    def since(self) -> Sequence[Mapping[str, Column]]:
        """What the columns have been since the plan was made, by its names, in order, but for those that are gone.

        Raises as `pieces`.
        """
        found = []
        for number in range(self._planned() + 1, len(self._versions)):
            origins, table = self._origins_at(number), self._table(self._versions[number].schema_id)
            found.append({name: table.column(now) for name, now in origins.items() if isinstance(now, str)})
        return found

    def _origins_at(self, number: int) -> Mapping[str, Origin]:
        if number not in self._origins:
            planned = self._planned()
            between = self._versions[min(number, planned) : max(number, planned) + 1]
            tables = [self._table(each.schema_id) for each in between]
            found = self._origins[number] = column_origins(self._versions, tables, planned, number)
            # Rows from before a table that begins anew are gone by the time that this is published.
            if number >= planned or not any(each.begins for each in between[1:]):
                own, its = (tables[0], tables[-1]) if number >= planned else (tables[-1], tables[0])
                require_same_meaning(self._given, own, found, its)
        return self._origins[number]

    def _planned(self) -> int:
        """The version that the plan was made of: the newest one, where the table came back to its schema."""
        own = [number for number, each in enumerate(self._versions) if each.schema_id == self._stream.schema_id]
        if not own:
            raise _unknown(self._stream)
        return own[-1]

    def _table(self, schema_id: int) -> TableSchema:
        if schema_id not in self._tables:
            self._tables[schema_id] = table_schema(self._value_schema(schema_id))
        return self._tables[schema_id]


def widened(job: JoinJob, value_schema: Callable[[int], str]) -> JoinJob:
    """A join that has begun, with the types that its columns have got since. Raises as `InputColumns.pieces`."""
    pairs = zip(job.plan.inputs, job.streams, strict=True)
    since = [InputColumns(given, stream, value_schema).since() for given, stream in pairs]
    return replace(job, plan=widen_plan(job.plan, since))


def require_described(stream: JoinStream, told: SchemaChange) -> None:
    """Raise UnavailableError for an event that makes other columns, and is newer than what a join knows of an input."""
    each = described(told)
    if each is None or each in stream.described:
        return
    if not stream.described or describes_anew(stream.described[-1], each):
        raise _unknown(stream)


def _unknown(stream: JoinStream) -> UnavailableError:
    message = f"the columns of {stream.source}.{stream.table} changed, and the join reads its schemas again"
    return UnavailableError(message, "it starts again by itself and goes on where it was")

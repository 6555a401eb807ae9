"""How large the state of a join will be, from a sample of its topics' messages."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.avro.buffers import binary_offsets
from penstock.core.avro.schemas import table_schema
from penstock.core.changes import Op
from penstock.core.errors import CorruptLogError
from penstock.core.joins.cells import encode_cells, lacking_anything
from penstock.core.joins.keys import key_bytes
from penstock.core.joins.lacking import find_lacking
from penstock.core.joins.rows import encode_stored, find_seen, key_values
from penstock.core.message_format import decode_rows, schema_ids
from penstock.links.joins.columns import InputColumns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from penstock.core.avro.arrays import Flags, Integers
    from penstock.core.avro.envelope_decode import DecodedRows
    from penstock.core.joins.plan import PlannedInput
    from penstock.links.joins.spec import JoinJob

Place: TypeAlias = tuple[str, int]
Scan: TypeAlias = "Callable[[Mapping[Place, tuple[int, int]]], Iterator[tuple[Place, int, bytes | None, bytes | None]]]"

_WINDOWS = 4
_WINDOW_OFFSETS = 250
_PARTITIONS_MAX = 8
_CELL_BYTES = 12
"""Of a row, beside its key and what is kept of it: lengths, and its place in its source's log."""
_GROUP_BYTES = 15
"""Of a join key, beside the key: what its rows come to, input by input."""


@dataclass(frozen=True, slots=True)
class InputEstimate:
    """What an input will take: about so many rows, `messages` at most, and so many bytes for each.

    `sampled` is how many messages were looked at.
    """

    topic: str
    messages: int
    sampled: int
    rows: int
    row_bytes: float

    @property
    def size_bytes(self) -> int:
        """What its rows take."""
        return round(self.rows * self.row_bytes)


def estimate_state(
    job: JoinJob,
    scan: Scan,
    begins: Mapping[Place, int],
    ends: Mapping[Place, int],
    value_schema: Callable[[int], str],
) -> Sequence[InputEstimate]:
    """Look at a thousand messages or so of each input."""
    estimates = []
    for given, stream in zip(job.plan.inputs, job.streams, strict=True):
        ranges = {place: (begins[place], ends[place]) for place in sorted(begins) if place[0] == stream.topic}
        offsets = sum(end - begin for begin, end in ranges.values())
        columns = InputColumns(given, stream, value_schema)
        seen, count, rows_of_change, sizes = 0, 0, 0, list[float]()
        for stretches in _stretches(ranges):
            seen += sum(end - start for start, end in stretches.values())
            for schema_id, decoded in _read(scan, stretches, value_schema):
                count += len(decoded)
                rows_of_change += _rows_of_change(decoded)
                # Where the table came back to a schema, sizes are the same whichever of the times it was.
                orders = np.zeros((len(decoded), 3), np.int64)
                is_whole = _is_whole(given, decoded, columns.read_of(schema_id, find_lacking(decoded)))
                for part, piece, _ in columns.pieces(schema_id, decoded.rows, orders):
                    sizes += _sizes(given, piece.filter(pa.array(is_whole[part])))
        # Offsets are those of the ends of transactions, and of what was compacted away, too.
        messages = round(offsets * count / seen) if seen else 0
        rows = round(messages * max(0, rows_of_change) / count) if count else 0
        estimates.append(InputEstimate(stream.topic, messages, count, rows, float(np.mean(sizes)) if sizes else 0.0))
    return estimates


def _stretches(ranges: Mapping[Place, tuple[int, int]]) -> Iterator[Mapping[Place, tuple[int, int]]]:
    """Yield a few stretches of a topic, which lie evenly over it."""
    for number in range(_WINDOWS):
        stretches = {}
        for place, (begin, end) in list(ranges.items())[:_PARTITIONS_MAX]:
            start = begin + (end - begin) * number // _WINDOWS
            stretches[place] = (start, min(start + _WINDOW_OFFSETS, begin + (end - begin) * (number + 1) // _WINDOWS))
        yield stretches


def _read(
    scan: Scan, stretches: Mapping[Place, tuple[int, int]], value_schema: Callable[[int], str]
) -> Iterator[tuple[int, DecodedRows]]:
    """Yield the messages of stretches, those of one schema (by its id) together."""
    values = pa.array([value for _, _, _, value in scan(stretches) if value is not None], pa.binary())
    # What cannot be read will be in the join's dead letters.
    with suppress(CorruptLogError):
        ids = schema_ids(values) if len(values) else np.empty(0, np.int64)
        for schema_id in np.unique(ids).tolist():
            text = value_schema(schema_id)
            yield schema_id, decode_rows(table_schema(text), text, values.filter(pa.array(ids == schema_id)))


def _rows_of_change(decoded: DecodedRows) -> int:
    """How many more rows there are behind changes than before them."""
    ops = decoded.op.to_pylist()
    return sum(op in {Op.CREATE.value, Op.READ.value} for op in ops) - ops.count(Op.DELETE.value)


def _is_whole(given: PlannedInput, decoded: DecodedRows, lacking: Mapping[str, Flags]) -> Flags:
    """Which rows have all that is read of them. A deleted one may say its key alone where rows may lack columns."""
    is_whole = ~lacking_anything(lacking, len(decoded))
    if given.is_partial:
        is_whole &= np.asarray(pc.not_equal(decoded.op, pa.scalar(Op.DELETE.value)), np.bool_)
    return is_whole


def _sizes(given: PlannedInput, rows: pa.RecordBatch) -> list[float]:
    """What each row takes in the state."""
    cells = _mean_bytes(given, rows)
    if given.where:
        rows = rows.filter(pa.array(find_seen(given, rows)))
    keys = [key_bytes(key_values(given, names, rows)) for names in (given.row_key, given.join_keys)]
    row_key, join_key, stored = (_lengths(each) for each in (*keys, encode_stored(given, rows)))
    size = row_key + join_key + stored + _CELL_BYTES + _GROUP_BYTES
    if given.remembered:
        size = size + row_key + join_key + _CELL_BYTES
    return [float(each) + cells for each in size]


def _mean_bytes(given: PlannedInput, rows: pa.RecordBatch) -> float:
    """What a row takes once more where rows may lack columns: it is kept for those that do."""
    if not given.is_partial or not rows.num_rows:
        return 0.0
    lengths = [
        _lengths(each) for each in (key_bytes(key_values(given, given.row_key, rows)), *encode_cells(given, rows, {}))
    ]
    return float(sum(each.mean() for each in lengths)) + 2 * len(given.needed) + _CELL_BYTES


def _lengths(values: pa.BinaryArray) -> Integers:
    return np.diff(binary_offsets(values)).astype(np.int64)

"""Updates that change the primary key: a delete of the old key and a create of the new one.

A Kafka key is the bytes of the primary key, so keys are compared byte for byte:
`a` and `A` are two keys whatever the column's collation says. Only -0.0 is the key
0.0, for every database takes the two for one: in topics they would be in two
partitions, and a delete of the one might come behind a create of the other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.changes import Op, RowBatch
from penstock.core.errors import START_ANEW, LogError, TableStoppedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

_ROW_BITS: Final = 24
_OFFSET_BITS: Final = 38


def split_key_changes(batch: RowBatch) -> Sequence[RowBatch]:
    """Return `batch` as batches that never change a key.

    An UPDATE becomes up to three: the updates that keep their key, then a DELETE
    of the old rows and a CREATE of the new ones for those that do not. Every
    part is in log order; `message_order` says how they interleave. Any other
    batch, and any of a table without a key, comes back as it is. Raises
    TableStoppedError where rows with a new key lack columns: nobody could tell
    their values once the old key is gone.
    """
    if batch.op is not Op.UPDATE or batch.before is None or batch.after is None or not batch.schema.key:
        return (batch,)
    changed = _key_changed(batch.before, batch.after, batch.schema.key)
    if not changed.any():
        return (batch,)
    if batch.after_lacks:
        raise _without_its_values(batch, int(np.argmax(changed)))
    before, after = batch.before, batch.after
    kept = () if changed.all() else (_part(batch, ~changed, Op.UPDATE, before, after),)
    return (*kept, _part(batch, changed, Op.DELETE, before, None), _part(batch, changed, Op.CREATE, None, after))


def message_order(batch: RowBatch) -> npt.NDArray[np.int64]:
    """Return a number per change (int64[n]) that sorts the messages of one log file.

    Packed from the highest bit down: the event's offset (38 bits), the row in it
    (24 bits), and one bit that puts the delete of a changed key right before its
    create. Raises LogError for an offset from 256 GiB or a row from 16,777,216.
    Rows of a copy all have one place in the log and may be many more: they are
    ordered by their number alone, and stand in messages of their own.
    """
    if batch.op is Op.READ:
        return batch.rows.astype(np.int64)
    if batch.serials is not None:
        return (batch.serials << 1) | np.int64(batch.op is Op.CREATE)
    if len(batch) and (int(batch.offsets.max()) >> _OFFSET_BITS or int(batch.offsets.min()) < 0):
        message = f"{batch.file} has a rows event at offset {int(batch.offsets.max())}, beyond the largest, 256 GiB"
        hint = f"write smaller transactions, as a binlog ends between two of them only, and {START_ANEW}"
        raise LogError(message, hint)
    if len(batch) and (int(batch.rows.max()) >> _ROW_BITS or int(batch.rows.min()) < 0):
        message = f"{batch.file} has a rows event with row {int(batch.rows.max())}, beyond the largest, 16,777,216"
        raise LogError(message, f"lower binlog_row_event_max_size in the source, and {START_ANEW}")
    is_create = np.int64(batch.op is Op.CREATE)
    return (batch.offsets << (_ROW_BITS + 1)) | (batch.rows.astype(np.int64) << 1) | is_create


def logged_order(batch: RowBatch) -> npt.NDArray[np.int64]:
    """Return what `message_order` does, for rows that stand in the log: those of a copy there have places, too."""
    return message_order(replace(batch, op=Op.CREATE) if batch.op is Op.READ else batch)


def order_of_one(op: Op, offset: int, row: int) -> int | None:
    """Return the number that `message_order` gives to a single change; None where it would raise."""
    if offset >> _OFFSET_BITS or row >> _ROW_BITS:
        return None
    return offset << (_ROW_BITS + 1) | row << 1 | (op is Op.CREATE)


def _key_changed(before: pa.RecordBatch, after: pa.RecordBatch, key: Sequence[str]) -> npt.NDArray[np.bool_]:
    changed = np.zeros(before.num_rows, dtype=np.bool_)
    for name in key:
        old, new = before.column(name), after.column(name)
        # A key has no NULL; if one came all the same, it would count as a change, which loses nothing.
        changed |= ~np.asarray(pc.equal(old, new).to_numpy(zero_copy_only=False), dtype=np.bool_)
    return changed


def _part(
    batch: RowBatch, chosen: npt.NDArray[np.bool_], op: Op, before: pa.RecordBatch | None, after: pa.RecordBatch | None
) -> RowBatch:
    mask = pa.array(chosen)
    return RowBatch(
        schema=batch.schema,
        op=op,
        before=before.filter(mask) if before is not None else None,
        after=after.filter(mask) if after is not None else None,
        file=batch.file,
        offsets=batch.offsets[chosen],
        rows=batch.rows[chosen],
        timestamps_ms=batch.timestamps_ms[chosen],
        gtids=batch.gtids.filter(mask),
        server_id=batch.server_id,
        serials=None if batch.serials is None else batch.serials[chosen],
        before_lacks=batch.before_lacks if before is not None else (),
        after_lacks=batch.after_lacks if after is not None else (),
    )


def _without_its_values(batch: RowBatch, index: int) -> TableStoppedError:
    where = f"{batch.file}:{batch.offsets[index]} row {batch.rows[index]}"
    reason = f"a row got another primary key, and was logged without {', '.join(batch.after_lacks)}"
    hint = f"set binlog_row_image=FULL on the server, for every session, and {START_ANEW}"
    return TableStoppedError(str(batch.schema.table), "", where, reason, hint)

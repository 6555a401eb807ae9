"""Where decoded changes stand in the source's log, and that they are what the range's topic should hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.positions import FILE_BITS, read_file_number
from penstock.core.topic_fingerprints import foreign_message

if TYPE_CHECKING:
    import numpy.typing as npt

    from penstock.core.avro.envelope_decode import DecodedChanges, DecodedRows
    from penstock.core.positions import Order
    from penstock.core.tables import TableId
    from penstock.links.objects.plan import TopicRange


def read_orders(changes: DecodedChanges | DecodedRows, timelines: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """(file number, offset, row) of each change, behind those of earlier timelines: int64[n, 3].

    Raises CorruptLogError for a log file without a number.
    """
    files = changes.file.dictionary_encode()
    numbers = np.array([read_file_number(str(name)) for name in files.dictionary.to_pylist()], np.int64)
    return np.column_stack(
        [
            (timelines << FILE_BITS) + numbers[files.indices.to_numpy()],
            np.asarray(changes.pos, np.int64),
            np.asarray(changes.row, np.int64),
        ]
    )


def order_at(orders: npt.NDArray[np.int64], index: int) -> Order:
    """One of them."""
    file, offset, row = orders[index].tolist()
    return file, offset, row


def require_own(
    topic_range: TopicRange, table: TableId, changes: DecodedChanges | DecodedRows, offsets: npt.NDArray[np.int64]
) -> None:
    """Raise UnreadableMessageError unless all changes, at `offsets`, are of the range's source and its `table`."""
    if str(table) != topic_range.table:
        fault = f"its schema is that of table {table}, not of {topic_range.table}"
        raise _foreign(topic_range, int(offsets[0]), fault)
    own = pc.equal(changes.source, pa.scalar(topic_range.source)).to_numpy(zero_copy_only=False)
    if not own.all():
        index = int(np.argmin(own))
        fault = f"it is of source {str(changes.source[index])!r}, not of {topic_range.source!r}"
        raise _foreign(topic_range, int(offsets[index]), fault)


def require_forward(
    topic_range: TopicRange, orders: npt.NDArray[np.int64], after: Order | None, offsets: npt.NDArray[np.int64]
) -> Order:
    """Return the place of the last change, having checked that none lies before the one ahead of it.

    A row whose key changed is two changes of one place. Raises UnreadableMessageError: a
    capture writes a partition in the order of the log, so somebody else wrote the
    message, or a part of the topic twice.
    """
    ahead = orders if after is None else np.vstack([np.array(after, np.int64), orders])
    steps = np.diff(ahead, axis=0)
    file, offset, row = steps.T
    back = (file < 0) | ((file == 0) & ((offset < 0) | ((offset == 0) & (row < 0))))
    if back.any():
        index = int(np.argmax(back))
        before, found = order_at(ahead, index), order_at(ahead, index + 1)
        fault = f"its position in the log, {_place(found)}, is before that of the message ahead of it, {_place(before)}"
        raise _foreign(topic_range, int(offsets[index + 1 - (len(ahead) - len(orders))]), fault)
    return order_at(orders, -1)


def _foreign(topic_range: TopicRange, offset: int, fault: str) -> Exception:
    return foreign_message(topic_range.topic, topic_range.partition, offset, fault, topic_range.table)


def _place(order: Order) -> str:
    file, offset, row = order
    return f"file {file}, offset {offset}, row {row}"

"""Row changes: as the log holds them, as columns, and as encoded messages."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from penstock.core.tables import TableSchema


class Op(StrEnum):
    """What happened to a row, in Debezium's letters."""

    CREATE = "c"
    UPDATE = "u"
    DELETE = "d"
    READ = "r"


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Changes of one table with one schema and one op, as columns, in log order.

    `before` and `after` have one Arrow column per column of `schema`, in its
    order, with the types of `penstock.core.arrow_types`. CREATE and READ have
    no `before`, DELETE no `after`. The arrays all have as many entries as there
    are changes (n):

    `offsets`       int64[n]  byte offset in `file` of the start of the ROWS event
    `rows`          int32[n]  index of the row in its event, counted from 0; in a
                              compressed transaction both say only which row it is
                              (RowsLogged.rows_offset and first_row)
    `timestamps_ms` int64[n]  commit time in the source, Unix milliseconds
    `gtids`         string[n] GTID of the transaction, "" where there is none

    `before_lacks` and `after_lacks` name the columns that the log has no values
    of; they are null in every row. In an `after` they have the values from before
    the change, in one of CREATE their defaults.
    """

    schema: TableSchema
    op: Op
    before: pa.RecordBatch | None
    after: pa.RecordBatch | None
    file: str
    offsets: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]
    timestamps_ms: npt.NDArray[np.int64]
    gtids: pa.StringArray
    server_id: int
    before_lacks: tuple[str, ...] = ()
    after_lacks: tuple[str, ...] = ()

    def __len__(self) -> int:
        """How many changes there are."""
        return len(self.offsets)


@dataclass(frozen=True, slots=True)
class Messages:
    """Encoded Kafka messages of one topic, in log order.

    `keys` (binary[n]) is null where the table has no primary key, `values`
    (binary[n]) for a tombstone. `order` (int64[n]) sorts the messages of one
    publication across topics. `lanes` (int32[n]) spread messages without a key over
    the partitions, those of one lane into the same; None leaves it to the producer.
    `headers` are each message's, None for none.
    """

    topic: str
    keys: pa.BinaryArray
    values: pa.BinaryArray
    order: npt.NDArray[np.int64]
    lanes: npt.NDArray[np.int32] | None = None
    headers: Sequence[Sequence[tuple[str, bytes]]] | None = None

    def __len__(self) -> int:
        """How many messages there are."""
        return len(self.order)

"""Row changes: as the log holds them, as columns, and as encoded messages."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from penstock.core.tables import TableSchema


MessageFormat: TypeAlias = Literal["avro", "json"]
"""How the messages of a source's tables are written."""


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

    `serials` (int64[n]) go up through the log, for one whose offsets and rows do not
    sort changes in so few bits as there are.
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
    serials: npt.NDArray[np.int64] | None = None
    before_lacks: tuple[str, ...] = ()
    after_lacks: tuple[str, ...] = ()

    def __len__(self) -> int:
        """How many changes there are."""
        return len(self.offsets)


class Messages:
    """Encoded Kafka messages of one topic, in log order.

    `keys` (binary[n]) is null where the table has no primary key, `values`
    (binary[n]) for a tombstone. `order` (int64[n]) sorts the messages of one
    publication across topics. `partition_hints` (int32[n]) spread messages without a key over
    the partitions, those of one hint into the same; None leaves it to the producer.
    `headers` are each message's, None for none.

    Keys, values and order may be given as lists. They become columns when they are
    asked for as such: for a few messages that costs more than to make them.
    """

    __slots__ = ("_keys", "_order", "_values", "headers", "partition_hints", "topic")

    def __init__(
        self,
        topic: str,
        keys: Binaries,
        values: Binaries,
        order: npt.NDArray[np.int64] | Sequence[int],
        partition_hints: npt.NDArray[np.int32] | None = None,
        headers: Sequence[Sequence[tuple[str, bytes]]] | None = None,
    ) -> None:
        """Take messages as columns or as lists."""
        self.topic = topic
        self.partition_hints = partition_hints
        self.headers = headers
        self._keys = keys
        self._values = values
        self._order = order

    @property
    def keys(self) -> pa.BinaryArray:
        """The keys as a column."""
        return _column(self._keys)

    @property
    def values(self) -> pa.BinaryArray:
        """The values as a column."""
        return _column(self._values)

    @property
    def order(self) -> npt.NDArray[np.int64]:
        """The order as a column."""
        return np.asarray(self._order, np.int64)

    def lists(self) -> tuple[Sequence[bytes | None], Sequence[bytes | None]]:
        """Keys and values as lists."""
        return _list(self._keys), _list(self._values)

    @property
    def size_bytes(self) -> int:
        """How many bytes keys and values are, about."""
        return _size(self._keys) + _size(self._values)

    def __len__(self) -> int:
        """How many messages there are."""
        return len(self._order)


Binaries: TypeAlias = "pa.BinaryArray | Sequence[bytes | None]"


def _column(binaries: Binaries) -> pa.BinaryArray:
    return binaries if isinstance(binaries, pa.Array) else pa.array(binaries, pa.binary())


def _list(binaries: Binaries) -> Sequence[bytes | None]:
    return binaries.to_pylist() if isinstance(binaries, pa.Array) else binaries


def _size(binaries: Binaries) -> int:
    return binaries.nbytes if isinstance(binaries, pa.Array) else sum(map(len, filter(None, binaries)))

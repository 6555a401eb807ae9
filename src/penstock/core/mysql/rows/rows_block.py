"""ROWS events as columns: what is decoded together."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.core.mysql.types.logged_rows import ROWS_BITS, ROWS_MASK, RowsLogged, weight

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.core.changes import Op
    from penstock.core.mysql.rows.rows_columns import Int64s
    from penstock.core.mysql.types.logged_rows import TableMap
    from penstock.core.tables import TableId


@dataclass(frozen=True, slots=True, eq=False)
class RowsBlock:
    """n ROWS events of one table with one op, of one file and one server, with one front, in log order.

    The fields are those of `RowsLogged`, which each of the events is by its number.

    `content`       the payloads, one behind the other
    `ends`          int64[n]  where each ends in `content`
    `offsets`       int64[n]
    `insides`       int64[n]
    `timestamps_ms` int64[n]
    `gtids`         string[n]
    """

    table_map: TableMap
    op: Op
    file: str
    server_id: int
    content: bytes | memoryview
    ends: Int64s
    offsets: Int64s
    insides: Int64s
    timestamps_ms: Int64s
    gtids: pa.StringArray
    partial: bool = False
    cascades_logged: bool = False

    def __len__(self) -> int:
        """How many events there are."""
        return len(self.ends)

    def __iter__(self) -> Iterator[RowsLogged]:
        """All events."""
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, index: int) -> RowsLogged:
        """The event with this number, from 0 on."""
        begin = int(self.ends[index - 1]) if index else 0
        return RowsLogged(
            self.table_map,
            self.op,
            bytes(self.content[begin : int(self.ends[index])]),
            self.file,
            int(self.offsets[index]),
            int(self.timestamps_ms[index]),
            self.gtids[index].as_py() or "",
            self.server_id,
            int(self.insides[index]),
            self.partial,
            self.cascades_logged,
        )

    @property
    def front(self) -> bytes:
        """`RowsLogged.front` of every event."""
        return self[0].front

    @property
    def table(self) -> TableId:
        """Whose rows they are."""
        return self.table_map.table

    @property
    def size_bytes(self) -> int:
        """How many bytes the payloads have."""
        return len(self.content)

    @property
    def weight_bytes(self) -> int:
        """How many bytes of memory they count for."""
        return weight(self.table_map, len(self.content))

    @property
    def newest_ms(self) -> int:
        """When the last of them was committed."""
        return int(self.timestamps_ms.max())

    @property
    def starts(self) -> Int64s:
        """Where in `content` each payload begins."""
        return np.append(0, self.ends[:-1])

    @property
    def rows_offsets(self) -> Int64s:
        """`RowsLogged.rows_offset` of each event."""
        return self.offsets + (self.insides >> ROWS_BITS)

    @property
    def first_rows(self) -> Int64s:
        """`RowsLogged.first_row` of each event."""
        return self.insides & ROWS_MASK

    def first(self, count: int) -> RowsBlock:
        """The first `count` events, at least one."""
        return RowsBlock(
            self.table_map,
            self.op,
            self.file,
            self.server_id,
            self.content[: int(self.ends[count - 1])],
            self.ends[:count],
            self.offsets[:count],
            self.insides[:count],
            self.timestamps_ms[:count],
            self.gtids[:count],
            self.partial,
            self.cascades_logged,
        )


def join_rows(events: Sequence[RowsLogged | RowsBlock]) -> RowsBlock:
    """Put events that belong together, at least one, into one block, in their order."""
    blocks = list(_blocks(events))
    if len(blocks) == 1:
        return blocks[0]
    sizes = np.array([block.size_bytes for block in blocks])
    first = blocks[0]
    return RowsBlock(
        first.table_map,
        first.op,
        first.file,
        first.server_id,
        b"".join(block.content for block in blocks),
        np.concatenate([block.ends + before for block, before in zip(blocks, np.cumsum(sizes) - sizes, strict=True)]),
        np.concatenate([block.offsets for block in blocks]),
        np.concatenate([block.insides for block in blocks]),
        np.concatenate([block.timestamps_ms for block in blocks]),
        pa.concat_arrays([block.gtids for block in blocks]),
        first.partial,
        first.cascades_logged,
    )


def _blocks(events: Sequence[RowsLogged | RowsBlock]) -> Iterator[RowsBlock]:
    single: list[RowsLogged] = []
    for event in events:
        if isinstance(event, RowsLogged):
            single.append(event)
            continue
        if single:
            yield _block_of(single)
            single = []
        yield event
    if single:
        yield _block_of(single)


def _block_of(events: Sequence[RowsLogged]) -> RowsBlock:
    first = events[0]
    return RowsBlock(
        first.table_map,
        first.op,
        first.file,
        first.server_id,
        b"".join([event.payload for event in events]),
        np.array(list(accumulate(len(event.payload) for event in events)), np.int64),
        np.array([event.offset for event in events], np.int64),
        np.array([event.inside for event in events], np.int64),
        np.array([event.timestamp_ms for event in events], np.int64),
        pa.array([event.gtid for event in events], pa.string()),
        first.partial,
        first.cascades_logged,
    )

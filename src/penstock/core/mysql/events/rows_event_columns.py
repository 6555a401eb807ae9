"""Many ROWS events at once.

Sources: as `rows_event`, which reads one event. None of these is compressed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.core.changes import Op
from penstock.core.mysql.events.binary_pieces import cut_pieces
from penstock.core.mysql.events.rows_event import (
    FLAG_CASCADES_LOGGED,
    FLAGS_AT,
    HAVE_EXTRA_DATA,
    OPS,
    POST_HEADER_BYTES,
)
from penstock.core.mysql.rows.rows_block import RowsBlock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt
    import pyarrow as pa

    from penstock.core.mysql.events.event_columns import EventColumns
    from penstock.core.mysql.events.table_map_column import TableMapColumn
    from penstock.core.mysql.rows.rows_columns import Bools, Int64s
    from penstock.core.mysql.types.logged_rows import TableMap

_ONE_BYTE_COUNT_MAX: Final = 0xFA
_TABLE_NUMBERS: Final = (1 << 8 * FLAGS_AT) - 1
_HAVE_EXTRA_DATA: Final = np.array(sorted(HAVE_EXTRA_DATA), np.uint8)


@dataclass(frozen=True, slots=True)
class RowsColumns:
    """n ROWS events among `events`.

    `at`         int64[n]  which of the events they are
    `codes`      uint8[n]  their types
    `tables`     int64[n]  which TABLE_MAP of the run describes the table
    `server_ids` int64[n]  where they were first logged
    `logged`     int64[n]  1 for RowsLogged.cascades_logged, else 0
    `begins`, `ends` int64[n]  where the payload is in the events' buffer; see RowsLogged
    `unusual`    bool[n]   whether nothing in the run describes the table, or there is no payload
    """

    at: Int64s
    codes: npt.NDArray[np.uint8]
    tables: Int64s
    server_ids: Int64s
    logged: Int64s
    begins: Int64s
    ends: Int64s
    unusual: Bools

    @classmethod
    def read(cls, events: EventColumns, at: Int64s, maps: TableMapColumn) -> RowsColumns:
        """Read the events with the numbers `at`."""
        part = events.part(at)
        bodies, ends = part.bodies, part.body_ends
        # Table and flags at once; the highest flag, which becomes the sign, is none of ours.
        heads = part.numbers("<u8", bodies)
        logged = heads >> (8 * FLAGS_AT + FLAG_CASCADES_LOGGED.bit_length() - 1) & 1
        tables, described = maps.find(heads & _TABLE_NUMBERS, at)
        begins = bodies + POST_HEADER_BYTES
        extra = np.flatnonzero(np.isin(part.codes, _HAVE_EXTRA_DATA))
        begins[extra] += part.numbers("<u2", begins[extra])
        return cls(at, part.codes, tables, part.server_ids(), logged, begins, ends, ~described | (begins >= ends))

    def part(self, chosen: Int64s) -> RowsColumns:
        """Some of the events."""
        return RowsColumns(
            self.at[chosen],
            self.codes[chosen],
            self.tables[chosen],
            self.server_ids[chosen],
            self.logged[chosen],
            self.begins[chosen],
            self.ends[chosen],
            self.unusual[chosen],
        )


@dataclass(frozen=True, slots=True)
class Origins:
    """Where n ROWS events are from: the file, and int64[n], int64[n] and string[n] as in RowsLogged."""

    file: str
    offsets: Int64s
    times_ms: Int64s
    gtids: pa.StringArray


def build_blocks(
    events: EventColumns, rows: RowsColumns, tables: Mapping[int, TableMap], origins: Origins
) -> Iterator[RowsBlock]:
    """Copy the payloads of `rows` (which are in `tables`, by number) out of the buffer, sorted into blocks.

    The payloads of a block begin with the same column count and bitmaps.
    """
    groups = list(_alike(events, rows, tables))
    if not groups:
        return
    pieces = cut_pieces(events.buffer, rows.begins, rows.ends, np.concatenate(groups))
    content = memoryview(pieces.buffers()[2] or b"")
    ends = np.append(0, np.cumsum((rows.ends - rows.begins)[np.concatenate(groups)]))
    after = 0
    for group in groups:
        first, after = after, after + len(group)
        begin, end = int(ends[first]), int(ends[after])
        yield RowsBlock(
            tables[int(rows.tables[group[0]])],
            OPS[int(rows.codes[group[0]])],
            origins.file,
            int(rows.server_ids[group[0]]),
            content[begin:end],
            ends[first + 1 : after + 1] - begin,
            origins.offsets[group],
            np.zeros(len(group), np.int64),
            origins.times_ms[group],
            origins.gtids.take(group),
            cascades_logged=bool(rows.logged[group[0]]),
        )


def _alike(events: EventColumns, rows: RowsColumns, tables: Mapping[int, TableMap]) -> Iterator[Int64s]:
    """Yield the numbers of rows that belong into one block, in log order."""
    keys = ((rows.tables << 1 | rows.logged) << 8 | rows.codes) << 32 | rows.server_ids
    for group in _grouped(np.arange(len(keys)), keys):
        table_map, op = tables[int(rows.tables[group[0]])], OPS[int(rows.codes[group[0]])]
        yield from _grouped(group, _fronts(events, rows.part(group), len(table_map.types), 2 if op is Op.UPDATE else 1))


def _fronts(events: EventColumns, rows: RowsColumns, columns: int, images: int) -> Int64s:
    """Return a number per payload that is the same where column count and bitmaps are."""
    count = bytes([columns]) if columns <= _ONE_BYTE_COUNT_MAX else b"\xfc" + columns.to_bytes(2, "little")
    width = len(count) + images * ((columns + 7) // 8)
    places = rows.begins[:, np.newaxis] + np.arange(width)
    fronts = events.words.u1[np.minimum(places, len(events.words.u1) - 1)]
    regular = (fronts[:, : len(count)] == np.frombuffer(count, np.uint8)).all(axis=1)
    regular &= rows.ends - rows.begins >= width
    if regular.all() and (fronts == fronts[0]).all():
        return np.zeros(len(fronts), np.int64)
    _, labels = np.unique(fronts, axis=0, return_inverse=True)
    # What is irregular is for the decoder to refuse, one by one.
    return np.where(regular, labels, len(fronts) + np.arange(len(fronts)))


def _grouped(numbers: Int64s, keys: Int64s) -> Iterator[Int64s]:
    """Split `numbers` by their keys, which are in the same order."""
    if len(keys) and (keys == keys[0]).all():
        yield numbers
        return
    order = np.argsort(keys, kind="stable")
    barriers = np.flatnonzero(np.diff(keys[order])) + 1
    yield from (part for part in np.split(numbers[order], barriers) if len(part))

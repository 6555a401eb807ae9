"""The headers of many events at once, as columns.

Sources: as `event_frame`, which reads one event.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.core.mysql.events.event_codes import CHECKSUM_BYTES, HEADER_BYTES
from penstock.core.mysql.rows.rows_columns import WordViews

if TYPE_CHECKING:
    import numpy.typing as npt

    from penstock.core.mysql.rows.rows_columns import Bools, Int64s

_TIMESTAMP_AT: Final = 0
_CODE_AT: Final = 4
_SERVER_ID_AT: Final = 5
_LENGTH_AT: Final = 9
_END_AT: Final = 13


@dataclass(frozen=True, slots=True)
class EventColumns:
    """n events that stand in `buffer`, in log order, each whole and as long as its header says.

    `starts`, `ends` int64[n]  where the event is in the buffer, checksum included
    `codes`          uint8[n]  its type
    `checksums`      whether there are any; they have not been looked at
    """

    buffer: memoryview
    words: WordViews
    starts: Int64s
    ends: Int64s
    codes: npt.NDArray[np.uint8]
    checksums: bool

    def __len__(self) -> int:
        """How many events there are."""
        return len(self.starts)

    def part(self, chosen: slice | Int64s) -> EventColumns:
        """Some of the events, by their numbers."""
        columns = (self.starts[chosen], self.ends[chosen], self.codes[chosen])
        return EventColumns(self.buffer, self.words, *columns, self.checksums)

    @property
    def bodies(self) -> Int64s:
        """Where what follows the header begins."""
        return self.starts + HEADER_BYTES

    @property
    def body_ends(self) -> Int64s:
        """Where it ends, before the checksum."""
        return self.ends - CHECKSUM_BYTES * self.checksums

    def timestamps(self) -> Int64s:
        """When the statement began, Unix seconds."""
        return self.numbers("<u4", self.starts + _TIMESTAMP_AT)

    def server_ids(self) -> Int64s:
        """On which server the event was first logged."""
        return self.numbers("<u4", self.starts + _SERVER_ID_AT)

    def log_ends(self) -> Int64s:
        """Where the event ends in its file, modulo 2**32; 0 where that is not said."""
        return self.numbers("<u4", self.starts + _END_AT)

    def numbers(self, dtype: str, places: Int64s) -> Int64s:
        """Return the numbers of type `dtype`, less than 2**63, that begin at these places of the buffer."""
        return self.words.at_every_byte(dtype)[places].astype(np.int64)

    def wrong_checksums(self) -> Bools:
        """Whether an event is not what its checksum says."""
        if not self.checksums:
            return np.zeros(len(self), np.bool_)
        ends = self.body_ends
        contents = map(self.buffer.__getitem__, map(slice, self.starts.tolist(), ends.tolist()))
        found = np.fromiter(map(zlib.crc32, contents), np.int64, len(self))
        return np.not_equal(found, self.numbers("<u4", ends))


def read_headers(buffer: memoryview, spans: Int64s, *, checksums: bool) -> EventColumns:
    """Read the headers of the events at `spans` (int64[n, 2]) up to the first that is not as long as it says."""
    words = WordViews(buffer)
    starts, ends = spans[:, 0], spans[:, 1]
    sizes = ends - starts
    count = _first(sizes < HEADER_BYTES + CHECKSUM_BYTES * checksums)
    lengths = words.at_every_byte("<u4")[starts[:count] + _LENGTH_AT]
    count = _first(lengths != sizes[:count])
    starts, ends = starts[:count], ends[:count]
    return EventColumns(buffer, words, starts, ends, words.u1[starts + _CODE_AT], checksums)


def _first(flags: Bools) -> int:
    """Return the number of the first flag that is set, or how many there are."""
    return int(flags.argmax()) if flags.any() else len(flags)

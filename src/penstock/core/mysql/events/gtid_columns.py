"""The GTIDs of many transactions at once.

Sources: as `gtid_events`, which reads one event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.mysql.events.gtid_events import MARIADB_UNUSUAL
from penstock.core.mysql.events.gtid_sets import MYSQL_NUMBER_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from penstock.core.mysql.events.event_columns import EventColumns
    from penstock.core.mysql.rows.rows_columns import Bools, Int64s

_MARIADB_DOMAIN_AT: Final = 8
_MARIADB_FLAGS_AT: Final = 12
_MYSQL_UUID_AT: Final = 1
_MYSQL_NUMBER_AT: Final = 17
_MYSQL_COMMIT_TIME_AT: Final = 42
_MYSQL_COMMIT_TIME_END: Final = 49
_COMMIT_TIME_MASK: Final = (1 << 55) - 1


@dataclass(frozen=True, slots=True)
class GtidColumn:
    """The GTIDs of t transactions, in log order.

    `origins` is what may stand before the number: `domain-server-` or `uuid:`;
    alone and "" where transactions have no GTID.
    `origin`  int64[t]   which of them it is
    `numbers` uint64[t]  the number
    """

    origins: tuple[str, ...]
    origin: Int64s
    numbers: npt.NDArray[np.uint64]

    def first(self, count: int) -> GtidColumn:
        """Those of the first `count` transactions."""
        return GtidColumn(self.origins, self.origin[:count], self.numbers[:count])

    def texts(self) -> pa.StringArray:
        """The GTIDs as the server writes them, "" where there are none: string[t]."""
        before = pa.array(self.origins, pa.string()).take(self.origin)
        if not any(self.origins):
            return before
        between = pa.scalar("", pa.string())
        numbers = pc.cast(pa.array(self.numbers), pa.string())
        return cast("pa.StringArray", pc.call_function("binary_join_element_wise", [before, numbers, between]))

    def stretches(self) -> Iterator[tuple[str, int, int]]:
        """Yield all GTIDs as origins with consecutive numbers, [first, last], in the order of their last ones."""
        found: list[tuple[int, str, int, int]] = []
        for index, origin in enumerate(self.origins):
            places = np.flatnonzero(self.origin == index)
            if not origin or not len(places):
                continue
            numbers = self.numbers[places]
            goes_on = (numbers[1:] - numbers[:-1] == 1) & (numbers[1:] != 0)
            lasts = np.append(np.flatnonzero(~goes_on), len(numbers) - 1)
            firsts = np.append(0, lasts[:-1] + 1)
            found += [
                (int(places[last]), origin, int(numbers[first]), int(numbers[last]))
                for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)
            ]
        for _, origin, first, last in sorted(found):
            yield origin, first, last


@dataclass(frozen=True, slots=True)
class Beginnings:
    """What the GTID events of t transactions say.

    `times_ms` int64[t]  commit times, Unix milliseconds
    `unusual`  bool[t]   whether something else than a transaction with a commit of its own begins there
    """

    gtids: GtidColumn
    times_ms: Int64s
    unusual: Bools


def mariadb_beginnings(events: EventColumns) -> Beginnings:
    """Read MariaDB's GTID events."""
    bodies = events.bodies
    pairs = events.numbers("<u4", bodies + _MARIADB_DOMAIN_AT) << 32 | events.server_ids()
    known, origin = _distinct(pairs)
    # With the highest bit of a domain set they are negative.
    origins = tuple(f"{pair >> 32 & 0xFFFF_FFFF}-{pair & 0xFFFF_FFFF}-" for pair in known.tolist())
    unusual = (events.words.u1[bodies + _MARIADB_FLAGS_AT] & MARIADB_UNUSUAL) != 0
    return Beginnings(GtidColumn(origins, origin, _numbers(events, bodies)), events.timestamps() * 1000, unusual)


def mysql_beginnings(events: EventColumns, *, anonymous: bool) -> Beginnings:
    """Read MySQL's GTID events, or its ANONYMOUS_GTID events."""
    origins: tuple[str, ...] = ("",)
    origin = np.zeros(len(events), np.int64)
    if not anonymous:
        known, origin = _distinct(events.words.at_every_byte("S16")[events.bodies + _MYSQL_UUID_AT])
        # numpy leaves out NULs at the end.
        origins = tuple(f"{UUID(bytes=uuid.ljust(16, bytes(1)))}:" for uuid in known.tolist())
    numbers = _numbers(events, events.bodies + _MYSQL_NUMBER_AT)
    wrong = (numbers == 0) | (numbers > MYSQL_NUMBER_MAX)
    unusual = np.zeros(len(events), np.bool_) if anonymous else wrong
    return Beginnings(GtidColumn(origins, origin, numbers), _mysql_times(events), unusual)


def _mysql_times(events: EventColumns) -> Int64s:
    """The time of the commit where it is said, else that of the statement: Unix milliseconds."""
    times = events.timestamps() * 1000
    timed = np.flatnonzero(events.body_ends - events.bodies >= _MYSQL_COMMIT_TIME_END)
    at = events.bodies[timed] + _MYSQL_COMMIT_TIME_AT
    low, high = events.numbers("<u4", at), events.numbers("<u4", at + 3)
    times[timed] = ((high << 24 | low & 0xFF_FFFF) & _COMMIT_TIME_MASK) // 1000
    return times


def _numbers(events: EventColumns, places: Int64s) -> npt.NDArray[np.uint64]:
    return events.words.at_every_byte("<u8")[places].astype(np.uint64)


def _distinct(values: npt.NDArray[np.generic]) -> tuple[npt.NDArray[np.generic], Int64s]:
    """Return the values that there are, and which of them each is; there is hardly ever more than one."""
    if (values == values[0]).all():
        return values[:1], np.zeros(len(values), np.int64)
    known, which = np.unique(values, return_inverse=True)
    return known, which.astype(np.int64)

"""Many whole transactions of the usual events, read at once, as columns.

The events are those that `plain_events` finds. What they mean is written down in
`scan` and `transactions`, which read one event after the other: they are the
reference, and read whatever is unusual here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.core.mysql.events.gtid_columns import mariadb_beginnings, mysql_beginnings
from penstock.core.mysql.events.plain_events import ItemKind
from penstock.core.mysql.events.rows_event_columns import Origins, RowsColumns, build_blocks
from penstock.core.mysql.events.table_map_column import TableMapColumn
from penstock.core.mysql.log.log_items import TransactionsLogged

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.core.mysql.events.described_tables import DescribedTables
    from penstock.core.mysql.events.event_columns import EventColumns
    from penstock.core.mysql.events.gtid_columns import Beginnings
    from penstock.core.mysql.events.plain_events import PlainStretch
    from penstock.core.mysql.log.executed import Executed
    from penstock.core.mysql.log.log_cursor import LogCursor
    from penstock.core.mysql.log.transactions import TransactionReader
    from penstock.core.mysql.rows.rows_block import RowsBlock
    from penstock.core.mysql.rows.rows_columns import Bools, Int64s
    from penstock.core.mysql.types.logged_rows import TableMap


class RunReader:
    """Reads runs of transactions, and leaves its parts as if they had been read one by one.

    `wanted` of `tables` is asked once for each table of a run.
    """

    def __init__(
        self, place: LogCursor, tables: DescribedTables, executed: Executed, transactions: TransactionReader
    ) -> None:
        """Share its parts with the reader of single transactions."""
        self._place = place
        self._tables = tables
        self._executed = executed
        self._transactions = transactions

    def read(self, stretch: PlainStretch, *, is_mariadb: bool) -> tuple[TransactionsLogged | None, int]:
        """Read a stretch that follows here up to the first transaction in which something turns out to be unusual.

        Returns the transactions, and how many events that was; None and 0 if it is already the first.
        """
        seen = _look_at(stretch, self._place)
        tables, end = seen.maps.describe(self._tables, _first(seen.unusual), is_mariadb=is_mariadb)
        count = int(np.searchsorted(seen.commits, end))
        if not count or not all(map(self._executed.takes, seen.begun.gtids.origins)):
            return None, 0
        last = int(seen.commits[count - 1])
        gtids = seen.begun.gtids.first(count)
        blocks = tuple(self._read_rows(seen, last, tables))
        begin = self._transactions.boundary()
        self._executed.add_all(gtids.stretches())
        self._place.move(int(seen.log_starts[last]), int(seen.log_ends[last]))
        ends = seen.log_ends[seen.commits[:count]]
        end_of_all = self._transactions.boundary()
        return TransactionsLogged(begin, end_of_all, ends, seen.begun.times_ms[:count], gtids, blocks), last + 1

    def _read_rows(self, seen: _Seen, last: int, tables: Mapping[int, TableMap]) -> Iterator[RowsBlock]:
        """Read the rows of `tables` that stand before event `last`."""
        wanted = (seen.rows.at < last) & np.isin(seen.rows.tables, list(tables))
        rows = seen.rows.part(np.flatnonzero(wanted))
        transaction = np.searchsorted(seen.begins, rows.at) - 1
        origins = Origins(
            self._place.file,
            seen.log_starts[rows.at],
            seen.begun.times_ms[transaction],
            seen.begun.gtids.texts().take(transaction),
        )
        return build_blocks(seen.events, rows, tables, origins)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What n events are, t of which begin transactions.

    `begins`, `commits` int64[t]         which of the events those are
    `log_starts`, `log_ends` int64[n]    where the events are in the file
    `unusual` bool[n]                    which of them have to be read one by one
    """

    events: EventColumns
    begins: Int64s
    commits: Int64s
    log_starts: Int64s
    log_ends: Int64s
    begun: Beginnings
    maps: TableMapColumn
    rows: RowsColumns
    unusual: Bools


def _look_at(stretch: PlainStretch, place: LogCursor) -> _Seen:
    events, kinds = stretch.events, stretch.kinds
    begins, commits = np.flatnonzero(kinds <= ItemKind.ANONYMOUS_GTID), np.flatnonzero(kinds == ItemKind.COMMIT)
    lengths = events.ends - events.starts
    log_ends, unusual = place.ends_behind(lengths, events.log_ends())
    begun = _read_beginnings(events.part(begins), ItemKind(kinds[0]))
    maps = TableMapColumn.read(events, np.flatnonzero(kinds == ItemKind.TABLE_MAP))
    rows = RowsColumns.read(events, np.flatnonzero(kinds == ItemKind.ROWS), maps)
    unusual |= events.wrong_checksums()
    unusual[begins] |= begun.unusual
    unusual[maps.redefined_at()] = True
    unusual[rows.at] |= rows.unusual
    return _Seen(events, begins, commits, log_ends - lengths, log_ends, begun, maps, rows, unusual)


def _read_beginnings(events: EventColumns, kind: ItemKind) -> Beginnings:
    if kind is ItemKind.MARIADB_GTID:
        return mariadb_beginnings(events)
    return mysql_beginnings(events, anonymous=kind is ItemKind.ANONYMOUS_GTID)


def _first(flags: Bools) -> int:
    """Return the number of the first flag that is set, or how many there are."""
    return int(flags.argmax()) if flags.any() else len(flags)

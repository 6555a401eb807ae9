"""Many whole transactions of the usual events, read at once, as columns.

The events are those that `plain_events` finds. What they mean is written down in
`scan` and `transactions`, which read one event after the other: they are the
reference, and read whatever is unusual here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.core.mysql.gtid_columns import mariadb_beginnings, mysql_beginnings
from penstock.core.mysql.log_items import TransactionsLogged
from penstock.core.mysql.plain_events import Kind
from penstock.core.mysql.rows_event_columns import Origins, RowsColumns, build_blocks
from penstock.core.mysql.table_map_column import TableMapColumn

if TYPE_CHECKING:
    from penstock.core.mysql.described_tables import DescribedTables
    from penstock.core.mysql.event_columns import EventColumns
    from penstock.core.mysql.executed import Executed
    from penstock.core.mysql.gtid_columns import Beginnings
    from penstock.core.mysql.place import Place
    from penstock.core.mysql.plain_events import PlainStretch
    from penstock.core.mysql.rows_columns import Bools
    from penstock.core.mysql.transactions import TransactionReader


class RunReader:
    """Reads runs of transactions, and leaves its parts as if they had been read one by one.

    `wanted` of `tables` is asked once for each table of a run.
    """

    def __init__(
        self, place: Place, tables: DescribedTables, executed: Executed, transactions: TransactionReader
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
        events, kinds = stretch.events, stretch.kinds
        begins = np.flatnonzero(kinds <= Kind.ANONYMOUS_GTID)
        commits = np.flatnonzero(kinds == Kind.COMMIT)
        lengths = events.ends - events.starts
        ends, unusual = self._place.ends_behind(lengths, events.log_ends())
        unusual |= events.wrong_checksums()
        begun = _read_beginnings(events.part(begins), Kind(kinds[0]))
        unusual[begins] |= begun.unusual
        maps = TableMapColumn.read(events, np.flatnonzero(kinds == Kind.TABLE_MAP))
        unusual[maps.redefined_at()] = True
        rows = RowsColumns.read(events, np.flatnonzero(kinds == Kind.ROWS), maps)
        unusual[rows.at] |= rows.unusual
        tables, end = maps.describe(self._tables, _first(unusual), is_mariadb=is_mariadb)
        count = int(np.searchsorted(commits, end))
        if not count:
            return None, 0
        last = int(commits[count - 1])
        rows = rows.part(np.flatnonzero((rows.at <= last) & np.isin(rows.tables, list(tables))))
        transaction = np.searchsorted(begins, rows.at) - 1
        gtids, times_ms = begun.gtids.first(count), begun.times_ms[:count]
        origins = Origins(
            self._place.file,
            (ends - lengths)[rows.at],
            times_ms[transaction],
            gtids.texts().take(transaction),
        )
        blocks = tuple(build_blocks(events, rows, tables, origins))
        begin = self._transactions.boundary()
        self._executed.add_all(gtids)
        self._place.move(int(ends[last] - lengths[last]), int(ends[last]))
        run = TransactionsLogged(begin, self._transactions.boundary(), ends[commits[:count]], times_ms, gtids, blocks)
        return run, last + 1


def _read_beginnings(events: EventColumns, kind: Kind) -> Beginnings:
    if kind is Kind.MARIADB_GTID:
        return mariadb_beginnings(events)
    return mysql_beginnings(events, anonymous=kind is Kind.ANONYMOUS_GTID)


def _first(flags: Bools) -> int:
    """Return the number of the first flag that is set, or how many there are."""
    return int(flags.argmax()) if flags.any() else len(flags)

"""Many TABLE_MAP events at once: each that differs from all before it is read once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.core.mysql.events.binary_pieces import cut_pieces
from penstock.core.mysql.events.described_tables import TABLE_ID_BYTES
from penstock.core.mysql.types.bytes_reader import MalformedError

if TYPE_CHECKING:
    from penstock.core.mysql.events.described_tables import DescribedTables
    from penstock.core.mysql.events.event_columns import EventColumns
    from penstock.core.mysql.rows.rows_columns import Bools, Int64s
    from penstock.core.mysql.types.logged_rows import TableMap


@dataclass(frozen=True, slots=True)
class TableMapColumn:
    """The d different TABLE_MAP events of a run, in the order in which each comes first.

    `bodies`  what is between header and checksum
    `numbers` int64[d]  the number under which rows name the table
    `firsts`  int64[d]  the first event that is like it
    """

    bodies: list[bytes]
    numbers: Int64s
    firsts: Int64s

    @classmethod
    def read(cls, events: EventColumns, at: Int64s) -> TableMapColumn:
        """Read the events with the numbers `at`."""
        part = events.part(at)
        pieces = cut_pieces(events.buffer, part.bodies, part.body_ends, np.arange(len(at))).dictionary_encode()
        bodies = [body or b"" for body in pieces.dictionary.to_pylist()]
        numbers = [int.from_bytes(body[:TABLE_ID_BYTES], "little") for body in bodies]
        _, firsts = np.unique(pieces.indices.to_numpy(), return_index=True)
        return cls(bodies, np.array(numbers, np.int64), at[firsts])

    def redefined_at(self) -> Int64s:
        """Where a number gets another meaning than it had before in the run."""
        _, first = np.unique(self.numbers, return_index=True)
        return np.delete(self.firsts, first)

    def find(self, numbers: Int64s, at: Int64s) -> tuple[Int64s, Bools]:
        """Return which event describes the tables of rows that name them by `numbers`, and whether there is one.

        It must stand before the rows, which are the events `at`.
        """
        order = np.argsort(self.numbers, kind="stable")
        places = np.minimum(np.searchsorted(self.numbers, numbers, sorter=order), len(order) - 1)
        found = order[places]
        return found, (self.numbers[found] == numbers) & (self.firsts[found] < at)

    def describe(self, tables: DescribedTables, end: int, *, is_mariadb: bool) -> tuple[dict[int, TableMap], int]:
        """Have `tables` read what stands before event `end`; return the tables that are wanted, by their number here.

        Returns also where that ends: at `end`, or at the first event that cannot be read.
        """
        found: dict[int, TableMap] = {}
        for index, (body, first) in enumerate(zip(self.bodies, self.firsts.tolist(), strict=True)):
            if first >= end:
                break
            try:
                tables.describe(memoryview(body), is_mariadb=is_mariadb)
            except MalformedError:
                return found, first
            table_map = tables.table_of(memoryview(body))
            if table_map is not None:
                found[index] = table_map
        return found, end

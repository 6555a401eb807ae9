"""Heartbeats in a log: the rows of the heartbeat's table, and what is counted between them.

A heartbeat is a transaction of its own that writes one row. What comes behind it
is counted so that the same place can be found in the log of another server that
has the same transactions in the same order: how many, and what is in them. The
checksum is a sum over rows events and statements, so it does not depend on how
the log is cut into reads.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.core.changes import Op
from penstock.core.errors import START_ANEW, LogError, TableStoppedError
from penstock.core.mysql.log.log_items import FewTransactions, StatementLogged, TransactionEnded, TransactionsLogged
from penstock.core.mysql.rows.decode import decode_rows
from penstock.core.mysql.types.logged_rows import RowsLogged
from penstock.core.positions import BinlogPosition, Heartbeat
from penstock.core.tables import Column, IntegerType, TableId, TableSchema, TextType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.core.mysql.log.log_items import LogItem
    from penstock.core.mysql.rows.rows_block import RowsBlock

PIPELINE_CHARACTERS_MAX: Final = 64


def create_sql(table: str) -> str:
    """The statement that makes the heartbeat's table, of which `table` is the quoted name."""
    return (
        f"CREATE TABLE IF NOT EXISTS {table} (pipeline VARCHAR({PIPELINE_CHARACTERS_MAX}) CHARACTER SET utf8mb4 "
        "COLLATE utf8mb4_bin NOT NULL PRIMARY KEY, serial BIGINT NOT NULL, timestamp_ms BIGINT NOT NULL, "
        "epoch BIGINT NOT NULL) ENGINE=InnoDB"
    )


@dataclass(slots=True)
class _Counts:
    """What a transaction holds, and the heartbeat that it is, if it is one."""

    row_bytes: int = 0
    checksum: int = 0
    beat: tuple[int, int] | None = None


class HeartbeatWatch:
    """Follows the heartbeats of one pipeline through a log. `mark` is the newest, with what came behind it."""

    def __init__(self, table: TableId, pipeline: str, mark: Heartbeat | None) -> None:
        """Go on from the `mark` of a position, None to count from here on. Heartbeats stand in `table`."""
        self.table = table
        self.mark = mark or Heartbeat()
        self._pipeline = pipeline
        self._schema = _schema(table)
        self._open = _Counts()

    @property
    def mark_inside(self) -> Heartbeat:
        """The `mark` with what the transaction that is open has so far: whoever reads on from here counts the rest."""
        return self.mark.with_counts(0, self._open.row_bytes, self._open.checksum)

    def take(self, item: LogItem) -> None:
        """Count an item. Raises LogError where serials go back, or the table is another than ours."""
        match item:
            case RowsLogged():
                self._take_rows(item)
            case TransactionEnded(end):
                self._end(end)
            case StatementLogged():
                self._open.checksum += zlib.crc32(item.sql.encode(errors="surrogateescape"))
                if not item.end.rows_from:
                    self._end(item.end)
            case TransactionsLogged():
                self._take_run(item)
            case FewTransactions():
                for single in item.singly():
                    self.take(single)
            case _:
                pass

    def place_in(self, run: TransactionsLogged, wanted: Heartbeat) -> int:
        """How many transactions of `run`, which comes next, it takes to count as many behind a serial as `wanted`.

        0 if that is not in it.
        """
        ahead = 0
        if self.mark.serial != wanted.serial:
            ends = [end for end, (serial, _) in self._beats(run) if serial == wanted.serial]
            if not ends:
                return 0
            ahead = int(np.searchsorted(run.ends, ends[0], side="left")) + 1
        count = ahead + wanted.transactions - (0 if ahead else self.mark.transactions)
        return count if 0 < count <= len(run.ends) else 0

    def _take_rows(self, rows: RowsLogged) -> None:
        if rows.table_map.table == self.table:
            self._open.beat = self._read(rows) or self._open.beat
        self._open.row_bytes += len(rows.payload)
        self._open.checksum += zlib.crc32(rows.payload)

    def _end(self, end: BinlogPosition) -> None:
        counts, self._open = self._open, _Counts()
        if counts.beat is None:
            self.mark = self.mark.with_counts(1, counts.row_bytes, counts.checksum)
        else:
            self._beat(end, counts.beat)

    def _take_run(self, run: TransactionsLogged) -> None:
        since = 0
        for offset, beat in self._beats(run):
            self._beat(replace(run.end, offset=offset), beat)
            since = offset
        row_bytes = checksum = 0
        for block in run.blocks:
            for start, end, offset in zip(block.starts.tolist(), block.ends.tolist(), block.offsets, strict=True):
                if offset >= since:
                    row_bytes += end - start
                    checksum += zlib.crc32(block.content[start:end])
        count = int(np.count_nonzero(run.ends > since))
        self.mark = self.mark.with_counts(count, row_bytes, checksum)

    def _beats(self, run: TransactionsLogged) -> Iterator[tuple[int, tuple[int, int]]]:
        """The heartbeats in a run, in order: the offset at which each ends, and its row."""
        found = []
        for block in run.blocks:
            if block.table_map.table == self.table:
                for rows in block:
                    beat = self._read(rows)
                    if beat is not None:
                        end = int(run.ends[np.searchsorted(run.ends, rows.offset, side="right")])
                        found.append((end, beat))
        yield from sorted(found)

    def _beat(self, end: BinlogPosition, beat: tuple[int, int]) -> None:
        serial, timestamp_ms = beat
        if serial <= self.mark.serial:
            before = f"{self.mark.serial} at {self.mark.file}:{self.mark.offset}"
            message = f"the heartbeats of {self._pipeline} in {self.table} go back: {serial} at {end}, after {before}"
            hint = (
                f"the server was restored from a backup, and its log may lack what was published: {START_ANEW}. "
                "If somebody only wrote older rows into that table, and the log is whole, "
                "give `heartbeat` another `table` and run again"
            )
            raise LogError(message, hint)
        self.mark = Heartbeat(serial, timestamp_ms, end.file, end.offset)

    def _read(self, rows: RowsLogged | RowsBlock) -> tuple[int, int] | None:
        """Serial and time of the last row of ours, None if there is none or it was deleted."""
        if rows.op is Op.DELETE:
            return None
        try:
            after = decode_rows(self._schema, [rows]).after
        except TableStoppedError as error:
            message = f"{self.table} is no table of heartbeats: {error.message}"
            hint = (
                f"drop it: the next run creates it; or give `heartbeat` another `table`. {create_sql(str(self.table))}"
            )
            raise LogError(message, hint) from error
        found = [row for row in after.to_pylist() if row["pipeline"] == self._pipeline] if after is not None else []
        return (found[-1]["serial"], found[-1]["timestamp_ms"]) if found else None


def _schema(table: TableId) -> TableSchema:
    number = IntegerType(64, unsigned=False)
    pipeline = Column("pipeline", TextType(PIPELINE_CHARACTERS_MAX, "utf8mb4"), nullable=False)
    numbers = (Column(name, number, nullable=False) for name in ("serial", "timestamp_ms", "epoch"))
    return TableSchema(table, (pipeline, *numbers), ("pipeline",), partial_rows=True)

"""Chunks of a MySQL table: several are read at once where nobody has to wait for them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from tests.unit.links.snapshot_source import SCHEMA, TABLE
from tests.unit.links.test_blackhole_copy import Connection

from penstock.adapters.mysql.connection import MysqlServer
from penstock.adapters.mysql.prepared import prepared_without_rows, unseen_rows
from penstock.adapters.mysql.row_reader import MysqlRowReader
from penstock.core.positions import BinlogPosition, PreparedXa
from penstock.core.snapshots import SnapshotOptions
from penstock.core.table_policy import DEFAULT_POLICY
from penstock.ports.snapshots import ChunkOrder

_GTID = "5f0b1a4e-8d5d-11ef-9c1b-0242ac120002:1-7"


class MysqlConnection(Connection):
    """A driver's connection to MySQL, with nine rows in the table."""

    open = True

    def __init__(self, gtid_mode: str) -> None:
        super().__init__(ids=9)
        self.server_version = "8.4.0"
        self.sent: list[str] = []
        self._gtid_mode = gtid_mode

    def execute(self, statement: bytes | str) -> int:
        sql = statement if isinstance(statement, str) else statement.decode()
        self.sent.append(sql)
        found = super().execute(sql)
        if "@@GLOBAL.gtid_mode" in sql:
            self._answer = [(self._gtid_mode,)]
        elif "GTID_SUBSET" in sql:
            self._answer = [(1,)]
        elif "`shop`.`orders`" in sql:
            behind, end = re.search(r"`id` > (\d+)", sql), re.search(r"LIMIT (\d+)(?: OFFSET (\d+))?$", sql)
            assert end is not None
            start = int(end[2] or 0)
            there = [each for each in self.ids if not behind or each > int(behind[1])]
            rows = [(str(each).encode(), b"0") for each in there[start : start + int(end[1])]]
            self._answer = [row[:1] if end[2] else row for row in rows]
        return found


@pytest.mark.parametrize(
    ("gtids", "gtid_mode", "marked", "is_locked"),
    [(_GTID, "ON", 2, False), (_GTID, "OFF_PERMISSIVE", 0, True), ("", "OFF", 0, True)],
)
def test_one_chunk_of_a_table_is_read_at_once_where_writers_wait_for_each(
    gtids: str, gtid_mode: str, marked: int, *, is_locked: bool
) -> None:
    connection, reader = MysqlConnection(gtid_mode), MysqlRowReader(MysqlServer("h", 1, "u", ""), DEFAULT_POLICY, "0a")
    low = BinlogPosition("binlog.000001", 4, gtids=gtids)
    order = ChunkOrder(SCHEMA, SnapshotOptions(chunk_rows=3), "", low, "0" * 12, ahead=16)
    reader._connection = connection

    with reader._transaction(TABLE, low) as opened:
        chunk = reader._read_slice(opened, order, low)

    assert chunk.cursor is not None
    assert len(chunk.ahead) == marked
    assert ("FLUSH TABLES WITH READ LOCK" in connection.sent) is is_locked


def test_rows_of_xa_transactions_that_nobody_has_read_are_waited_for() -> None:
    """They are not visible before XA COMMIT, and no row of the log is behind that."""
    unread, read, newer = PreparedXa("X'01',X'',1"), PreparedXa("X'02',X'',1", "binlog.000001", 4), PreparedXa("X'03'")
    opened = BinlogPosition("binlog.000001", 400, gtids=_GTID, prepared=(unread, read))
    unread_at_start = prepared_without_rows(opened)
    reader = MysqlRowReader(MysqlServer("h", 1, "u", ""), DEFAULT_POLICY, "0a", None, unread_at_start)
    later = replace(opened, offset=800, prepared=(unread, newer))

    chunks = [reader.read(ChunkOrder(SCHEMA, SnapshotOptions(), "7", low, "0" * 12)) for low in (opened, later)]

    assert [(chunk.rows, chunk.cursor, chunk.high) for chunk in chunks] == [(None, "7", opened), (None, "7", later)]
    assert ["X'01',X'',1 " in f"{chunk.waits and chunk.waits.message} " for chunk in chunks] == [True, True]
    assert unseen_rows(replace(later, prepared=(newer, read)), unread_at_start) is None

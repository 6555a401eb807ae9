"""What tests of a source's log have in common: how they connect, what they want, and how they read all of it."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final, TypeAlias

from tests.servers.sessions import log_in
from tests.unit.mysql_log.single_items import one_by_one

from penstock.adapters.mysql.binlog_stream import open_binlog
from penstock.adapters.mysql.connection import MysqlServer
from penstock.core.positions import BinlogPosition
from penstock.embedded.mariadb import MariadbServer
from penstock.embedded.mysql import OracleMysql
from penstock.ports.log import Stop

if TYPE_CHECKING:
    from collections.abc import Callable

    import pymysql

    from penstock.core.mysql.log.log_items import LogItem
    from penstock.core.tables import TableId

Source: TypeAlias = MariadbServer | OracleMysql
_SERVER_ID: Final = 902_101


def address(server: Source) -> MysqlServer:
    """Where our own adapters find it."""
    return MysqlServer(server.host, server.port, server.user, server.password)


def connected(server: Source) -> pymysql.Connection:
    """A session as an application has one."""
    return log_in(server)


def wanted(table: TableId) -> bool:
    """All of `shop` but one table."""
    return table.schema == "shop" and table.name != "secret"


def here(cursor: pymysql.cursors.Cursor) -> BinlogPosition:
    """Where a MariaDB's log ends, without GTIDs."""
    cursor.execute("SHOW MASTER STATUS")
    file, offset, *_ = cursor.fetchone() or ()
    return BinlogPosition(str(file), int(offset))


def read_all(
    server: Source, begin: BinlogPosition, stop: Stop = Stop.END_OF_LOG, wanted: Callable[[TableId], bool] = wanted
) -> list[LogItem]:
    """Every item from `begin` to the end, runs of transactions taken apart."""
    items: list[LogItem] = []
    with closing(open_binlog(address(server), begin, _SERVER_ID, wanted, stop)) as stream:
        while not stream.at_end():
            items += one_by_one(stream.read(5))
        assert stream.read(0) == []
    return items

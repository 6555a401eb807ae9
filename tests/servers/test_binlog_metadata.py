"""A log without the columns' names is read too, on MariaDB and MySQL."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from tests.unit.mysql_log.single_items import one_by_one

from penstock.adapters.mysql.binlog_stream import open_binlog
from penstock.adapters.mysql.catalog import read_tables
from penstock.adapters.mysql.connection import MysqlServer, ask, connect
from penstock.adapters.mysql.history import head
from penstock.core.mysql.rows.decode import decode_rows
from penstock.core.mysql.types.logged_rows import RowsLogged
from penstock.core.tables import TableId
from penstock.ports.log import Stop

if TYPE_CHECKING:
    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql


def test_rows_are_decoded_from_a_log_with_minimal_metadata(
    any_source: MariadbServer | OracleMysql, database: str
) -> None:
    server = MysqlServer(any_source.host, any_source.port, any_source.user, any_source.password)
    table = TableId(database, "t")
    with closing(connect(server)) as connection:
        ask(connection, f"CREATE TABLE {table} (a BIGINT UNSIGNED, b VARCHAR(9) CHARACTER SET latin1, c ENUM('x','y'))")
        begin = head(connection)
        ask(connection, "SET GLOBAL binlog_row_metadata = MINIMAL")
        try:
            ask(connection, f"INSERT INTO {table} VALUES (18446744073709551615, 'é', 'y'), (NULL, NULL, NULL)")
        finally:
            ask(connection, "SET GLOBAL binlog_row_metadata = FULL")
        schema = read_tables(connection, [table])[table]

    events = []
    with closing(open_binlog(server, begin, 906_001, lambda seen: seen == table, Stop.END_OF_LOG)) as stream:
        while not stream.at_end():
            events += [item for item in one_by_one(stream.read(5)) if isinstance(item, RowsLogged)]
    batch = decode_rows(schema, events)

    assert events[0].table_map.names == ()
    assert batch.after is not None
    assert batch.after.to_pylist() == [{"a": 2**64 - 1, "b": "é", "c": "y"}, {"a": None, "b": None, "c": None}]

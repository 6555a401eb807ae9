"""A definition that was changed without the log (SET sql_log_bin=0) stops its table where the log's rows tell of it."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.servers.source_log import address, connected
from tests.unit.mysql_log.single_items import one_by_one

from penstock.adapters.mysql.binlog_stream import open_binlog
from penstock.adapters.mysql.catalog import read_tables
from penstock.adapters.mysql.connection import ask, connect
from penstock.adapters.mysql.history import head
from penstock.core.errors import PenstockError, TableStoppedError
from penstock.core.mysql.rows.decode import decode_rows
from penstock.core.mysql.types.logged_rows import RowsLogged
from penstock.core.tables import TableId
from penstock.ports.log import Stop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.positions import BinlogPosition
    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql

COLUMNS = """
    a INT NOT NULL, b VARCHAR(9) CHARACTER SET latin1 NOT NULL, e ENUM('x','ü') CHARACTER SET latin1,
    s SET('p','q'), t TEXT CHARACTER SET utf8mb4, v VARBINARY(9), c CHAR(3) CHARACTER SET utf8mb3"""
ROW = "(1, 'é', 'ü', 'p,q', 'ß', x'ff', 'abc')"


def rows_from(source: MariadbServer | OracleMysql, begin: BinlogPosition, table: TableId) -> Sequence[RowsLogged]:
    events = []
    with closing(open_binlog(address(source), begin, 906_002, lambda seen: seen == table, Stop.END_OF_LOG)) as stream:
        while not stream.at_end():
            events += [item for item in one_by_one(stream.read(5)) if isinstance(item, RowsLogged)]
    return events


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("MODIFY e ENUM('ü','x') CHARACTER SET latin1", "the log has the labels 'ü', 'x' where 'x', 'ü' are expected"),
        ("MODIFY s SET('q','p')", "the log has the labels 'q', 'p' where 'p', 'q' are expected"),
        ("MODIFY b VARCHAR(9) CHARACTER SET latin2 NOT NULL", "the log has text in latin2 where latin1 is expected"),
        ("MODIFY t TEXT CHARACTER SET latin1", "the log has text in latin1 where utf8mb4 is expected"),
        ("MODIFY t BLOB", "the log has text in binary where utf8mb4 is expected"),
        ("MODIFY v VARCHAR(9) CHARACTER SET latin1", "the log has text in latin1 where binary is expected"),
        ("DROP PRIMARY KEY", "the log has no primary key where the primary key (a, b) is expected"),
        ("DROP PRIMARY KEY, ADD PRIMARY KEY (b, a)", "the log has the primary key (b, a) where the primary key (a, b)"),
    ],
)
def test_what_the_log_tells_of_it_stops_the_table(
    any_source: MariadbServer | OracleMysql, database: str, change: str, said: str
) -> None:
    table = TableId(database, "t")
    with closing(connect(address(any_source))) as connection, closing(connected(any_source)) as owner:
        ask(connection, f"CREATE TABLE {table} ({COLUMNS}, PRIMARY KEY (a, b)) DEFAULT CHARACTER SET utf8mb4")
        schema, begin = read_tables(connection, [table])[table], head(connection)
        with owner.cursor() as cursor:
            cursor.execute("SET sql_log_bin = 0")
            cursor.execute(f"ALTER TABLE {table} {change}")
        ask(connection, f"INSERT INTO {table} (a, b, c) VALUES (1, 'e', 'f')")

    with pytest.raises(TableStoppedError) as stopped:
        decode_rows(schema, rows_from(any_source, begin, table))

    assert said in str(stopped.value)


@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (a)", ", PRIMARY KEY (t(3), a)", ", UNIQUE (a)"])
def test_a_definition_that_is_as_it_was_stops_nothing(
    any_source: MariadbServer | OracleMysql, database: str, key: str
) -> None:
    table = TableId(database, "t")
    columns = COLUMNS.replace("TEXT CHARACTER SET utf8mb4", "TEXT CHARACTER SET utf8mb4 NOT NULL")
    with closing(connect(address(any_source))) as connection:
        ask(connection, f"CREATE TABLE {table} ({columns}{key}) DEFAULT CHARACTER SET utf8mb4")
        schema, begin = read_tables(connection, [table])[table], head(connection)
        ask(connection, f"INSERT INTO {table} VALUES {ROW}")

    batch = decode_rows(schema, rows_from(any_source, begin, table))

    assert batch.after is not None
    (row,) = batch.after.to_pylist()
    assert [row[name] for name in "abestvc"] == [1, "é", "ü", "p,q", "ß", b"\xff", "abc"]


ODD = (
    "GEOMETRY",
    "POINT",
    "JSON",
    "VECTOR(3)",
    "UUID",
    "TEXT COMPRESSED",
    "BIT(3)",
    "ENUM('a')",
    "SET('a')",
    "LONGBLOB",
)


@pytest.mark.parametrize("odd", ODD)
def test_character_sets_are_told_of_the_columns_that_have_them(
    any_source: MariadbServer | OracleMysql, database: str, odd: str
) -> None:
    table = TableId(database, "t")
    texts = "CHAR(3), c CHAR(3) CHARACTER SET latin1, d CHAR(3), e CHAR(3), f CHAR(3)"
    with closing(connect(address(any_source))) as connection:
        begin = head(connection)
        try:
            ask(connection, f"CREATE TABLE {table} (a CHAR(3), o {odd}, b {texts}) DEFAULT CHARACTER SET utf8mb4")
        except PenstockError as error:
            pytest.skip(f"this server has no such type: {error.message}")
        ask(connection, f"INSERT INTO {table} (a) VALUES ('x')")

    (rows,) = rows_from(any_source, begin, table)

    first, _, *others = rows.table_map.charsets
    assert (first, *others) == ("utf8mb4", "utf8mb4", "latin1", "utf8mb4", "utf8mb4", "utf8mb4")

"""A statement that is logged in place of its rows stops every table that it may have changed."""

from __future__ import annotations

import contextlib
from contextlib import closing
from typing import TYPE_CHECKING

import pymysql
import pytest
from tests.servers.chain import Chain, make_chain
from tests.servers.kinds import first

from penstock.adapters.mysql.connection import MysqlServer, ask, connect
from penstock.adapters.mysql.source_objects import MysqlSourceObjects
from penstock.core.errors import PenstockError, UnavailableError
from penstock.core.mysql.statements.statement_reach import BUILT_IN, KEYWORDS
from penstock.core.tables import TableId
from penstock.embedded.mariadb import PASSWORD
from penstock.links.capture.spec import CaptureSpec
from penstock.wiring.capture import open_capture

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql

CHECKSUM = (
    "REPLACE INTO `{0}_aside`.`checksums` (db, tbl, chunk, this_cnt, this_crc) SELECT '{0}', 'users', '1', "
    "COUNT(*) AS cnt, COALESCE(LOWER(CONV(BIT_XOR(CAST(CRC32(CONCAT_WS('#', `id`, `name`, CONCAT(ISNULL(`name`)))) "
    "AS UNSIGNED)), 10, 16)), 0) AS crc FROM `{0}`.`users` FORCE INDEX(`PRIMARY`) "
    "WHERE ((`id` >= '1')) AND ((`id` <= '9')) /*checksum chunk*/"
)


@pytest.fixture
def chain(
    mariadb: MariadbServer, chain_parts: tuple[KafkaBroker, str, int], fresh_name: str, tmp_path: Path
) -> Iterator[Chain]:
    """Four captured tables, and beside them a database that is not, with ways to write to the four."""
    chain = make_chain(tmp_path, fresh_name, mariadb, chain_parts)
    top, aside = Chain(chain.file, "mysql", mariadb), f"{fresh_name}_aside"
    top.write(f"CREATE DATABASE {fresh_name}", f"CREATE DATABASE {aside}")
    chain.write(
        "CREATE TABLE users (id INT PRIMARY KEY, name VARCHAR(9))",
        "CREATE TABLE notes (id INT PRIMARY KEY)",
        "CREATE TABLE orders (id INT PRIMARY KEY)",
        "CREATE TABLE `lines` (id INT PRIMARY KEY, of INT, FOREIGN KEY (of) REFERENCES orders (id) ON DELETE CASCADE)",
        "INSERT INTO orders VALUES (1), (2)",
        "INSERT INTO `lines` VALUES (1, 1), (2, 2)",
        f"CREATE TABLE {aside}.checksums (db CHAR(64), tbl CHAR(64), chunk INT, this_cnt INT, this_crc CHAR(40))",
        f"CREATE TABLE {aside}.plain (id INT)",
        f"CREATE TABLE {aside}.fires (id INT)",
        f"CREATE TRIGGER {aside}.fire AFTER INSERT ON {aside}.fires FOR EACH ROW INSERT INTO {fresh_name}.notes "
        "VALUES (NEW.id)",
        f"CREATE VIEW {aside}.seen AS SELECT id, name FROM {fresh_name}.users",
        "CREATE VIEW seen AS SELECT id, name FROM users",
        "CREATE FUNCTION put(x INT) RETURNS INT DETERMINISTIC MODIFIES SQL DATA "
        "BEGIN INSERT INTO notes VALUES (x); RETURN x; END",
    )
    chain.start()
    chain.capture()
    yield chain
    top.write(f"DROP DATABASE {aside}", f"DROP DATABASE {fresh_name}")


def test_a_statement_stops_what_it_writes_to_where_that_can_be_told(chain: Chain) -> None:
    assert stopped_by(chain, "INSERT INTO {0}_aside.plain VALUES (1)") == []
    assert stopped_by(chain, CHECKSUM) == []
    assert stopped_by(chain, "CREATE TEMPORARY TABLE t (KEY k (id)) SELECT id FROM users") == []
    assert stopped_by(chain, "CREATE TABLE {0}_aside.t SELECT id FROM users") == []
    assert stopped_by(chain, "INSERT INTO users VALUES (1, 'a')") == ["users"]
    assert stopped_by(chain, "INSERT INTO orders VALUES (3)") == ["orders", "users"]
    assert stopped_by(chain, "DELETE FROM orders WHERE id = 1") == ["lines", "orders", "users"]


@pytest.mark.parametrize(
    "statement",
    first(
        3,
        "INSERT INTO {0}_aside.fires VALUES (7)",
        "INSERT INTO {0}_aside.seen (id, name) VALUES (7, 'b')",
        "INSERT INTO {0}_aside.plain VALUES ({0}.put(77))",
        "INSERT INTO seen (id, name) VALUES (7, 'b')",
        "SELECT put(2)",
        "CREATE TEMPORARY TABLE t SELECT put(77) AS id",
        "CREATE TABLE {0}_aside.t SELECT {0}.put(77) AS id",
    ),
)
def test_a_statement_stops_every_table_where_it_may_have_written_to_any(chain: Chain, statement: str) -> None:
    assert stopped_by(chain, statement) == ["lines", "notes", "orders", "users"]


def test_what_the_server_writes_into_its_own_schema_stops_nothing_whatever_we_may_see(chain: Chain) -> None:
    """Amazon RDS logs its heartbeats as statements, and its users get no grant on what they are written to."""
    top = Chain(chain.file, "mysql", chain.server)
    top.write(
        "CREATE OR REPLACE TABLE rds_heartbeat2 (id INT PRIMARY KEY, value BIGINT)",
        f"CREATE USER modest IDENTIFIED BY '{chain.server.password}'",
        "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO modest",
        f"GRANT SELECT ON {chain.name}.* TO modest",
    )
    chain.file.write_text(chain.file.read_text().replace("    user: penstock\n", "    user: modest\n"))
    beat = "INSERT INTO mysql.rds_heartbeat2(id, value) values (1,1483041015005) "
    try:
        assert stopped_by(chain, f"{beat}ON DUPLICATE KEY UPDATE value = 1483041015005") == []
        assert stopped_by(chain, "SET STATEMENT max_statement_time=60 FOR DELETE FROM mysql.rds_heartbeat2") == []
        assert stopped_by(chain, "INSERT INTO mysql.rds_heartbeat2 SELECT 1, id FROM {0}.orders LIMIT 1") != []
        with pytest.raises(pymysql.err.MySQLError, match="system tables"):
            top.write("CREATE TRIGGER beat AFTER INSERT ON rds_heartbeat2 FOR EACH ROW SET @a = 1")
    finally:
        top.write("DROP TABLE rds_heartbeat2", "DROP USER modest")


@pytest.mark.nightly
def test_what_becomes_of_the_servers_own_tables_is_not_done_to_the_tracker(chain: Chain) -> None:
    own = "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_NAME IN ('rds_later', 'help_topic')"
    tracker = chain.spec.tracker
    assert tracker is not None
    with contextlib.closing(connect(MysqlServer("127.0.0.1", tracker.port, tracker.user, PASSWORD))) as connection:
        before = ask(connection, own)
        assert stopped_by(chain, "CREATE TABLE mysql.rds_later (a INT)") == []
        assert stopped_by(chain, "RENAME TABLE mysql.help_topic TO mysql.help_aside") == []
        assert stopped_by(chain, "RENAME TABLE mysql.help_aside TO mysql.help_topic") == []
        now = ask(connection, own)
        assert stopped_by(chain, "DROP TABLE mysql.rds_later") == []

    assert now == before


def stopped_by(chain: Chain, statement: str) -> list[str]:
    """Have the source log a statement as it is, carry what there is, and say which tables stand."""
    chain.write("SET SESSION binlog_format = STATEMENT", statement.format(chain.name))
    chain.capture()
    capture = open_capture(CaptureSpec(chain.spec, chain.source, 1))
    with closing(capture.parts):
        return sorted(table.partition(".")[2] for table in capture.stopped)


@pytest.fixture
def root(any_source: MariadbServer | OracleMysql, database: str) -> Iterator[pymysql.Connection]:
    server = MysqlServer(any_source.host, any_source.port, any_source.user, any_source.password)
    with contextlib.closing(connect(server)) as opened:
        ask(opened, f"USE {database}")
        yield opened


def test_only_who_may_see_triggers_can_say_that_there_are_none(
    any_source: MariadbServer | OracleMysql, root: pymysql.Connection, database: str
) -> None:
    ask(root, "CREATE TABLE t (a INT)")
    ask(root, "CREATE USER seer IDENTIFIED BY 'seer'")
    ask(root, f"GRANT SELECT, TRIGGER ON {database}.* TO seer")
    table = TableId(database, "t")
    objects = MysqlSourceObjects(MysqlServer(any_source.host, any_source.port, "seer", "seer"))

    refused = objects.why_more([table], [table])
    ask(root, "GRANT TRIGGER ON *.* TO seer")
    granted = objects.why_more([table], [table])
    ask(root, "DROP USER seer")
    unknown = objects.why_more([table], [table])

    assert "GRANT TRIGGER ON *.* TO seer" in refused
    assert granted == ""
    assert "could not be asked" in unknown


def test_views_triggers_and_what_is_there_no_more_are_reasons(
    any_source: MariadbServer | OracleMysql, root: pymysql.Connection, database: str
) -> None:
    ask(root, "CREATE TABLE t (a INT)")
    server = MysqlServer(any_source.host, any_source.port, any_source.user, any_source.password)
    there, gone = TableId(database, "t"), TableId(database, "gone")

    assert MysqlSourceObjects(server).why_more([there], [there, gone]) == ""
    ask(root, "CREATE VIEW seen AS SELECT 1")
    assert "seen is a view" in MysqlSourceObjects(server).why_more([there], [there, TableId(database, "seen")])
    ask(root, "CREATE TRIGGER fire AFTER DELETE ON t FOR EACH ROW SET @a = 1")
    assert "has the trigger fire" in MysqlSourceObjects(server).why_more([there], [])
    assert f"{gone} is no table" in MysqlSourceObjects(server).why_more([there, gone], [])
    with pytest.raises(UnavailableError):
        MysqlSourceObjects(MysqlServer("127.0.0.1", 1, "nobody", "")).why_more([there], [])


@pytest.mark.parametrize("kind", first(1, "mariadb", "newer_mariadb", "mysql_server"))
def test_no_stored_function_is_called_by_the_name_of_a_built_in_one(
    request: pytest.FixtureRequest, kind: str, fresh_name: str
) -> None:
    running = request.getfixturevalue(kind)
    with contextlib.closing(connect(MysqlServer(running.host, running.port, running.user, running.password))) as root:
        ask(root, f"CREATE DATABASE {fresh_name}")
        ask(root, f"USE {fresh_name}")
        for name in sorted(BUILT_IN | KEYWORDS):
            ask(root, f"CREATE FUNCTION `{name}`(a INT) RETURNS CHAR(6) DETERMINISTIC RETURN 'stored'")

        calls = {name: call(root, f"{name}(1)") for name in BUILT_IN}
        calls |= {name: call(root, f"{name} (1)") for name in KEYWORDS}
        ask(root, f"DROP DATABASE {fresh_name}")

    assert [name for name, answer in calls.items() if answer == "stored"] == []


def call(connection: pymysql.Connection, text: str) -> object:
    """What the call answers, or the error that it is."""
    try:
        return ask(connection, f"SELECT {text}")[0][0]
    except PenstockError as error:
        return error.message

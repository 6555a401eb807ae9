"""A dump of what one statement touches brings the tracker back as it was before it, however much of it was done."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.servers.kinds import first
from tests.servers.source_log import address

from penstock.adapters.mysql.tracker import MysqlTracker, SourceDefaults
from penstock.core.errors import PenstockError
from penstock.core.mysql.statements.ddl import TableDdl, classify
from penstock.core.mysql.statements.touched import Touched, touched_by
from penstock.embedded.mysql import OracleMysql

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.source_log import Source

EMPTY = '{"schemas": []}'
TABLES = [
    "CREATE TABLE a (id INT PRIMARY KEY, n VARCHAR(9) DEFAULT 'é', c INT, CHECK (c > 0))",
    "CREATE TABLE child (id INT, FOREIGN KEY (id) REFERENCES a (id) ON DELETE CASCADE)",
    "CREATE TABLE grandchild (id INT PRIMARY KEY, KEY (id))",
    "CREATE TABLE `my-ü`.`çhild €` (id INT, KEY (id), FOREIGN KEY (id) REFERENCES shop.a (id))",
    "CREATE TABLE parts (id INT) PARTITION BY LIST (id) (PARTITION p VALUES IN (1), PARTITION q VALUES IN (2))",
    "CREATE TABLE part (id INT)",
    "CREATE TABLE b (id INT PRIMARY KEY) ENGINE=MyISAM",
]
OF_MARIADB = ["CREATE SEQUENCE s START WITH 5", "CREATE TABLE uses (id BIGINT DEFAULT NEXTVAL(s))"]
STATEMENTS = [
    "CREATE TABLE c (id INT)",
    "CREATE TABLE c LIKE a",
    "CREATE TABLE IF NOT EXISTS a (other INT)",
    "ALTER TABLE a ADD x INT FIRST, DROP COLUMN n",
    "ALTER TABLE a CHANGE id no INT",
    "ALTER TABLE a RENAME TO `my-ü`.moved",
    "ALTER TABLE parts EXCHANGE PARTITION p WITH TABLE part",
    "DROP TABLE a, b, missing",
    "DROP TABLE child",
    "RENAME TABLE a TO t, b TO a, t TO b",
    "RENAME TABLE a TO x, child TO a, x TO child",
    "CREATE INDEX i ON grandchild (id)",
    "DROP DATABASE shop",
    "DROP DATABASE missing",
    "CREATE DATABASE other CHARACTER SET latin1",
    "CREATE DATABASE IF NOT EXISTS shop",
    "ALTER DATABASE shop CHARACTER SET latin1",
    "ALTER TABLE a /*!50701 ADD x INT */",
]
ONLY_ON_MARIADB = [
    "CREATE OR REPLACE TABLE a SELECT 1 AS one",
    "CREATE OR REPLACE DATABASE shop",
    "ALTER SEQUENCE s INCREMENT 3",
    "DROP SEQUENCE s",
    "RENAME TABLE s TO `my-ü`.s",
]


@pytest.fixture(params=first(1, "tracker_server", "mysql_tracker_server"))
def server(request: pytest.FixtureRequest) -> Source:
    found: Source = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def tracker(server: Source) -> Iterator[MysqlTracker]:
    is_mysql = isinstance(server, OracleMysql)
    opened = MysqlTracker(address(server), SourceDefaults(flavour="mysql" if is_mysql else "mariadb"))
    with closing(opened):
        opened.restore(EMPTY)
        opened.apply("CREATE DATABASE shop", "")
        opened.apply("CREATE DATABASE `my-ü`", "")
        for create in TABLES + ([] if is_mysql else OF_MARIADB):
            opened.apply(create, "shop")
        # MySQL prints a table a bit differently once it was made from what it printed.
        opened.restore(opened.dump())
        yield opened


def touched(tracker: MysqlTracker, sql: str) -> Touched:
    ddl = classify(sql)
    assert isinstance(ddl, TableDdl)
    return touched_by(sql, ddl, "shop", tracker.tables())


@pytest.mark.parametrize("sql", [*STATEMENTS, *ONLY_ON_MARIADB])
def test_what_a_statement_did_is_undone_and_what_is_known_is_what_there_is(
    server: Source, tracker: MysqlTracker, sql: str
) -> None:
    if sql in ONLY_ON_MARIADB and isinstance(server, OracleMysql):
        pytest.skip("MySQL has neither sequences nor OR REPLACE")
    before, part = tracker.dump(), tracker.dump(touched(tracker, sql))
    known = tracker.describe(tracker.tables())

    tracker.apply(sql, "shop")
    after = tracker.describe(tracker.tables())
    with closing(MysqlTracker(address(server), tracker._defaults)) as anew:
        seen = anew.describe(anew.tables())
        sequences = anew.sequences()

    assert (after, tracker.sequences()) == (seen, sequences)
    for _ in range(2):
        tracker.restore(part)
        assert tracker.dump() == before
        assert tracker.describe(tracker.tables()) == known


@pytest.mark.parametrize("half", ["DROP TABLE b", "DROP TABLE a", "CREATE TABLE c (id INT)"])
def test_what_was_half_done_is_undone(tracker: MysqlTracker, half: str) -> None:
    sql = "DROP TABLE a, b, c"
    before, part = tracker.dump(), tracker.dump(touched(tracker, sql))

    tracker.apply(half, "shop")
    tracker.restore(part)

    assert tracker.dump() == before


def test_what_a_statement_does_not_touch_is_neither_kept_nor_brought_back(tracker: MysqlTracker) -> None:
    part = tracker.dump(touched(tracker, "ALTER TABLE b ADD x INT"))

    tracker.apply("ALTER TABLE grandchild ADD x INT", "shop")
    tracker.apply("ALTER TABLE b ADD x INT", "shop")
    changed = tracker.dump()
    tracker.restore(part)
    tracker.apply("ALTER TABLE b ADD x INT", "shop")

    assert "grandchild" not in part
    assert tracker.dump() == changed


@pytest.mark.parametrize("server", ["tracker_server"], indirect=True)
def test_what_a_refused_statement_has_done_is_known(server: Source, tracker: MysqlTracker) -> None:
    known = tracker.describe(tracker.tables())

    with pytest.raises(PenstockError):
        tracker.apply("CREATE OR REPLACE TABLE b (id INT PRIMARY KEY) SELECT 1 AS id UNION ALL SELECT 1", "shop")

    with closing(MysqlTracker(address(server), tracker._defaults)) as anew:
        seen = anew.describe(anew.tables())
    assert tracker.describe(tracker.tables()) == seen
    assert {table.name for table in known} - {table.name for table in seen} == {"b"}

"""Hints are true: a stopped table whose hint is followed goes on, with all of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.servers.chain import Chain, make_chain

from penstock.core.snapshots import SnapshotOptions, Status
from penstock.wiring.snapshots import ask_for_snapshots, read_snapshots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from penstock.dev.postgres import PostgresServer
    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer


@pytest.fixture
def chain(
    mariadb: MariadbServer,
    chain_parts: tuple[KafkaBroker, str, int],
    fresh_database: str,
    tmp_path: Path,
) -> Chain:
    return make_chain(tmp_path, fresh_database, mariadb, chain_parts)


def told(chain: Chain) -> dict[str, str]:
    """What is said of stopped tables, error and hint."""
    chain.mirror("stopped")
    return {t.table.partition(".")[2]: f"{t.error} {t.hint}" for t in chain.status().tables if t.error}


def follow(chain: Chain, table: str, mended: str) -> None:
    """Do what a hint says: remove the cause, and have the rows read again."""
    chain.write(mended)
    ask_for_snapshots(chain.spec, [f"{chain.name}.{table}"], SnapshotOptions())
    chain.carry()


@pytest.mark.nightly
def test_a_table_whose_engine_knows_no_snapshots_goes_on_when_its_engine_is_another(chain: Chain) -> None:
    chain.write(
        "CREATE TABLE old (id INT PRIMARY KEY, n INT) ENGINE=MyISAM",
        "INSERT INTO old VALUES (1, 1)",
        "CREATE TABLE older (id INT PRIMARY KEY) ENGINE=MyISAM",
    )
    chain.start()
    chain.carry()
    said = told(chain)
    assert f"ALTER TABLE `{chain.name}`.`old` ENGINE=InnoDB, then have the table's rows read again" in said["old"]
    assert set(said) == {"old", "older"}

    follow(chain, "old", "ALTER TABLE old ENGINE=InnoDB")
    chain.write("INSERT INTO old VALUES (2, 2)")
    text = chain.file.read_text()
    chain.file.write_text(text.replace(f'["{chain.name}.*"]', f'["{chain.name}.*", "!{chain.name}.older"]'))
    chain.carry()

    assert told(chain) == {}
    assert chain.query("SELECT id, n FROM {schema}.old ORDER BY id") == [(1, 1), (2, 2)]


@pytest.mark.nightly
def test_a_table_with_a_zero_date_goes_on_when_the_row_is_corrected(chain: Chain) -> None:
    chain.write("CREATE TABLE days (id INT PRIMARY KEY, day DATE)", "INSERT INTO days VALUES (1, '2026-01-02')")
    chain.start()
    chain.carry()
    chain.write("SET SESSION sql_mode = ''", "INSERT INTO days VALUES (2, '0000-00-00')")
    chain.carry()
    said = told(chain)["days"]
    assert "0000-00-00 is no date" in said
    assert "correct the row (UPDATE), then have the table's rows read again" in said
    assert "leave the column out" not in said

    follow(chain, "days", "UPDATE days SET day = '2026-01-03' WHERE id = 2")

    assert told(chain) == {}
    rows = chain.query("SELECT id, day::VARCHAR FROM {schema}.days ORDER BY id")
    assert rows == [(1, "2026-01-02"), (2, "2026-01-03")]


@pytest.mark.nightly
def test_a_stopped_table_that_is_renamed_goes_on_under_its_new_name_and_the_old_one_can_be_left_out(
    chain: Chain,
) -> None:
    chain.write("CREATE TABLE orders (id INT PRIMARY KEY, n INT)", "INSERT INTO orders VALUES (1, 1)")
    chain.start()
    chain.carry()
    chain.write(
        "ALTER TABLE orders MODIFY n SMALLINT", "RENAME TABLE orders TO sales", "INSERT INTO sales VALUES (2, 2)"
    )
    chain.carry()
    said = told(chain)
    assert set(said) == {"orders", "sales"}
    assert "was dropped or got another name since" in said["orders"]

    follow(chain, "sales", "INSERT INTO sales VALUES (3, 3)")
    text = chain.file.read_text()
    chain.file.write_text(text.replace(f'["{chain.name}.*"]', f'["{chain.name}.*", "!{chain.name}.orders"]'))
    chain.carry()

    assert told(chain) == {}
    assert chain.query("SELECT id, n FROM {schema}.sales ORDER BY id") == [(1, 1), (2, 2), (3, 3)]


@dataclass(frozen=True, slots=True)
class Stop:
    """A table that stops: how it is made, what stops it, what is said, and what follows from the hint."""

    made: tuple[str, ...]
    stopping: tuple[str, ...]
    said: str
    mended: tuple[str, ...] = ()
    is_emptied: bool = False


_UNLOGGED = ("SET SESSION sql_log_bin = 0", "{}", "SET SESSION sql_log_bin = 1")


def unlogged(statement: str) -> tuple[str, ...]:
    """What a session does that keeps a statement out of the log."""
    return tuple(each.format(statement) for each in _UNLOGGED)


STOPS = {
    "impossible_day": Stop(
        ("CREATE TABLE impossible_day (id INT PRIMARY KEY, day DATE)", "INSERT INTO impossible_day VALUES (1, NULL)"),
        ("SET SESSION sql_mode = 'ALLOW_INVALID_DATES'", "INSERT INTO impossible_day VALUES (2, '2026-02-31')"),
        "correct the row (UPDATE), then have the table's rows read again",
        ("UPDATE impossible_day SET day = '2026-02-28' WHERE id = 2",),
    ),
    "smaller_type": Stop(
        ("CREATE TABLE smaller_type (id INT PRIMARY KEY, n INT)", "INSERT INTO smaller_type VALUES (1, 1)"),
        ("ALTER TABLE smaller_type MODIFY n SMALLINT", "INSERT INTO smaller_type VALUES (2, 2)"),
        "existing rows must be read anew, even if the change is undone",
    ),
    "another_type": Stop(
        ("CREATE TABLE another_type (id INT PRIMARY KEY, n INT)", "INSERT INTO another_type VALUES (1, 1)"),
        ("ALTER TABLE another_type MODIFY n VARCHAR(20)", "INSERT INTO another_type VALUES (2, 'two')"),
        "existing rows must be read anew, even if the change is undone",
    ),
    "unseen_column": Stop(
        ("CREATE TABLE unseen_column (id INT PRIMARY KEY)", "INSERT INTO unseen_column VALUES (1)"),
        (*unlogged("ALTER TABLE unseen_column ADD n INT DEFAULT 7"), "INSERT INTO unseen_column VALUES (2, 2)"),
        "the table was changed in a way that the log does not show",
    ),
    "unseen_labels": Stop(
        (
            "CREATE TABLE unseen_labels (id INT PRIMARY KEY, e ENUM('a', 'b'))",
            "INSERT INTO unseen_labels VALUES (1, 'a')",
        ),
        (
            *unlogged("ALTER TABLE unseen_labels MODIFY e ENUM('b', 'a')"),
            "INSERT INTO unseen_labels VALUES (2, 'a')",
        ),
        "the table was changed in a way that the log does not show",
    ),
    "our_name": Stop(
        (),
        ("CREATE TABLE our_name (id INT PRIMARY KEY, __penstock_op INT)", "INSERT INTO our_name VALUES (1, 1)"),
        "give the column another name, then have the table's rows read again",
        ("ALTER TABLE our_name RENAME COLUMN __penstock_op TO op",),
    ),
    "lacking": Stop(
        ("CREATE TABLE lacking (id INT PRIMARY KEY, a INT, b INT)", "INSERT INTO lacking VALUES (1, 1, 1)"),
        ("SET SESSION binlog_row_image = 'MINIMAL'", "UPDATE lacking SET a = 2"),
        "set binlog_row_image=FULL on the server, for every session",
    ),
    "as_statement": Stop(
        ("CREATE TABLE as_statement (id INT PRIMARY KEY, n INT)", "INSERT INTO as_statement VALUES (1, 1)"),
        ("SET SESSION binlog_format = 'STATEMENT'", "INSERT INTO as_statement VALUES (2, 2)"),
        "set binlog_format=ROW for every session that writes",
    ),
    "computed_default": Stop(
        ("CREATE TABLE computed_default (id INT PRIMARY KEY)", "INSERT INTO computed_default VALUES (1)"),
        ("ALTER TABLE computed_default ADD u VARCHAR(36) DEFAULT (uuid())",),
        "existing rows must be read anew",
    ),
    "not_strict": Stop(
        ("CREATE TABLE not_strict (id INT PRIMARY KEY, n INT)", "INSERT INTO not_strict VALUES (1, NULL)"),
        ("SET SESSION sql_mode = ''", "ALTER TABLE not_strict MODIFY n INT NOT NULL"),
        "change tables with STRICT_TRANS_TABLES",
    ),
    "uncarried_year": Stop(
        (),
        ("CREATE TABLE uncarried_year (id INT PRIMARY KEY, y YEAR(2))", "INSERT INTO uncarried_year VALUES (1, 99)"),
        "change the type",
        ("ALTER TABLE uncarried_year MODIFY y YEAR(4)",),
    ),
    "wide_decimal": Stop(
        (),
        ("CREATE TABLE wide_decimal (id INT PRIMARY KEY, d DECIMAL(65))", "INSERT INTO wide_decimal VALUES (1, 1)"),
        "or change the column's type in the source, then type: penstock snapshot FILE TABLE --full-refresh",
        ("ALTER TABLE wide_decimal MODIFY d DECIMAL(20)",),
        is_emptied=True,
    ),
    "from_elsewhere": Stop(
        (),
        (
            "CREATE TABLE left_out (id INT PRIMARY KEY)",
            "INSERT INTO left_out VALUES (1), (2)",
            "RENAME TABLE left_out TO from_elsewhere",
        ),
        "penstock snapshot FILE",
    ),
}


@pytest.mark.nightly
def test_tables_that_the_source_stops_go_on_when_their_hints_are_followed(chain: Chain) -> None:
    text = chain.file.read_text()
    chain.file.write_text(text.replace(f'["{chain.name}.*"]', f'["{chain.name}.*", "!{chain.name}.left_out"]'))
    chain.write(*(statement for stop in STOPS.values() for statement in stop.made))
    chain.start()
    chain.carry()
    assert told(chain) == {}
    for stop in STOPS.values():
        chain.write(*stop.stopping)
    chain.carry()
    said = told(chain)
    assert {table: stop.said in said.get(table, "") for table, stop in STOPS.items()} == dict.fromkeys(STOPS, True), (
        said
    )

    for stop in STOPS.values():
        chain.write(*stop.mended)
    for is_emptied in (False, True):
        again = [f"{chain.name}.{table}" for table, stop in STOPS.items() if stop.is_emptied is is_emptied]
        ask_for_snapshots(chain.spec, again, SnapshotOptions(full_refresh=is_emptied))
    # Two are read at once.
    for _ in STOPS:
        chain.carry()
        if all(each.status is Status.DONE for each in read_snapshots(chain.spec)):
            break

    assert told(chain) == {}
    assert differing(chain, STOPS) == {}
    chain.write(*(f"DELETE FROM {table} WHERE id = 1" for table in STOPS))
    chain.carry()
    assert told(chain) == {}
    assert differing(chain, STOPS) == {}


def differing(chain: Chain, tables: Iterable[str]) -> dict[str, object]:
    """What the target and the source have each, by table, where that is not the same."""
    found: dict[str, object] = {}
    with chain.cursor() as cursor:
        for table in tables:
            cursor.execute(f"SELECT * FROM {table}")
            there = sorted(map(repr, cursor.fetchall()))
            here = sorted(map(repr, chain.query(f"SELECT * FROM {{schema}}.{table}")))
            if here != there:
                found[table] = (here, there)
    return found


LONG = "c" * 64


@dataclass(frozen=True, slots=True)
class Refused:
    """A table that a target stops: how it is made, what is done in target and source, what is said, what mends it."""

    made: str
    in_target: str
    then: tuple[str, ...]
    said: str
    mended_in_target: str = ""
    mended: tuple[str, ...] = ()
    is_read_again: bool = False


REFUSED = {
    "dropped": Refused(
        "CREATE TABLE dropped (id INT PRIMARY KEY, n INT)",
        "DROP TABLE dropped",
        ("INSERT INTO dropped VALUES (2, 2)",),
        "type: penstock snapshot FILE TABLE --full-refresh",
        is_read_again=True,
    ),
    "retyped": Refused(
        "CREATE TABLE retyped (id INT PRIMARY KEY, n INT)",
        "ALTER TABLE retyped ALTER COLUMN n TYPE TEXT",
        ("INSERT INTO retyped VALUES (2, 2)",),
        "put it back as it was, with the values that it had",
        "ALTER TABLE retyped ALTER COLUMN n TYPE INTEGER USING n::INTEGER",
    ),
    "not_ours": Refused(
        "",
        "CREATE TABLE not_ours (id INTEGER, theirs TEXT)",
        ("CREATE TABLE not_ours (id INT PRIMARY KEY, n INT)", "INSERT INTO not_ours VALUES (1, 1), (2, 2)"),
        "drop or rename that table",
        "ALTER TABLE not_ours RENAME TO theirs",
    ),
    "nul": Refused(
        "CREATE TABLE nul (id INT PRIMARY KEY, t VARCHAR(20))",
        "",
        ("INSERT INTO nul VALUES (2, 'a\\0b')",),
        "correct the value in the source",
        mended=("UPDATE nul SET t = 'ab' WHERE id = 2",),
        is_read_again=True,
    ),
    "long_name": Refused(
        "",
        "",
        (f"CREATE TABLE long_name (id INT PRIMARY KEY, {LONG} INT)", "INSERT INTO long_name VALUES (1, 1), (2, 2)"),
        "give it a shorter name in the source",
        mended=(f"ALTER TABLE long_name RENAME COLUMN {LONG} TO c",),
        is_read_again=True,
    ),
    "viewed": Refused(
        "CREATE TABLE viewed (id INT PRIMARY KEY, n INT)",
        "CREATE VIEW views AS SELECT n FROM viewed",
        ("ALTER TABLE viewed MODIFY n BIGINT", "INSERT INTO viewed VALUES (2, 2)"),
        "drop these, and make them again when the table has gone on",
        "DROP VIEW views",
    ),
}


@pytest.mark.nightly
def test_tables_that_a_target_stops_go_on_when_their_hints_are_followed(
    chain: Chain, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SINK_PASSWORD", postgres.password)
    where = f"host: {postgres.host}, port: {postgres.port}, database: {postgres.database}, user: {postgres.user}"
    text = chain.file.read_text()
    sink = f"kind: postgres, {where}, password_env: SINK_PASSWORD"
    chain.file.write_text(text.replace(f"kind: duckdb, path: {chain.spec.home}/wh.duckdb", sink))
    follow_hints(chain, REFUSED, partial(in_target, postgres, chain))


def follow_hints(chain: Chain, tables: Mapping[str, Refused], in_target: Callable[..., object]) -> None:
    """Have each of `tables` stopped, then follow its hint; `in_target` runs statements in the target."""
    for table, refused in tables.items():
        if refused.made:
            chain.write(refused.made, f"INSERT INTO {table} (id) VALUES (1)")
    chain.start()
    chain.carry()
    in_target(*(refused.in_target for refused in tables.values() if refused.in_target))
    for refused in tables.values():
        chain.write(*refused.then)
    chain.carry()
    said = told(chain)
    as_said = {table: refused.said in said.get(table, "") for table, refused in tables.items()}
    assert as_said == dict.fromkeys(tables, True), said

    in_target(*(refused.mended_in_target for refused in tables.values() if refused.mended_in_target))
    for refused in tables.values():
        chain.write(*refused.mended)
    again = [f"{chain.name}.{table}" for table, refused in tables.items() if refused.is_read_again]
    ask_for_snapshots(chain.spec, again, SnapshotOptions(full_refresh=True))
    chain.carry()
    chain.carry()

    assert told(chain) == {}
    assert differing(chain, tables) == {}


def in_target(postgres: PostgresServer, chain: Chain, *statements: str) -> None:
    """Do what somebody does to our tables in the target."""
    login = f"host={postgres.host} port={postgres.port} user={postgres.user} password={postgres.password}"
    with psycopg.connect(f"{login} dbname={postgres.database}", autocommit=True, connect_timeout=10) as connection:
        connection.execute(f"SET search_path = {chain.name}".encode())
        for statement in statements:
            connection.execute(statement.encode())

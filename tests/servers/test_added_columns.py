"""Columns that a migration adds: existing rows have in the target what the source put there, and no table stops."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.servers.chain import Chain, make_chain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.servers.postgres_chain import PostgresChain

    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql

ADDED = (
    "i INT NOT NULL",
    "d DECIMAL(5, 2) NOT NULL",
    "v VARCHAR(9) NOT NULL",
    "b VARBINARY(3) NOT NULL",
    "f BINARY(3) NOT NULL",
    "e ENUM('x', 'y') NOT NULL",
    "s SET('x', 'y') NOT NULL",
    "t TIME NOT NULL",
    "y YEAR NOT NULL",
    "x BIT(3) NOT NULL",
    "created TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP",
    "finely TIMESTAMP(6) NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)",
    "here DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP",
    "fine DATETIME(3) DEFAULT NOW(3)",
    "today DATE NOT NULL DEFAULT (CURRENT_DATE)",
    "clock TIME NOT NULL DEFAULT (CURRENT_TIME)",
)
ZONES = ("+05:30", "SYSTEM", "-11:00")


def migrate(chain: Chain) -> None:
    """Add the columns one by one and then all at once, from sessions in several zones, to tables with rows."""
    for number, zone in enumerate(ZONES):
        table = f"m{number}"
        chain.write(f"CREATE TABLE {table} (id INT PRIMARY KEY)", f"INSERT INTO {table} VALUES (1), (2), (3)")
        session = [f"SET time_zone = '{zone}'"]
        alters = [f"ALTER TABLE {table} ADD COLUMN {column}" for column in ADDED]
        if number == 1:
            alters = [f"ALTER TABLE {table} {', '.join(f'ADD COLUMN {column}' for column in ADDED)}"]
        chain.write(*session, *alters, f"UPDATE {table} SET i = 7 WHERE id = 3", f"DELETE FROM {table} WHERE id = 2")


def told(chain: Chain) -> list[str]:
    return [f"{table.error} {table.hint}" for table in chain.status().tables if table.error]


def differences(chain: Chain) -> list[str]:
    """Compare both sides as text, instants in UTC."""
    names = ["id", *(column.split()[0] for column in ADDED)]
    found = []
    for number in range(len(ZONES)):
        with chain.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
            shown = [
                f"HEX({name})"
                if name in "bf"
                else f"CAST({name} + 0 AS CHAR)"
                if name in "xy"
                else f"CAST({name} AS CHAR)"
                for name in names
            ]
            cursor.execute(f"SELECT {', '.join(shown)} FROM m{number} ORDER BY id")
            there = cursor.fetchall()
        shown = [
            f"hex({name})"
            if name in "bf"
            else f"strftime({name}, '%Y-%m-%d %H:%M:%S.%f')"
            if name in {"finely", "created", "here", "fine"}
            else f"CAST({name} AS VARCHAR)"
            for name in names
        ]
        here = chain.query(f"SELECT {', '.join(shown)} FROM {{schema}}.m{number} ORDER BY id")
        found += [f"m{number}: {a} | {b}" for a, b in zip(there, here, strict=True) if not alike(a, b)]
    return found


def alike(there: Sequence[object], here: Sequence[object]) -> bool:
    """Whether two rows are equal but for zeros at the end of fractions."""
    pairs = [(str(a), str(b)) for a, b in zip(there, here, strict=True)]
    return all(b.startswith(a) and not b[len(a) :].strip(".0") for a, b in pairs)


def check_added(chain: Chain) -> None:
    chain.start()
    chain.write("CREATE TABLE m (id INT PRIMARY KEY)")
    migrate(chain)
    chain.carry()
    chain.mirror()

    assert told(chain) == []
    assert differences(chain) == []


def test_added_columns_have_in_existing_rows_what_the_source_filled_in(
    mariadb: MariadbServer,
    chain_parts: tuple[KafkaBroker, str, int],
    fresh_database: str,
    tmp_path: Path,
) -> None:
    check_added(make_chain(tmp_path, fresh_database, mariadb, chain_parts))


@pytest.mark.nightly
def test_so_have_those_of_mysql(
    mysql_server: OracleMysql,
    mysql_tracker_server: OracleMysql,
    chain_parts: tuple[KafkaBroker, str, int],
    fresh_name: str,
    tmp_path: Path,
) -> None:
    kafka, schematizer, _ = chain_parts
    chain = make_chain(tmp_path, fresh_name, mysql_server, (kafka, schematizer, mysql_tracker_server.port))
    Chain(chain.file, "mysql", mysql_server).write(f"CREATE DATABASE {fresh_name}")

    check_added(chain)


def test_dropping_partitions_if_they_exist_stops_a_table_only_where_one_did(
    mariadb: MariadbServer, chain_parts: tuple[KafkaBroker, str, int], fresh_database: str, tmp_path: Path
) -> None:
    chain = make_chain(tmp_path, fresh_database, mariadb, chain_parts)
    halves = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))"
    for table in ("kept", "lost"):
        chain.write(f"CREATE TABLE {table} (id INT PRIMARY KEY) {halves}", f"INSERT INTO {table} VALUES (1), (11)")
    chain.start()

    chain.write("ALTER TABLE kept DROP PARTITION IF EXISTS p8, p9", "INSERT INTO kept VALUES (12)")
    chain.write("ALTER TABLE lost DROP PARTITION IF EXISTS p8, P1")
    chain.carry()
    chain.mirror()

    (said,) = told(chain)
    assert ".lost stopped" in said
    assert chain.query("SELECT id FROM {schema}.kept ORDER BY id") == [(1,), (11,), (12,)]


def test_columns_that_one_statement_takes_and_adds_are_two(
    mariadb: MariadbServer, chain_parts: tuple[KafkaBroker, str, int], fresh_database: str, tmp_path: Path
) -> None:
    chain = make_chain(tmp_path, fresh_database, mariadb, chain_parts)
    chain.write("CREATE TABLE t (id INT PRIMARY KEY, old INT, name INT)", "INSERT INTO t VALUES (1, 2, 3)")
    chain.start()

    chain.write(
        "ALTER TABLE t DROP old, ADD new INT DEFAULT 7, CHANGE name called BIGINT", "INSERT INTO t VALUES (2, 3, 4)"
    )
    chain.carry()
    chain.mirror()

    assert told(chain) == []
    assert chain.query("SELECT id, called, new FROM {schema}.t ORDER BY id") == [(1, 3, 7), (2, 3, 4)]


def test_a_column_that_is_added_under_the_name_that_another_one_had_is_filled(
    mariadb: MariadbServer, chain_parts: tuple[KafkaBroker, str, int], fresh_database: str, tmp_path: Path
) -> None:
    chain = make_chain(tmp_path, fresh_database, mariadb, chain_parts)
    chain.write("CREATE TABLE t (id INT PRIMARY KEY, made INT, n INT)", "INSERT INTO t VALUES (1, 2, 3)")
    chain.start()

    added = "ADD made TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, ADD n INT NOT NULL"
    chain.write(
        "SET timestamp = 1600000000",
        f"ALTER TABLE t RENAME COLUMN made TO was_made, CHANGE n was_n INT, {added}",
    )
    chain.carry()
    chain.mirror()

    assert told(chain) == []
    filled = "SELECT id, was_made, was_n, n FROM {schema}.t WHERE epoch(made) = 1600000000 ORDER BY id"
    assert chain.query(filled) == [(1, 2, 3, 0)]


def test_documents_and_arrays_of_postgresql_are_added_with_a_default_and_in_place_of_others(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres("CREATE TABLE t (id int PRIMARY KEY, old text)", "INSERT INTO t VALUES (1, 'x')")
    chain.carry()

    chain.write(
        """ALTER TABLE t ADD d jsonb NOT NULL DEFAULT '{"b": 1, "a":  [null]}', ADD j json DEFAULT '{"b":  1.0}'""",
        """ALTER TABLE t ADD a text[] NOT NULL DEFAULT '{a,"b c"}', ADD n int[] DEFAULT '{}'""",
        "ALTER TABLE t DROP old",
        "INSERT INTO t VALUES (2)",
    )
    chain.carry()

    ((_, *older), (_, *newer)) = chain.rows("SELECT * FROM public.t ORDER BY id")
    assert older == newer == ['{"a": [null], "b": 1}', '{"b":  1.0}', '["a","b c"]', "[]"]

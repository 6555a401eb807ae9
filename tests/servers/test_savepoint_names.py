"""Which names of savepoints servers take for the same."""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing
from string import ascii_uppercase
from typing import TYPE_CHECKING

import pytest
from tests.servers.kinds import first
from tests.servers.source_log import connected

from penstock.core.mysql.statements.savepoints import loosely

if TYPE_CHECKING:
    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql

CHARACTERS = [code for code in range(1, 0x10000) if not 0xD800 <= code < 0xE000]
AT_ONCE = 1000


@pytest.mark.parametrize(
    ("server", "collation"),
    [
        ("mariadb", "utf8mb3_general_ci"),
        ("mysql_server", "utf8mb3_general_ci"),
        pytest.param("newer_mariadb", "utf8mb3_general1400_as_ci", marks=pytest.mark.nightly),
    ],
)
def test_names_that_a_server_takes_for_the_same_have_one_loose_form(
    request: pytest.FixtureRequest, server: str, collation: str
) -> None:
    source: MariadbServer | OracleMysql = request.getfixturevalue(server)
    alike = defaultdict(set)
    with closing(connected(source)) as connection, connection.cursor() as cursor:
        for first in range(0, len(CHARACTERS), AT_ONCE):
            codes = CHARACTERS[first : first + AT_ONCE]
            weights = (
                f"WEIGHT_STRING(CONVERT(_ucs2 0x{code:04x} USING utf8mb3) COLLATE {collation})" for code in codes
            )
            cursor.execute(f"SELECT {', '.join(weights)}")
            for code, weight in zip(codes, cursor.fetchone() or (), strict=True):
                alike[weight].add(chr(code))

    assert len(alike) < len(CHARACTERS)
    assert all(any({letter, letter.lower()} <= group for group in alike.values()) for letter in ascii_uppercase)
    assert [group for group in alike.values() if len({loosely(letter) for letter in group}) > 1] == []


@pytest.mark.parametrize(
    ("server", "same"), first(2, ("mariadb", True), ("mysql_server", True), ("newer_mariadb", False))
)
def test_accents_count_on_newer_servers_alone(request: pytest.FixtureRequest, server: str, *, same: bool) -> None:
    source: MariadbServer | OracleMysql = request.getfixturevalue(server)
    with closing(connected(source)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS savepoints")
        cursor.execute("CREATE TABLE IF NOT EXISTS savepoints.t (a INT) ENGINE=InnoDB")
        cursor.execute("BEGIN")
        cursor.execute("SAVEPOINT `e`")
        cursor.execute("INSERT INTO savepoints.t VALUES (1)")
        cursor.execute("SAVEPOINT `é`")
        cursor.execute("ROLLBACK TO `e`")
        cursor.execute("SELECT COUNT(*) FROM savepoints.t")
        ((rows,),) = cursor.fetchall()

    assert rows == (1 if same else 0)

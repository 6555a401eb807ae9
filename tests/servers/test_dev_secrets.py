"""A tracker that a pipeline keeps for itself lets in who knows its home's secret, and writes no files."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pymysql
import pytest
from tests.servers.sessions import log_in

from penstock.embedded.mariadb import PASSWORD, Flavour, MariadbServer, start_mariadb
from penstock.embedded.mysql import OracleMysql, start_mysql

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.embedded.debian import DebianPackage

_STARTS: dict[str, Callable[[Path], MariadbServer | OracleMysql]] = {
    "mariadb": lambda home: start_mariadb(home, Flavour.TRACKER),
    "mysql": lambda home: start_mysql(home, Flavour.TRACKER),
}


def run(server: MariadbServer | OracleMysql, statement: str, password: str) -> None:
    with (
        closing(log_in(server, password=password)) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)


@pytest.mark.parametrize("kind", ["mariadb", pytest.param("mysql", marks=pytest.mark.nightly)])
def test_a_tracker_has_a_secret_of_its_home_and_writes_no_files(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    if kind == "mysql":
        package: DebianPackage = request.getfixturevalue("mysql_package")
        del package
    home, stolen = tmp_path / "tracker", tmp_path / "stolen"

    with _STARTS[kind](home) as server:
        password = server.password
        with pytest.raises(pymysql.err.OperationalError, match="Access denied"):
            run(server, "SELECT 1", PASSWORD)
        for statement in (f"SELECT 1 INTO OUTFILE '{stolen}'", "GRANT FILE ON *.* TO CURRENT_USER", "SHUTDOWN"):
            with pytest.raises(pymysql.err.MySQLError, match="denied"):
                run(server, statement, password)
    with _STARTS[kind](home) as server:
        run(server, "SELECT 1", password)

    assert not stolen.exists()
    assert home.stat().st_mode & 0o777 == 0o700
    assert {(home / name).stat().st_mode & 0o777 for name in ("password", "init.sql")} == {0o600}

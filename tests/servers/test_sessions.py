"""What a server, a database or a role sets for our sessions changes nothing of what we read and write."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text
from tests.servers.kinds import on_every_database
from tests.servers.sink_case import Place, PostgresTarget
from tests.servers.source_log import address, connected
from tests.servers.test_state_databases import engine_of

from penstock.adapters.mysql.connection import ask, connect
from penstock.adapters.mysql.initial_snapshot import open_initial_snapshot
from penstock.adapters.postgres import connection as postgres_connection
from penstock.core.errors import UnfitServerError
from penstock.core.sessions import POSTGRES_SESSION, require_kept
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql

HOSTILE = {
    "client_encoding": "LATIN1",
    "datestyle": "SQL, DMY",
    "intervalstyle": "iso_8601",
    "timezone": "Asia/Kolkata",
    "bytea_output": "escape",
    "extra_float_digits": "-10",
    "xmloption": "document",
    "array_nulls": "off",
    "standard_conforming_strings": "off",
    "transform_null_equals": "on",
    "row_security": "on",
    "default_transaction_isolation": "serializable",
    "default_transaction_deferrable": "on",
    "synchronous_commit": "off",
}
HOSTILE_OF_MYSQL = {
    "sql_select_limit": "1",
    "sql_auto_is_null": "1",
    "sql_safe_updates": "1",
    "completion_type": "'CHAIN'",
    "sql_mode": "'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH'",
}


@pytest.fixture
def hostile_source(any_source: MariadbServer | OracleMysql) -> Iterator[MariadbServer | OracleMysql]:
    """A source whose every new session is given settings that change results."""
    with closing(connected(any_source)) as root, root.cursor() as cursor:
        before: dict[str, object] = {}
        for name in HOSTILE_OF_MYSQL:
            cursor.execute(f"SELECT @@GLOBAL.{name}")
            before[name] = (cursor.fetchone() or ("",))[0]
        try:
            for name, value in HOSTILE_OF_MYSQL.items():
                cursor.execute(f"SET GLOBAL {name} = {value}")
            yield any_source
        finally:
            for name, was in before.items():
                cursor.execute(f"SET GLOBAL {name} = %s", (was,))


def test_a_source_s_limits_and_modes_cut_no_copy_short(
    hostile_source: MariadbServer | OracleMysql, database: str
) -> None:
    with closing(connect(address(hostile_source))) as writer:
        ask(writer, f"CREATE TABLE {database}.t (id INT PRIMARY KEY, c CHAR(9), x TEXT)")
        ask(writer, rf"INSERT INTO {database}.t VALUES (1, 'a', 'it''s \\ back'), (2, 'b', NULL), (3, 'c', '')")

    with open_initial_snapshot(address(hostile_source), lambda table: table.schema == database) as copy:
        batches = [batch.after for batch in copy.rows(TableId(database, "t"), 10) if batch.after is not None]
    rows = [row for batch in batches for row in batch.to_pylist()]

    assert [(row["id"], row["c"], row["x"]) for row in rows] == [(1, "a", "it's \\ back"), (2, "b", None), (3, "c", "")]


def test_a_time_that_a_server_reads_its_history_at_is_not_ours(mariadb: MariadbServer) -> None:
    with closing(connected(mariadb)) as root, root.cursor() as cursor:
        cursor.execute("SET GLOBAL system_versioning_asof = '2020-01-01'")
        try:
            with closing(connect(address(mariadb))) as connection:
                found = ask(connection, "SELECT @@system_versioning_asof")
        finally:
            cursor.execute("SET GLOBAL system_versioning_asof = DEFAULT")

    assert found == [("DEFAULT",)]


@pytest.mark.parametrize("place", ["postgres"], indirect=True)
def test_a_role_s_settings_change_nothing_of_what_is_loaded(place: Place) -> None:
    assert isinstance(place.target, PostgresTarget)
    server = place.target.server
    for name, value in HOSTILE.items():
        place.do(f"ALTER DATABASE {server.database} SET {name} = '{value}'")

    with closing(postgres_connection.connect(server)) as connection:
        found = {name: connection.execute(f"SHOW {name}".encode()).fetchall()[0][0] for name in POSTGRES_SESSION}
        kept_alive = connection.execute(b"SHOW tcp_keepalives_idle").fetchall()

    assert found == dict(POSTGRES_SESSION)
    assert kept_alive == [("30",)], "the session of a host that was lost keeps its locks for two hours"


@on_every_database
def test_the_state_database_s_sessions_are_ours(state_url: str) -> None:
    if state_url.startswith("sqlite"):
        return
    with engine_of(state_url) as engine, engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            assert connection.execute(text("SHOW standard_conforming_strings")).scalar() == "on"
            assert connection.execute(text("SHOW row_security")).scalar() == "off"
            assert connection.execute(text("SHOW tcp_keepalives_idle")).scalar() == "30"
        else:
            assert connection.execute(text("SELECT @@sql_mode")).scalar() == "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION"
            assert connection.execute(text("SELECT @@wait_timeout")).scalar() == 600


def test_a_session_that_does_not_take_a_setting_is_refused_with_its_name() -> None:
    with pytest.raises(
        UnfitServerError, match=r"a session of somewhere has timezone = 'CET' although Penstock set it to 'UTC'"
    ):
        require_kept("somewhere", [("datestyle", "ISO, MDY", "ISO, MDY"), ("timezone", "UTC", "CET")])

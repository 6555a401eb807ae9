"""A chain whose sink is Snowflake's stand-in."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import snowflake.connector

from penstock.wiring.health import find_problems

if TYPE_CHECKING:
    from tests.servers.chain import Chain

    from penstock.dev.snowflake import SnowflakeServer

_RUN_SECONDS = 30.0
os.environ["SNOWFLAKE_PASSWORD"] = "unused: the stand-in takes any"


def lead_to_snowflake(chain: Chain, server: SnowflakeServer, more: str = "") -> Landed:
    """Give the chain a sink on the stand-in; `more` are further settings of it."""
    sink = (
        f"{{name: wh, kind: snowflake, account: {server.account}, user: {server.user}, "
        f"password_env: SNOWFLAKE_PASSWORD, database: DB_{chain.name.upper()}, warehouse: WH, "
        f"host: {server.host}, port: {server.port}, protocol: http{more}}}"
    )
    begin, _, rest = chain.file.read_text().partition("{name: wh, kind: duckdb, path: ")
    chain.file.write_text(f"{begin}{sink}{rest.partition('}')[2]}")
    return Landed(chain, server)


def tell_problems(landed: Landed) -> list[str]:
    """What `penstock status` says of the zone."""
    return [
        problem.text
        for problem in find_problems(landed.chain.status(), "shop.yaml")
        if problem.subject.startswith(f"{landed.link}, ")
    ]


def connect(server: SnowflakeServer, database: str) -> snowflake.connector.SnowflakeConnection:
    """Open a session in a database of the stand-in."""
    return snowflake.connector.connect(
        account=server.account,
        user=server.user,
        password=server.password,
        host=server.host,
        port=server.port,
        protocol="http",
        database=database.upper(),
        login_timeout=30,
        network_timeout=60,
    )


def ask(connection: snowflake.connector.SnowflakeConnection, statement: str) -> list[tuple[object, ...]]:
    """Run a statement; what it returns."""
    cursor = connection.cursor()
    cursor.execute(statement)
    return [tuple(row) for row in cursor.fetchall()]


def merge(connection: snowflake.connector.SnowflakeConnection) -> None:
    """Run every task of a landing zone once, and wait until no stream has anything."""
    query = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'landing'"
    names = [str(row[0]) for row in ask(connection, query)]
    tables = [name for name in names if not name.endswith(("/stream", "/task"))]
    for name in tables:
        ask(connection, f'EXECUTE TASK "landing"."{name}/task"')
    end = time.monotonic() + _RUN_SECONDS
    for name in tables:
        while ask(connection, f'SELECT SYSTEM$STREAM_HAS_DATA(\'"landing"."{name}/stream"\')') == [(True,)]:
            assert time.monotonic() < end, ask(connection, "SELECT * FROM TABLE(INFORMATION_SCHEMA.TASK_HISTORY())")
            time.sleep(0.1)


class Landed:
    """A chain whose sink is a landing zone."""

    def __init__(self, chain: Chain, server: SnowflakeServer) -> None:
        self.chain = chain
        # DuckDB, behind the stand-in, takes a schema with its database's name for that.
        self.connection = connect(server, f"DB_{chain.name}")

    def close(self) -> None:
        self.connection.close()

    def ask(self, statement: str) -> list[tuple[object, ...]]:
        return ask(self.connection, statement)

    def source(self, table: str) -> list[tuple[object, ...]]:
        with self.chain.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {table} ORDER BY id")
            return list(cursor.fetchall())

    def public(self, table: str) -> list[tuple[object, ...]]:
        return self.ask(f'SELECT * FROM "{self.chain.name}"."{table}" ORDER BY "id"')

    def messages(self, table: str) -> list[tuple[object, ...]]:
        query = f'SELECT "message", "partition", "offset" FROM "landing"."{self.chain.name}.{table}"'
        return self.ask(f'{query} ORDER BY "position", "offset"')

    def folded(self, table: str) -> set[str]:
        """The keys that are left when the messages are done one after the other."""
        keys: set[str] = set()
        for text, *_ in self.messages(table):
            message = json.loads(str(text))
            if message["op"] in {"truncate", "create"}:
                keys.clear()
            elif message["op"] == "d":
                keys.discard(message["row"]["id"])
            elif message["op"] in {"c", "r", "u"}:
                keys.add(message["row"]["id"])
        return keys

    def merge(self) -> None:
        """Run every task once, and wait until no stream has anything."""
        merge(self.connection)

    @property
    def link(self) -> str:
        return self.chain.spec.links[0].name

    def until_it_ran(self, state: str) -> None:
        """Wait until the newest run of a task has ended in `state`."""
        end = time.monotonic() + _RUN_SECONDS
        query = (
            f"SELECT state FROM TABLE(INFORMATION_SCHEMA.TASK_HISTORY()) WHERE database_name = 'DB_{self.chain.name}'"
        )
        while self.ask(query.upper())[:1] != [(state,)]:
            assert time.monotonic() < end
            time.sleep(0.1)

    def agrees(self, table: str) -> None:
        rows = self.source(table)
        assert self.folded(table) == {str(row[0]) for row in rows}
        assert self.public(table) == rows

"""PostgreSQL to a landing zone in Snowflake's stand-in: in this process, and by `penstock run` on Spark with a kill -9.

At the end the source's rows are those of the landing tables, folded by key, and those of the public tables.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Self

import pytest
import snowflake.connector
from tests.servers.pipeline.killing import kill_everything

from penstock.core.snapshots import SnapshotOptions
from penstock.dev.postgres import PASSWORD
from penstock.wiring.pipeline_status import read_status
from penstock.wiring.snapshots import ask_for_snapshots
from penstock.wiring.tether import tethered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from tests.servers.postgres_chain import PostgresChain

    from penstock.dev.snowflake import SnowflakeServer

os.environ["SNOWFLAKE_PASSWORD"] = "unused: the stand-in takes any"

_TABLES = 20
_LATE_TABLES = 4
_WAIT_SECONDS = 200.0
_MERGE_SECONDS = 60.0
_COLUMNS = "id INT PRIMARY KEY, note TEXT, price NUMERIC(12, 2), at TIMESTAMPTZ, tags JSONB, raw BYTEA"


class Writer:
    """Changes every table at random while a `with` block lasts, and makes new ones."""

    def __init__(self, chain: PostgresChain, tables: list[str]) -> None:
        self._chain = chain
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._random = random.Random(20)  # noqa: S311 - no secrets
        self.tables = tables
        self.commits = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join(30)
        assert not self._thread.is_alive()

    def await_commits(self, more: int) -> None:
        """Wait until so many more transactions are committed."""
        wanted = self.commits + more
        await_that(lambda: self.commits >= wanted)

    def add_table(self) -> None:
        """Make a table that the pipeline has not seen yet."""
        name = f"late{len(self.tables)}"
        self._chain.write(f"CREATE TABLE {name} ({_COLUMNS})")
        self.tables.append(name)

    def _write(self) -> None:
        with closing(self._chain.connect()) as connection:
            while not self._stopping.wait(0.005):
                with connection.transaction():
                    for _ in range(self._random.randint(1, 3)):
                        connection.execute(self._change().encode())
                self.commits += 1

    def _change(self) -> str:
        table, row = self._random.choice(self.tables), self._random.randint(1, 60)
        kind = self._random.randint(0, 9)
        if kind == 0:
            return f"DELETE FROM {table} WHERE id = {row}"
        if kind == 1:
            return f"UPDATE {table} SET price = price * 2, at = clock_timestamp() WHERE id = {row} AND price < 1000000"
        if kind == 2:
            return f"UPDATE {table} SET note = repeat('{self.commits} ', 1000) WHERE id = {row}"
        if kind == 3:
            taken = f"SELECT 1 FROM {table} WHERE id = {row + 1000}"
            small = "(note IS NULL OR length(note) < 100)"
            return f"UPDATE {table} SET id = id + 1000 WHERE id = {row} AND {small} AND NOT EXISTS ({taken})"
        values = f"{row}, 'note {self.commits} \U0001f600', {kind}.25, clock_timestamp(), '[{kind}]', '\\x00ff'"
        change = f"note = excluded.note, price = {table}.price + 1, at = NULL"
        return f"INSERT INTO {table} VALUES ({values}) ON CONFLICT (id) DO UPDATE SET {change}"


class Zone:
    """What Snowflake has of a chain."""

    def __init__(self, chain: PostgresChain, connection: snowflake.connector.SnowflakeConnection) -> None:
        self.chain = chain
        self._connection = connection

    def ask(self, statement: str) -> list[tuple[object, ...]]:
        cursor = self._connection.cursor()
        cursor.execute(statement)
        return [tuple(row) for row in cursor.fetchall()]

    def stopped(self) -> dict[str, str]:
        """The tables that wait in front of the zone, and why."""
        return {each.table: each.error for each in read_status(self.chain.spec).tables if each.error}

    def landed(self) -> int:
        """How many messages there are."""
        names = self._tables()
        return sum(int(str(self.ask(f'SELECT COUNT(*) FROM "landing"."{name}"')[0][0])) for name in names)

    def merge(self) -> None:
        """Wait until tasks have merged everything, and ask each to run now."""
        for name in self._tables():
            self.ask(f'EXECUTE TASK "landing"."{name}/task"')
        for name in self._tables():
            await_that(
                lambda stream=f'"landing"."{name}/stream"': (  # type: ignore[misc]
                    self.ask(f"SELECT SYSTEM$STREAM_HAS_DATA('{stream}')") == [(False,)]
                ),
                _MERGE_SECONDS,
            )

    def assert_equal(self, table: str) -> None:
        """The source's rows are those of the messages, folded by key, and those of the public table."""
        rows = self.chain.source_rows(
            f"SELECT id, note, price, raw, extract(epoch FROM at) * 1000000 FROM {table} ORDER BY id"
        )
        # fakesnow answers 1970 for a timestamp that is NULL.
        instant = 'DATE_PART(EPOCH_MICROSECOND, "at")'
        public = self.ask(f'SELECT "id", "note", "price", "raw", {instant} FROM "public"."{table}" ORDER BY "id"')
        folded, places = self._folded(table)
        assert [row[0] for row in public] == [row[0] for row in rows]
        assert [_plain(row) for row in public] == [_plain(row) for row in rows]
        assert folded == {str(row[0]): (row[1], str(row[2])) for row in rows}
        assert len(places) == len(set(places))

    def _folded(self, table: str) -> tuple[dict[str, tuple[object, ...]], list[tuple[object, ...]]]:
        """What is left of the messages when they are done one after the other; and where each stands in Kafka."""
        query = f'SELECT "message", "topic", "partition", "offset" FROM "landing"."public.{table}"'
        found = self.ask(f'{query} ORDER BY "position", "offset"')
        kept: dict[str, dict[str, object]] = {}
        for text, *_ in found:
            message = json.loads(str(text))
            row = message.get("row")
            if row is None:
                kept.clear()
            elif message["op"] == "d":
                kept.pop(row["id"], None)
            else:
                kept[row["id"]] = {**kept.get(row["id"], {}), **row}
        values: dict[str, tuple[object, ...]] = {key: (row["note"], row["price"]) for key, row in kept.items()}
        return values, [tuple(place) for _, *place in found if place[-1] is not None]

    def _tables(self) -> list[str]:
        query = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'landing'"
        names = [str(row[0]) for row in self.ask(query)]
        return [name for name in names if not name.endswith(("/stream", "/task"))]


def _plain(row: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(bytes(value) if isinstance(value, bytearray | memoryview) else value for value in row)


@pytest.fixture
def zone(
    make_postgres: Callable[..., PostgresChain], snowflake: SnowflakeServer, request: pytest.FixtureRequest
) -> Iterator[Zone]:
    """A pipeline from an empty database of PostgreSQL, by topics of Avro, or in the format that is the parameter."""
    chain = make_postgres(more=f"    format: {getattr(request, 'param', 'avro')}")
    database = f"DB_{chain.name}".upper()
    sink = (
        f"{{name: wh, kind: snowflake, account: {snowflake.account}, user: {snowflake.user}, "
        f"password_env: SNOWFLAKE_PASSWORD, database: {database}, warehouse: WH, schedule: 10 SECONDS, "
        f"host: {snowflake.host}, port: {snowflake.port}, protocol: http}}"
    )
    text = chain.file.read_text()
    chain.file.write_text(text.replace(f"{{name: wh, kind: duckdb, path: {chain.spec.home}/wh.duckdb}}", sink))
    connection = _log_in(snowflake, database)
    with closing(connection):
        yield Zone(chain, connection)


def _log_in(server: SnowflakeServer, database: str) -> snowflake.connector.SnowflakeConnection:
    return snowflake.connector.connect(
        account=server.account,
        user=server.user,
        password=server.password,
        host=server.host,
        port=server.port,
        protocol="http",
        database=database,
        login_timeout=30,
        network_timeout=60,
    )


def make_tables(chain: PostgresChain, count: int) -> list[str]:
    """Make tables with two rows; PostgreSQL keeps the first one's note outside of the row, as all its large values."""
    tables = [f"t{number}" for number in range(count)]
    values = "1.50, '2024-02-29 23:59:59.000001+00', '{\"a\": [1]}', '\\x00ff'"
    for table in tables:
        chain.write(
            f"CREATE TABLE {table} ({_COLUMNS})",
            f"ALTER TABLE {table} ALTER note SET STORAGE EXTERNAL",
            f"INSERT INTO {table} VALUES (1, repeat('large', 1000), {values}), (2, 'small', {values})",
        )
    return tables


@pytest.mark.parametrize("zone", ["avro", pytest.param("json", marks=pytest.mark.nightly)], indirect=True)
def test_tables_of_postgres_land_and_are_merged_and_new_ones_come_by_themselves(zone: Zone) -> None:
    chain = zone.chain
    tables = make_tables(chain, 3)
    chain.carry()
    zone.merge()
    chain.write(
        "UPDATE t0 SET price = -1 WHERE id = 1",
        "DELETE FROM t0 WHERE id = 2",
        "UPDATE t1 SET id = 9 WHERE id = 2",
        "UPDATE t2 SET note = repeat('larger', 1000) WHERE id = 1",
        "UPDATE t2 SET price = price + 1 WHERE id = 1",
        "UPDATE t2 SET note = NULL WHERE id = 2",
        f"CREATE TABLE late ({_COLUMNS})",
        "INSERT INTO late (id, note, price) VALUES (1, 'late', 0), (2, 'gone', 0)",
        "DELETE FROM late WHERE id = 2",
    )

    chain.carry()
    zone.merge()

    for table in (*tables, "late"):
        zone.assert_equal(table)


@pytest.mark.nightly
def test_a_filter_takes_tables_that_log_whole_rows_and_one_that_does_not_goes_on_when_its_hint_is_followed(
    zone: Zone,
) -> None:
    chain = zone.chain
    rule = """schedule: 10 SECONDS, tables: [{match: ["public.*"], where: '"note" <> \'\'small\'\''}]"""
    chain.file.write_text(chain.file.read_text().replace("schedule: 10 SECONDS", rule))
    make_tables(chain, 2)
    chain.write("ALTER TABLE t0 REPLICA IDENTITY FULL")
    chain.carry()
    for table in ("t0", "t1"):
        # The first row's note is large, and stays as it was.
        chain.write(f"UPDATE {table} SET price = -1", f"INSERT INTO {table} (id, note) VALUES (3, 'other')")
    chain.carry()
    ids = 'SELECT "id" FROM "public"."{}" ORDER BY 1'

    told = zone.stopped()
    assert list(told) == ["public.t1"]
    assert "came without its value" in told["public.t1"]
    zone.merge()
    assert zone.ask(ids.format("t0")) == [(1,), (3,)]
    assert zone.ask('SELECT "price" FROM "public"."t0" WHERE "id" = 1') == [(-1,)]

    chain.write("ALTER TABLE t1 REPLICA IDENTITY FULL")
    ask_for_snapshots(chain.spec, ["public.t1"], SnapshotOptions(full_refresh=True))
    chain.carry()
    chain.write("UPDATE t1 SET price = -2")
    chain.carry()
    zone.merge()
    assert zone.stopped() == {}
    assert zone.ask(ids.format("t1")) == [(1,), (3,)]
    assert zone.ask('SELECT "price" FROM "public"."t1" WHERE "id" = 1') == [(-2,)]

    chain.write("ALTER TABLE t0 REPLICA IDENTITY DEFAULT", "UPDATE t0 SET price = -3")
    chain.carry()
    assert list(zone.stopped()) == ["public.t0"]
    zone.merge()
    assert zone.ask('SELECT "price" FROM "public"."t0" WHERE "id" = 1') == [(-1,)]


@pytest.mark.nightly
@pytest.mark.timeout(590)
@pytest.mark.parametrize("zone", ["avro", "json"], indirect=True)
def test_tables_of_postgres_land_once_and_are_merged_behind_a_kill_9_of_the_run(zone: Zone) -> None:
    chain = zone.chain
    with Writer(chain, make_tables(chain, _TABLES)) as writer:
        with running(chain) as run:
            await_that(lambda: zone.landed() > 2 * _TABLES)
            for _ in range(_LATE_TABLES // 2):
                writer.add_table()
            before = zone.landed()
            await_that(lambda: zone.landed() > before)
            writer.await_commits(50)
            kill_everything(run, chain.spec.home)
        writer.await_commits(50)
        before = zone.landed()
        with running(chain) as run:
            await_that(lambda: zone.landed() > before)
            for _ in range(_LATE_TABLES // 2):
                writer.add_table()
            writer.await_commits(50)
            kill_everything(run, chain.spec.home)
    with running(chain, "--once") as run:
        assert run.wait(_WAIT_SECONDS) == 0, chain.file.with_name("run.log").read_text()[-4000:]
    zone.merge()

    assert len(writer.tables) == _TABLES + _LATE_TABLES
    for table in writer.tables:
        zone.assert_equal(table)


@contextmanager
def running(chain: PostgresChain, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """`penstock run`, which is over at the end of the block, with everything that it has started."""
    with chain.file.with_name("run.log").open("ab") as log:
        process = subprocess.Popen(
            tethered([sys.executable, "-m", "penstock", "run", str(chain.file), *options]),
            stdout=log,
            stderr=log,
            env={**os.environ, "POSTGRES_CHAIN_PASSWORD": PASSWORD},
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            kill_everything(process, chain.spec.home)


def await_that(condition: Callable[[], bool], seconds: float = _WAIT_SECONDS) -> None:
    """Wait until `condition` holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)

"""A pipeline into Snowflake's stand-in: what landed, folded by key, is what the source has, and so are the tables."""

from __future__ import annotations

import json
import os
import time
from contextlib import closing
from itertools import count
from typing import TYPE_CHECKING

import pytest
import snowflake.connector
from tests.servers.chain import Chain, make_chain
from tests.servers.cut_warehouse import CutError

from penstock.adapters.snowflake.connection import SnowflakeDatabase
from penstock.core.errors import UsageError
from penstock.links.warehouse.landing_sink import LandingSink
from penstock.wiring.health import find_problems
from penstock.wiring.landing_plans import apply_zones, plan_zones, rebuild_table
from penstock.wiring.warehouses import open_sink

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from penstock.dev.snowflake import SnowflakeServer
    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer
    from penstock.ports.warehouse import Value

_RUN_SECONDS = 30.0
os.environ["SNOWFLAKE_PASSWORD"] = "unused: the stand-in takes any"


class Landed:
    """A chain whose sink is a landing zone."""

    def __init__(self, chain: Chain, server: SnowflakeServer) -> None:
        self.chain = chain
        # DuckDB, behind the stand-in, takes a schema with its database's name for that.
        self.connection = snowflake.connector.connect(
            account=server.account,
            user=server.user,
            password=server.password,
            host=server.host,
            port=server.port,
            protocol="http",
            database=f"DB_{chain.name}".upper(),
            login_timeout=30,
            network_timeout=60,
        )

    def ask(self, statement: str) -> list[tuple[object, ...]]:
        cursor = self.connection.cursor()
        cursor.execute(statement)
        return [tuple(row) for row in cursor.fetchall()]

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
        query = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'landing'"
        names = [str(row[0]) for row in self.ask(query)]
        tables = [name for name in names if not name.endswith(("/stream", "/task"))]
        for name in tables:
            self.ask(f'EXECUTE TASK "landing"."{name}/task"')
        end = time.monotonic() + _RUN_SECONDS
        for name in tables:
            while self.ask(f'SELECT SYSTEM$STREAM_HAS_DATA(\'"landing"."{name}/stream"\')') == [(True,)]:
                assert time.monotonic() < end, self.ask("SELECT * FROM TABLE(INFORMATION_SCHEMA.TASK_HISTORY())")
                time.sleep(0.1)

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


@pytest.fixture
def landed(
    snowflake: SnowflakeServer,
    tmp_path: Path,
    mariadb: MariadbServer,
    fresh_database: str,
    chain_parts: tuple[KafkaBroker, str, int],
) -> Iterator[Landed]:
    chain = make_chain(tmp_path, fresh_database, mariadb, chain_parts)
    server = snowflake
    sink = (
        f"{{name: wh, kind: snowflake, account: {server.account}, user: {server.user}, "
        f"password_env: SNOWFLAKE_PASSWORD, database: DB_{chain.name.upper()}, warehouse: WH, "
        f"host: {server.host}, port: {server.port}, protocol: http}}"
    )
    text = chain.file.read_text()
    chain.file.write_text(text.replace(f"{{name: wh, kind: duckdb, path: {tmp_path / chain.name}/wh.duckdb}}", sink))
    assert sink in chain.file.read_text()
    there = Landed(chain, server)
    with closing(there.connection):
        yield there


_COLUMNS = "id INT PRIMARY KEY, note VARCHAR(40), price DECIMAL(10,2), at DATETIME(6), bytes VARBINARY(8)"
_ROW = "'it''s \\\\ \U0001f600', 12.50, '2024-02-29 23:59:59.000001', x'00ff'"


def test_tables_follow_the_source_and_new_ones_and_new_columns_come_by_themselves(landed: Landed) -> None:
    chain = landed.chain
    tables = [f"t{number}" for number in range(4)]
    for table in tables:
        chain.write(f"CREATE TABLE {table} ({_COLUMNS})", f"INSERT INTO {table} VALUES (1, {_ROW}), (2, {_ROW})")
    chain.start()
    chain.carry()
    landed.merge()
    for table in tables:
        landed.agrees(table)

    chain.write(
        "UPDATE t0 SET note = NULL, price = -1 WHERE id = 1",
        "DELETE FROM t0 WHERE id = 2",
        "UPDATE t1 SET id = 9 WHERE id = 1",
        "ALTER TABLE t2 ADD COLUMN more INT NOT NULL DEFAULT 7",
        f"INSERT INTO t2 VALUES (3, {_ROW}, 8)",
        "TRUNCATE TABLE t3",
        f"INSERT INTO t3 VALUES (5, {_ROW})",
        f"CREATE TABLE late ({_COLUMNS})",
        f"INSERT INTO late VALUES (1, {_ROW}), (2, {_ROW})",
        "DELETE FROM late WHERE id = 1",
    )
    chain.carry()
    landed.merge()

    for table in [*tables, "late"]:
        landed.agrees(table)


def test_messages_that_are_loaded_again_land_once(landed: Landed) -> None:
    chain = landed.chain
    chain.write(f"CREATE TABLE t0 ({_COLUMNS})", f"INSERT INTO t0 VALUES (1, {_ROW}), (2, {_ROW})")
    chain.start()
    chain.carry()
    before = landed.messages("t0")
    # As if the process had ended before it could say that all batches are loaded.
    landed.ask('UPDATE "penstock"."batches" SET "next_batch_offset" = 0')
    landed.connection.commit()

    chain.write("UPDATE t0 SET price = 3 WHERE id = 2")
    chain.carry()
    landed.merge()

    after = landed.messages("t0")
    assert after[: len(before)] == before
    assert len(after) == len(before) + 1
    landed.agrees("t0")


def test_a_load_goes_on_behind_one_that_was_killed_within_its_transaction(landed: Landed) -> None:
    chain = landed.chain
    chain.write(f"CREATE TABLE t0 ({_COLUMNS})", f"INSERT INTO t0 VALUES (1, {_ROW})")
    chain.start()
    chain.carry()
    chain.write(f"INSERT INTO t0 VALUES (2, {_ROW})")
    killed = open_sink(chain.spec, chain.spec.links[0])
    assert isinstance(killed, LandingSink)
    left_open = killed._database.transaction(killed._name)
    left_open.__enter__()
    killed._database.run('DELETE FROM "penstock"."positions"')

    chain.carry()
    landed.merge()

    landed.agrees("t0")
    killed.close()


def test_a_table_that_is_dropped_and_made_anew_begins_again(landed: Landed) -> None:
    chain = landed.chain
    chain.write(f"CREATE TABLE t0 ({_COLUMNS})", f"INSERT INTO t0 VALUES (1, {_ROW}), (2, {_ROW})")
    chain.start()
    chain.carry()
    chain.write("DROP TABLE t0")
    chain.carry()
    assert landed.public("t0") != []

    chain.write("CREATE TABLE t0 (id INT PRIMARY KEY, other INT)", "INSERT INTO t0 VALUES (2, 3)")
    chain.carry()
    landed.merge()

    landed.agrees("t0")


def test_what_is_applied_ahead_of_the_first_rows_and_again_behind_them_changes_nothing(landed: Landed) -> None:
    chain = landed.chain
    chain.write(f"CREATE TABLE t0 ({_COLUMNS})", f"INSERT INTO t0 VALUES (1, {_ROW})")
    chain.start()
    planned = [plan.statements for plan in plan_zones(chain.spec)]

    assert [plan.statements for plan in apply_zones(chain.spec)] == planned
    chain.write("ALTER TABLE t0 DROP COLUMN note")
    chain.carry()
    assert [plan.error for plan in apply_zones(chain.spec)] == [""]
    landed.merge()

    landed.agrees("t0")


def test_a_table_of_somebody_else_and_one_without_a_key_stop_alone(landed: Landed) -> None:
    chain = landed.chain
    landed.ask(f'CREATE SCHEMA "{chain.name}"')
    landed.ask(f'CREATE TABLE "{chain.name}"."theirs" ("id" NUMBER(38, 0))')
    chain.write("CREATE TABLE bare (x INT)", "INSERT INTO bare VALUES (1)")
    for table in ("theirs", "t0"):
        chain.write(f"CREATE TABLE {table} ({_COLUMNS})", f"INSERT INTO {table} VALUES (1, {_ROW})")
    chain.start()

    chain.carry()
    landed.merge()

    landed.agrees("t0")
    assert landed.public("theirs") == []


def problems(landed: Landed) -> list[str]:
    """What `penstock status` says of the zone."""
    status = landed.chain.status()
    return [problem.text for problem in find_problems(status, "run") if problem.subject.startswith(f"{landed.link}, ")]


def test_readers_get_grants_and_who_else_may_write_to_a_landing_table_is_told(landed: Landed) -> None:
    chain = landed.chain
    chain.file.write_text(chain.file.read_text().replace("warehouse: WH", "warehouse: WH, readers: [ANALYST]"))
    chain.write(f"CREATE TABLE t0 ({_COLUMNS})", f"INSERT INTO t0 VALUES (1, {_ROW})")
    chain.start()
    chain.carry()
    query = "SELECT table_schema, grantee, privilege_type FROM information_schema.table_privileges ORDER BY 1"
    assert landed.ask(query) == [(chain.name, "ANALYST", "SELECT"), ("landing", "ANALYST", "SELECT")]
    assert problems(landed) == []

    landed.ask(f'GRANT INSERT ON TABLE "landing"."{chain.name}.t0" TO ROLE loader')

    assert [text.startswith("the role LOADER has INSERT") for text in problems(landed)] == [True]


@pytest.mark.nightly
def test_a_task_that_fails_is_told_with_its_error_and_goes_on_once_that_is_mended(landed: Landed) -> None:
    chain = landed.chain
    chain.write(f"CREATE TABLE t0 ({_COLUMNS})", f"INSERT INTO t0 VALUES (1, {_ROW}), (2, {_ROW})")
    chain.start()
    chain.carry()
    assert problems(landed) == []

    landed.ask(f'ALTER TABLE "{chain.name}"."t0" RENAME COLUMN "note" TO "theirs"')
    landed.ask(f'EXECUTE TASK "landing"."{chain.name}.t0/task"')
    landed.until_it_ran("FAILED")

    (failed,) = problems(landed)
    assert failed.startswith("the last run of its task failed: ")
    assert "note" in failed
    landed.ask(f'ALTER TABLE "{chain.name}"."t0" RENAME COLUMN "theirs" TO "note"')
    landed.ask(f'ALTER TASK "landing"."{chain.name}.t0/task" SUSPEND')
    (suspended,) = problems(landed)
    assert suspended.startswith("its task is suspended after its last run failed")
    list(apply_zones(chain.spec))
    landed.merge()
    assert problems(landed) == []
    landed.agrees("t0")


def test_a_stale_stream_is_told_and_is_rebuilt_without_loss_and_without_rows_that_are_gone(landed: Landed) -> None:
    chain = landed.chain
    chain.write(f"CREATE TABLE t0 ({_COLUMNS})", f"INSERT INTO t0 VALUES (1, {_ROW}), (2, {_ROW})")
    chain.start()
    chain.carry()
    landed.merge()
    chain.write("TRUNCATE TABLE t0", f"INSERT INTO t0 VALUES (3, {_ROW}), (4, {_ROW}), (5, {_ROW})")
    chain.write("DELETE FROM t0 WHERE id = 4", "ALTER TABLE t0 DROP COLUMN note", "DELETE FROM t0 WHERE id = 5")
    chain.carry()
    landed.ask(f'ALTER TABLE "landing"."{chain.name}.t0" SET MAX_DATA_EXTENSION_TIME_IN_DAYS = 0')
    (stale,) = problems(landed)
    assert stale.startswith("its stream is stale")
    assert f"{chain.name}.t0" in {plan.table for plan in plan_zones(chain.spec) if plan.error == stale}

    (rebuilt,) = rebuild_table(chain.spec, f"{chain.name}.t0")
    landed.merge()

    assert rebuilt.statements[0].startswith("CREATE OR REPLACE STREAM")
    assert problems(landed) == []
    landed.agrees("t0")
    with pytest.raises(UsageError, match="has a table t9"):
        list(rebuild_table(chain.spec, "t9"))


@pytest.mark.nightly
def test_a_load_that_ends_before_any_of_its_statements_goes_on_and_lands_nothing_twice(
    landed: Landed, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = landed.chain
    chain.write(f"CREATE TABLE t0 ({_COLUMNS})", f"INSERT INTO t0 VALUES (1, {_ROW}), (2, {_ROW})")
    chain.start()
    cuts = load_with_cuts(chain, monkeypatch)
    chain.write(
        "UPDATE t0 SET price = 3 WHERE id = 2",
        "ALTER TABLE t0 ADD COLUMN more INT NOT NULL DEFAULT 7",
        "UPDATE t0 SET more = 6 WHERE id = 1",
        "ALTER TABLE t0 DROP COLUMN note",
        "INSERT INTO t0 (id, more) VALUES (3, 8)",
        "TRUNCATE TABLE t0",
        # fakesnow answers 1970 for a timestamp that is NULL, so this has one.
        "INSERT INTO t0 VALUES (4, 1.50, '2024-01-01', x'01', 9)",
    )
    cuts += load_with_cuts(chain, monkeypatch)
    landed.merge()

    landed.agrees("t0")
    places = [message[1:] for message in landed.messages("t0")]
    assert len(places) == len(set(places)) == 7
    assert cuts > 30


def load_with_cuts(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> int:
    """Load what there is, cut before the first statement, then before the second and so on, until nothing is left."""
    chain.capture()
    chain.write_objects()
    run, left = SnowflakeDatabase.run, [0]

    def cut(self: SnowflakeDatabase, statement: str, values: Sequence[Value] = ()) -> None:
        left[0] -= 1
        if left[0] < 0 and statement != "ROLLBACK":
            raise CutError(statement, "run again")
        run(self, statement, values)

    for statements in count():
        left[0] = statements
        with monkeypatch.context() as patch:
            patch.setattr(SnowflakeDatabase, "run", cut)
            try:
                chain.load()
            except CutError:
                continue
        return statements
    raise AssertionError

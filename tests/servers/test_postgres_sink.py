"""PostgreSQL as a target: what is special about it. What all kinds have in common is in test_sink_contract."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg
import pyarrow as pa
import pytest
from tests.servers.certificates import Authority, authority
from tests.servers.sink_case import FIRST, SCHEMAS, TABLE, TOPIC, WIDER, Place, PostgresTarget, rows_in, schema_change
from tests.servers.test_state_databases import fill_up, mounted_disk

from penstock.adapters.postgres.connection import PostgresServer, connect
from penstock.adapters.postgres.preflight import examine_database
from penstock.adapters.postgres.query import query
from penstock.core.errors import (
    SinkError,
    TableStoppedError,
    TableWaitsError,
    UnavailableError,
    UnfitServerError,
    UsageError,
)
from penstock.core.files import file_schema, render_file
from penstock.core.tables import Column, IntegerType, TableId, TableSchema, TextType
from penstock.dev.postgres import start_postgres
from penstock.ports.queries import ReadLimits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.core.batches import Batch
    from penstock.dev.postgres import PostgresServer as RunningPostgres

LIMITS = ReadLimits(rows_max=3, seconds_max=1.0)


pytestmark = pytest.mark.parametrize("place", ["postgres"], indirect=True)


@pytest.fixture
def server(place: Place) -> PostgresServer:
    assert isinstance(place.target, PostgresTarget)
    return place.target.server


@pytest.fixture
def stranger(server: PostgresServer, place: Place) -> Iterator[PostgresServer]:
    """A user without rights."""
    name = f"stranger_{server.database}"
    place.do(f"CREATE ROLE {name} LOGIN PASSWORD 'secret of a stranger'")
    yield replace(server, user=name, password="secret of a stranger")
    place.do(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


@pytest.fixture
def small_disk(place: Place, server: PostgresServer, postgres: RunningPostgres) -> Iterator[Path]:
    """A file system of 32 MiB, on which the target's tables are made; skips where we may not mount one."""
    name, owner = f"small_{server.database}", (postgres.home / "data").stat()
    options = f"size=32m,mode=700,uid={owner.st_uid},gid={owner.st_gid}"
    with mounted_disk(postgres.home / f"disk_{server.database}", options) as disk:
        place.do(
            f"CREATE TABLESPACE {name} LOCATION '{disk}'",
            *(
                f"ALTER DATABASE {server.database} SET {setting} = {name}"
                for setting in ("default_tablespace", "temp_tablespaces")
            ),
        )
        yield disk
        for sink in place.opened:
            sink.close()
        place.do("DROP SCHEMA shop CASCADE", "DROP SCHEMA penstock CASCADE", f"DROP TABLESPACE {name}")


def test_a_full_disk_leaves_everything_as_it_was_and_the_next_try_succeeds(place: Place, small_disk: Path) -> None:
    sink = place.open()
    sink.load(TABLE, [texts(place, ["there"])], SCHEMAS)
    many = replace(texts(place, [f"{number:030}" for number in range(100_000)]), topic="t.2")
    filler = small_disk / "filler"
    with pytest.raises(OSError, match="No space left"):
        fill_up(filler)

    for _ in range(2):
        with pytest.raises(TableWaitsError, match="has a full disk") as caught:
            sink.load(TABLE, [many], SCHEMAS)
    before = rows_in(sink), sink.positions(TABLE)
    filler.unlink()
    loaded = sink.load(TABLE, [many], SCHEMAS)

    assert "free some space there: it goes on by itself" in caught.value.hint
    assert before == ([("there", 1)], {(TOPIC, 0): 1})
    assert loaded.rows == 100_000
    assert place.ask("SELECT count(*) FROM shop.orders") == [(100_001,)]


def texts(place: Place, values: list[str]) -> Batch:
    """A file of FIRST's shape whose keys are these texts."""
    layout = file_schema(FIRST)
    rows = [dict(zip(layout.names, [value, 1, "c", n], strict=True)) for n, value in enumerate(values)]
    place.objects.put("texts", render_file(FIRST, pa.Table.from_pylist(rows, layout)))
    return replace(schema_change(1), end_offset=len(values), rows=len(values), path="texts")


def test_a_text_with_nul_stops_its_table_and_the_change_is_named(place: Place) -> None:
    sink = place.open()

    with pytest.raises(
        TableStoppedError, match=r"orders\.id .* cannot hold 'not.x00fine' \(its texts have no .* offset 1"
    ):
        sink.load(TABLE, [texts(place, ["fine", "not\x00fine"])], SCHEMAS)

    assert place.tables() == []
    assert sink.positions(TABLE) == {}


def test_a_key_is_indexed_and_one_that_is_too_long_for_that_is_not(place: Place) -> None:
    long = replace(FIRST, columns=(Column("id", TextType(768, "utf8mb4"), nullable=False), *FIRST.columns[1:]))
    other = replace(long, table=TableId("shop", "long"))
    sink = place.open()

    sink.load(TABLE, [place.batch(0, [("c", "a", 1)])], SCHEMAS)
    sink.load(other.table, [replace(schema_change(1), table=other.table)], {1: other})

    assert place.ask("SELECT indexdef FROM pg_indexes WHERE schemaname = 'shop'") == [
        ("CREATE INDEX orders_id_idx ON shop.orders USING btree (id)",)
    ]


def test_a_name_that_postgresql_would_cut_is_refused(place: Place) -> None:
    long = replace(FIRST, columns=(*FIRST.columns, Column("é" * 32, TextType(9, "utf8mb4"), nullable=True)))

    with pytest.raises(TableStoppedError, match="longer than the 63 bytes"):
        place.open().load(TABLE, [schema_change(1)], {1: long})


def test_who_may_not_make_schemas_is_told_what_to_grant(stranger: PostgresServer) -> None:
    with pytest.raises(SinkError, match="does not permit it") as refused:
        Place(PostgresTarget(stranger), None).open()  # type: ignore[arg-type]
    with pytest.raises(UnfitServerError, match="no privilege to create schemas") as unfit:
        examine_database(stranger)

    assert "CREATE on the database" in refused.value.hint
    assert f"GRANT CREATE ON DATABASE {stranger.database} TO {stranger.user}" in unfit.value.hint


def test_logins_and_databases_that_do_not_exist_are_refused_without_the_password(server: PostgresServer) -> None:
    for wrong in (replace(server, password="wrong secret"), replace(server, database="nowhere")):
        with pytest.raises(SinkError, match="refused the login") as refused:
            connect(wrong)
        assert "wrong secret" not in str(refused.value)
    with pytest.raises(UnavailableError, match="cannot be reached"):
        connect(replace(server, port=1))


def test_a_table_that_somebody_locked_is_waited_for(place: Place, server: PostgresServer) -> None:
    sink = place.open()
    sink.load(TABLE, [place.batch(0, [("c", "a", 1)])], SCHEMAS)

    with closing(connect(server)) as other:
        other.execute("BEGIN")
        other.execute("LOCK TABLE shop.orders IN EXCLUSIVE MODE")
        release = threading.Timer(0.5, other.rollback)
        release.start()
        sink.load(TABLE, [place.batch(1, [("u", "a", 2)])], SCHEMAS)
        release.join()

    assert rows_in(sink) == [("a", 2)]


def test_a_lock_that_is_not_let_go_leaves_everything_as_it_was(place: Place, server: PostgresServer) -> None:
    sink = place.open()
    sink.load(TABLE, [place.batch(0, [("c", "a", 1)])], SCHEMAS)
    sink._warehouse.run("SET lock_timeout = '200ms'")
    batch = place.batch(1, [("u", "a", 2)])

    with closing(connect(server)) as other, other.transaction():
        other.execute("LOCK TABLE shop.orders IN EXCLUSIVE MODE")
        with pytest.raises(TableWaitsError, match="did not grant a lock"):
            sink.load(TABLE, [batch], SCHEMAS)

    assert sink.positions(TABLE) == {(batch.topic, 0): 1}
    assert sink.load(TABLE, [batch], SCHEMAS).rows == 1


def test_a_view_that_hinders_a_migration_is_named_and_the_next_try_succeeds(place: Place) -> None:
    sink = place.open()
    sink.load(TABLE, [place.batch(0, [("c", "a", 1)])], SCHEMAS)
    place.do("CREATE VIEW shop.report AS SELECT qty FROM shop.orders")

    with pytest.raises(TableStoppedError, match=r"what depends on it: view shop\.report"):
        sink.load(TABLE, [schema_change(2, 1)], {2: WIDER})
    place.do("DROP VIEW shop.report")
    sink.load(TABLE, [schema_change(2, 1)], {2: WIDER})

    assert place.columns()["qty"] == "BIGINT"


def test_a_connection_that_is_cut_in_mid_load_loses_nothing(place: Place, server: PostgresServer) -> None:
    sink = place.open()
    sink.load(TABLE, [place.batch(0, [("c", "a", 1)])], SCHEMAS)
    batch = place.batch(1, [("u", "a", 2)])

    with closing(connect(server)) as other:
        other.execute("BEGIN")
        other.execute("LOCK TABLE shop.orders IN EXCLUSIVE MODE")
        with ThreadPoolExecutor(1) as threads:
            loading = threads.submit(sink.load, TABLE, [batch], SCHEMAS)
            waiting = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            deadline = time.monotonic() + 30
            while not other.execute(waiting).fetchall() and time.monotonic() < deadline:
                time.sleep(0.05)
            with pytest.raises(UnavailableError, match="cannot be reached"):
                loading.result(30)
        other.rollback()

    again = place.open()
    assert (again.positions(TABLE), rows_in(again)) == ({(batch.topic, 0): 1}, [("a", 1)])
    assert again.load(TABLE, [batch], SCHEMAS).rows == 1


def test_a_deadlock_with_another_writer_is_tried_again(place: Place, server: PostgresServer) -> None:
    """Another session takes a row and then, while we wait for that, a table that we have written."""
    sink = place.open()
    sink.load(TABLE, [place.batch(0, [("c", "a", 1)])], SCHEMAS)
    tries: list[int] = []

    def work() -> None:
        tries.append(1)
        sink._warehouse.run("UPDATE penstock.positions SET next_offset = next_offset")
        sink._warehouse.run("UPDATE shop.orders SET qty = qty + 1")

    with closing(connect(server)) as other:
        # It gives up later than we do.
        other.execute("SET deadlock_timeout = '30s'")
        other.execute("BEGIN")
        other.execute("UPDATE shop.orders SET qty = 5")
        with ThreadPoolExecutor(2) as threads:
            ours = threads.submit(sink._warehouse.transact, work)
            while not other.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'").fetchall():
                time.sleep(0.02)
            other.execute("UPDATE penstock.positions SET next_offset = next_offset")
            other.commit()
            ours.result(60)

    assert len(tries) > 1
    assert rows_in(sink) == [("a", 6)]


def test_pipelines_that_begin_at_once_do_not_disturb_each_other(place: Place) -> None:
    with ThreadPoolExecutor(6) as threads:
        sinks = list(threads.map(place.open, [f"source{n}" for n in range(6)]))

    assert [sink.batch_offset() for sink in sinks] == [0] * 6


def test_queries_read_and_do_nothing_else(place: Place, server: PostgresServer) -> None:
    place.open().load(TABLE, [place.batch(0, [("c", str(n), n) for n in range(5)])], SCHEMAS)

    found = query(server, "SELECT id, qty FROM shop.orders WHERE id LIKE '%' ORDER BY id", LIMITS)

    assert (found.rows.to_pylist()[0], found.rows.num_rows, found.truncated) == ({"id": "0", "qty": 0}, 3, True)
    for statement in (
        "DELETE FROM shop.orders",
        "WITH d AS (DELETE FROM shop.orders RETURNING 1) SELECT 1",
        "SELECT 1; COMMIT; DELETE FROM shop.orders",
        "SET default_transaction_read_only = off; DELETE FROM shop.orders",
        "SELEC 1",
        "SELECT nothing",
        "",
    ):
        with pytest.raises(UsageError):
            query(server, statement, LIMITS)
    with pytest.raises(SinkError, match="ended after 1 seconds"):
        query(server, "SELECT pg_sleep(5)", LIMITS)
    assert place.ask("SELECT count(*) FROM shop.orders") == [(5,)]


def test_a_database_that_takes_no_writes_is_unfit(place: Place, server: PostgresServer) -> None:
    assert examine_database(server).startswith("PostgreSQL ")
    place.do(f"ALTER DATABASE {server.database} SET default_transaction_read_only = on")

    with pytest.raises(UnfitServerError, match="takes no writes"):
        examine_database(server)
    with pytest.raises(UnavailableError, match="is read-only"):
        place.open()


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningPostgres, Authority]]:
    signer = authority(tmp_path_factory.mktemp("tls") / "ca")
    cert, key = signer.sign("server", "IP:127.0.0.1")
    with start_postgres(
        tmp_path_factory.mktemp("tls_postgres"), settings={"ssl": "on", "ssl_cert_file": cert, "ssl_key_file": key}
    ) as running:
        yield running, signer


def test_the_server_s_certificate_is_looked_at(
    place: Place, encrypted: tuple[RunningPostgres, Authority], tmp_path: Path
) -> None:
    del place
    running, signer = encrypted
    login = PostgresServer(running.host, running.port, running.database, running.user, running.password, {})
    trusted = {"sslmode": "verify-full", "sslrootcert": signer.ca}

    with closing(connect(replace(login, tls=trusted))) as connection:
        (used,) = connection.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").fetchall()
    other = authority(tmp_path / "other")
    with pytest.raises(UnavailableError, match="certificate verify failed"):
        connect(replace(login, tls=trusted | {"sslrootcert": other.ca}))
    with pytest.raises(UnavailableError, match=r"certificate verify failed|root certificate"):
        connect(replace(login, tls={"sslmode": "verify-full", "sslrootcert": "system"}))

    assert used == (True,)


def test_a_conflict_that_stays_is_told_after_some_tries(place: Place) -> None:
    sink = place.open()
    tries: list[int] = []

    def work() -> None:
        tries.append(1)
        sink._warehouse.run("DO $$ BEGIN RAISE EXCEPTION 'other writer' USING ERRCODE = '40001'; END $$")

    with pytest.raises(SinkError, match="other writer") as refused:
        sink._warehouse.transact(work)

    assert isinstance(refused.value.__cause__, psycopg.errors.SerializationFailure)
    assert len(tries) == 6


def test_keys_are_joined_with_a_table_that_postgresql_knows_and_not_looked_up_one_by_one(place: Place) -> None:
    place.do(
        "CREATE SCHEMA IF NOT EXISTS shop",
        "CREATE TABLE shop.big AS SELECT g AS id, repeat('x', 100) AS filling FROM generate_series(1, 100000) AS g",
        "CREATE INDEX ON shop.big (id)",
        "ANALYZE shop.big",
    )
    keys = TableSchema(
        TableId("shop", "big"), (Column("id", IntegerType(32, unsigned=False), nullable=False),), ("id",)
    )
    rows = pa.table({"id": pa.array(range(1, 60_000, 2), pa.int32())})
    delete = "DELETE FROM shop.big AS t WHERE EXISTS (SELECT 1 FROM {} AS s WHERE s.id = t.id)"

    def plan() -> str:
        with warehouse.staged(keys, rows) as staged:
            return "\n".join(str(line) for (line,) in warehouse.fetch(f"EXPLAIN {delete.format(staged)}"))

    with closing(place.target.connect("pipeline/source")) as warehouse:
        found = warehouse.transact(plan)

    assert "Semi Join" in found
    assert "Nested Loop" not in found


def test_a_statement_that_hangs_ends_after_an_hour(server: PostgresServer) -> None:
    with closing(connect(server)) as connection:
        told = connection.execute("SHOW statement_timeout").fetchone()

    assert told == ("1h",)

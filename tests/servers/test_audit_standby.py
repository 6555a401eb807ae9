"""Audits that read a standby in place of its PostgreSQL primary."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb
import psycopg
import pytest
from tests.servers.postgres_chain import PostgresChain, making_chains

from penstock.adapters.postgres.connection import PostgresServer as Login
from penstock.adapters.postgres.source.audited import AuditedPostgresSource, AwaitedStandby
from penstock.adapters.postgres.source.publication import Publication
from penstock.config.audits import AuditReplicaSpec, AuditSpec
from penstock.core.errors import UnavailableError
from penstock.dev.postgres import find_programs, start_postgres
from penstock.wiring.audit import run_audit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.core.audit.findings import TableFindings
    from penstock.dev.postgres import PostgresServer
    from penstock.embedded.kafka import KafkaBroker

pytestmark = pytest.mark.nightly


@dataclass(frozen=True, slots=True)
class Standing:
    """A pipeline whose source has a standby, and whose target has all of its table `rows`."""

    chain: PostgresChain
    standby: PostgresServer

    def audit(
        self, wait_seconds: float = 20.0, port: int | None = None, seconds_max: int | None = None
    ) -> TableFindings:
        """Audit the table from the standby, or from what listens at `port`."""
        replica = AuditReplicaSpec(host="127.0.0.1", port=port or self.standby.port)
        ends = {"source": self.chain.spec.sources[0].name, "sink": "wh", "replica": replica}
        spec = AuditSpec.model_validate({**ends, "wait_seconds": wait_seconds, "seconds_max": seconds_max})
        (found,) = run_audit(self.chain.spec, spec, lambda _: None).tables
        return found

    def corrupt(self, statement: str) -> None:
        """Change the target behind the pipeline's back."""
        with closing(duckdb.connect(str(self.chain.spec.home / "wh.duckdb"))) as warehouse:
            warehouse.execute(statement)

    def there(self, *statements: str) -> None:
        """Run statements in the standby."""
        with closing(log_in(self.standby)) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def opened(self) -> AuditedPostgresSource:
        """What an audit reads the standby by."""
        ends = [self._login(server) for server in (self.chain.server, self.standby)]
        return AuditedPostgresSource(ends[0], Publication("none"), "stop", AwaitedStandby(ends[1], 20.0))

    def _login(self, server: PostgresServer) -> Login:
        return Login(server.host, server.port, self.chain.name, server.user, server.password, {})


def log_in(server: PostgresServer) -> psycopg.Connection:
    return psycopg.connect(
        host=server.host,
        port=server.port,
        dbname=server.database,
        user=server.user,
        password=server.password,
        autocommit=True,
        connect_timeout=10,
    )


def start_standby(primary: PostgresServer, home: Path) -> PostgresServer:
    """Copy a server, and start the copy as its standby."""
    home.mkdir()
    login = f"host={primary.host} port={primary.port} user={primary.user} password={primary.password}"
    program = shutil.which("pg_basebackup") or str(find_programs() / "pg_basebackup")
    subprocess.run(
        [program, "-d", login, "-D", str(home / "data"), "-X", "stream", "-c", "fast", "--no-sync"],
        check=True,
        timeout=120,
    )
    (home / "data" / "standby.signal").touch()
    owner = (primary.home / "data").stat()
    for path in (home / "data", *(home / "data").rglob("*")):
        os.chown(path, owner.st_uid, owner.st_gid)
    (home / "initialised").touch()
    return start_postgres(home, settings={"primary_conninfo": login})


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """A primary and its standby."""
    home = tmp_path_factory.mktemp("standing")
    primary = start_postgres(home / "one")
    standby = start_standby(primary, home / "two")
    yield primary, standby
    standby.stop()
    primary.stop()


@pytest.fixture
def standing(
    servers: tuple[PostgresServer, PostgresServer],
    tmp_path: Path,
    fresh_name: str,
    kafka: KafkaBroker,
    schematizer: str,
) -> Iterator[Standing]:
    with making_chains(tmp_path, fresh_name, servers[0], (kafka, schematizer)) as make:
        chain = make(
            "CREATE TABLE rows (id int PRIMARY KEY, v text)",
            "INSERT INTO rows SELECT i, 'v' || i FROM generate_series(1, 500) i",
        )
        chain.carry()
        made = Standing(chain, servers[1])
        # Its database can be logged in to, there, once that has been replayed.
        deadline = time.monotonic() + 20
        while not made_there(made) and time.monotonic() < deadline:
            time.sleep(0.05)
        yield made


def made_there(standing: Standing) -> bool:
    """Whether the standby has the pipeline's database."""
    with closing(log_in(standing.standby)) as connection:
        found = connection.execute("SELECT FROM pg_database WHERE datname = %s", (standing.chain.name,)).fetchone()
        return found is not None


def test_an_audit_from_a_standby_names_what_is_wrong_and_nothing_that_is_not_replayed_yet(standing: Standing) -> None:
    chain = standing.chain
    equal = standing.audit()
    standing.corrupt("UPDATE public.rows SET v = 'other' WHERE id = 3")
    wrong = standing.audit()
    standing.corrupt("UPDATE public.rows SET v = 'v3' WHERE id = 3")

    standing.there("SELECT pg_wal_replay_pause()")
    chain.write("INSERT INTO rows VALUES (501, 'new')", "UPDATE rows SET v = 'changed' WHERE id = 9")
    chain.carry()
    paused = standing.audit()
    standing.there("ALTER SYSTEM SET recovery_min_apply_delay = '1h'", "SELECT pg_reload_conf()")
    standing.there("SELECT pg_wal_replay_resume()")
    chain.write("DELETE FROM rows WHERE id = 4")
    chain.carry()
    late = standing.audit(0.5)
    began = time.monotonic()
    ended = standing.audit(60.0, seconds_max=1)
    seconds = time.monotonic() - began
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(standing.audit)
        time.sleep(0.5)
        is_waiting = not waiting.done()
        standing.there("ALTER SYSTEM RESET recovery_min_apply_delay", "SELECT pg_reload_conf()")
        caught_up = waiting.result(60)

    assert (equal.state, equal.source_rows) == ("equal", 500)
    assert {row.key: dict(row.columns) for row in wrong.rows} == {("3",): {"v": ("v3", "other")}}
    assert (paused.state, paused.rows) == ("failed", ())
    assert "it was paused; what to do: type on it: SELECT pg_wal_replay_resume()" in paused.why
    assert (late.state, late.rows) == ("lagging", ())
    assert "has not replayed what" in late.why
    assert (ended.state, seconds < 30) == ("failed", True)
    assert "longer than the whole audit may" in ended.why
    assert is_waiting
    assert (caught_up.state, caught_up.source_rows, caught_up.rows) == ("equal", 500, ())


def test_a_server_that_is_no_standby_of_the_source_is_refused(standing: Standing, tmp_path: Path) -> None:
    primary = standing.audit(port=standing.chain.server.port)
    other = start_postgres(tmp_path / "other")
    with closing(log_in(other)) as connection:
        connection.execute(f"CREATE DATABASE {standing.chain.name}".encode())
    stranger = standing.audit(port=other.port)
    other.stop()

    assert (primary.state, stranger.state) == ("failed", "failed")
    assert "is no standby" in primary.why
    assert "it has another system identifier" in stranger.why


def test_a_query_that_holds_up_replay_is_ended_and_told_and_the_next_table_is_read(standing: Standing) -> None:
    with closing(standing.opened()) as source:
        standing.there("ALTER SYSTEM SET max_standby_streaming_delay = '100ms'", "SELECT pg_reload_conf()")
        source.renew()
        first = source.fetch("SELECT count(*) FROM public.rows")
        standing.chain.write("ALTER TABLE rows ADD COLUMN more int")
        time.sleep(2)

        with pytest.raises(UnavailableError) as ended:
            source.fetch("SELECT count(*) FROM public.rows")
        source.renew()
        again = source.fetch("SELECT count(more), count(*) FROM public.rows")
        standing.there("ALTER SYSTEM RESET max_standby_streaming_delay", "SELECT pg_reload_conf()")

    assert "conflict with recovery" in ended.value.message
    assert "hot_standby_feedback" in ended.value.hint
    assert (first, again) == ([(500,)], [(0, 500)])

"""A primary and a standby of PostgreSQL 18 that synchronizes slots: the primary is killed, the standby promoted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import pytest
from tests.servers.copied_postgres import copy_as_standby
from tests.servers.newer_postgres import newer_postgres
from tests.servers.postgres_chain import PostgresChain, make_postgres_chain

from penstock.dev.postgres import start_postgres
from penstock.wiring.capture_kinds import capture_kind
from penstock.wiring.postgres_server import postgres_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from penstock.core.findings import Finding
    from penstock.dev.postgres import PostgresServer
    from penstock.embedded.kafka import KafkaBroker

_PHYSICAL: Final = "standby_1"
_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 0.2
_TABLES: Final = (
    "CREATE TABLE t (id int PRIMARY KEY, v text)",
    "CREATE TABLE log (n int)",
    "ALTER TABLE log REPLICA IDENTITY FULL",
    "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
)


@pytest.fixture
def newer() -> Iterator[None]:
    """PostgreSQL 18, where the installed one is older."""
    with newer_postgres():
        yield


@pytest.fixture
def servers(newer: None, tmp_path: Path, fresh_name: str) -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """A primary with a database of that name, and its standby, without which nothing is published."""
    del newer
    first = start_postgres(tmp_path / "first")
    PostgresChain(tmp_path, first.database, first).write(
        f"CREATE DATABASE {fresh_name}", f"SELECT pg_create_physical_replication_slot('{_PHYSICAL}', true)"
    )
    first.stop()
    copy_as_standby(first, tmp_path / "second", has_slots=False)
    login = f"host={first.host} user={first.user} password={first.password} dbname={fresh_name}"
    with start_postgres(tmp_path / "first", settings={"synchronized_standby_slots": _PHYSICAL}) as primary:
        follows = {
            "primary_conninfo": f"{login} port={primary.port}",
            "primary_slot_name": _PHYSICAL,
            "sync_replication_slots": "on",
            "hot_standby_feedback": "on",
        }
        with start_postgres(tmp_path / "second", settings=follows) as standby:
            yield primary, standby


def _until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to that in time"
        time.sleep(_PAUSE_SECONDS)


def _findings(chain: PostgresChain) -> list[Finding]:
    source = chain.spec.sources[0]
    return [each for each in capture_kind(source).examine(source, chain.spec.pipeline) if each.level != "ok"]


@pytest.mark.nightly
def test_a_standby_that_synchronizes_slots_gives_every_row_once_when_the_primary_is_killed(
    servers: tuple[PostgresServer, PostgresServer],
    tmp_path: Path,
    kafka: KafkaBroker,
    schematizer: str,
    fresh_name: str,
) -> None:
    primary, standby = servers
    chain = make_postgres_chain(tmp_path, fresh_name, primary, (kafka, schematizer), "    failover: true")
    chain.write(*_TABLES)
    chain.carry()
    copy = PostgresChain(chain.file, fresh_name, standby)
    slot = postgres_source(chain.spec.sources[0]).slot_name
    kept = f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{slot}' AND synced AND NOT temporary"

    def is_kept() -> bool:
        chain.write("INSERT INTO log VALUES (0)", "SELECT pg_log_standby_snapshot()")
        chain.carry()
        return copy.source_rows(kept) == [(1,)]

    _until(is_kept)
    found = _findings(chain)
    chain.write("INSERT INTO log SELECT generate_series(1, 1000)", "UPDATE t SET v = 'unread' WHERE id = 1")
    ((end,),) = chain.source_rows("SELECT pg_current_wal_lsn()::text")
    _until(lambda: copy.source_rows(f"SELECT pg_last_wal_receive_lsn() >= '{end}'") == [(True,)])
    primary.kill()
    copy.write("SELECT pg_promote()")
    to = f"127.0.0.1:{standby.port}"
    looked = chain.failover("--to", to)
    moved = chain.moved_to(standby)
    moved.write("INSERT INTO log VALUES (1001)", "DELETE FROM t WHERE id = 2")
    moved.carry()

    assert found == []
    assert looked.returncode == 0, looked.stderr
    assert "which has all that was not published yet" in looked.stdout
    for query in ("SELECT * FROM public.t ORDER BY id", "SELECT n, count(*) FROM public.log GROUP BY n ORDER BY n"):
        source, warehouse = moved.both(query)
        assert warehouse == source
    assert moved.stopped() == {}

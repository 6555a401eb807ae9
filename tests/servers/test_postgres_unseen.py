"""A transaction that is in PostgreSQL's log, and that others do not see yet: its commit waits for a standby."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from tests.servers.postgres_chain import PostgresChain, make_postgres_chain

from penstock.core.errors import UnavailableError
from penstock.dev.postgres import start_postgres

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.embedded.kafka import KafkaBroker

_WAITS = "ALTER SYSTEM SET synchronous_standby_names = 'nobody'"
_RELOAD = "SELECT pg_reload_conf()"


@pytest.fixture
def chain(tmp_path: Path, fresh_name: str, kafka: KafkaBroker, schematizer: str) -> Iterator[PostgresChain]:
    with start_postgres(tmp_path / "server") as server:
        PostgresChain(tmp_path, server.database, server).write(f"CREATE DATABASE {fresh_name}")
        yield make_postgres_chain(tmp_path, fresh_name, server, (kafka, schematizer))


@pytest.mark.nightly
def test_a_column_has_the_default_that_its_transaction_gave_it(
    chain: PostgresChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.adapters.postgres.source.visibility._SECONDS", 0.5)
    chain.write("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    chain.carry()
    chain.write(_WAITS, _RELOAD)
    with ThreadPoolExecutor(1) as threads:
        added = "ALTER TABLE t ADD c int DEFAULT 5"
        commits = threads.submit(chain.write_together, added, "UPDATE t SET v = 9 WHERE id = 1")
        try:
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            while chain.source_rows(waiting) != [(1,)]:
                assert not commits.done()
            with pytest.raises(UnavailableError, match="not to be seen by others yet"):
                chain.carry()
        finally:
            chain.write("ALTER SYSTEM RESET synchronous_standby_names", _RELOAD)
        commits.result(60)
    chain.carry()

    assert chain.rows("SELECT * FROM public.t ORDER BY id") == [(1, 9, 5), (2, 2, 5)]

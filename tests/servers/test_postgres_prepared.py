"""Two-phase transactions of a PostgreSQL source: they come with COMMIT PREPARED, in the order of the commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from tests.servers.postgres_chain import making_chains

from penstock.core.snapshots import SnapshotOptions, Status
from penstock.dev.postgres import start_postgres
from penstock.wiring.snapshots import ask_for_snapshots, read_snapshots

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers.postgres_chain import PostgresChain

    from penstock.embedded.kafka import KafkaBroker

_ALL: Final = "SELECT * FROM public.t ORDER BY id"
_MANY: Final = 20_000
"""Rows that are more than the server keeps in memory for a transaction."""
_SETTINGS: Final = {"max_prepared_transactions": "5", "logical_decoding_work_mem": "64kB"}


@pytest.fixture
def chain(tmp_path: Path, kafka: KafkaBroker, schematizer: str, fresh_name: str) -> Iterator[PostgresChain]:
    server = start_postgres(tmp_path / "server", settings=_SETTINGS)
    with making_chains(tmp_path, fresh_name, server, (kafka, schematizer)) as make:
        yield make("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    server.stop()


def _prepare(chain: PostgresChain, name: str, *statements: str) -> None:
    chain.write("; ".join(["BEGIN", *statements, f"PREPARE TRANSACTION '{name}'"]))


@pytest.mark.nightly
def test_prepared_transactions_come_when_they_are_committed_and_never_when_they_are_rolled_back(
    chain: PostgresChain,
) -> None:
    chain.carry()
    many = f"INSERT INTO t SELECT 1000 + i, 'many' FROM generate_series(1, {_MANY}) i"
    _prepare(
        chain, "kept", "UPDATE t SET v = 'kept' WHERE id = 1", "SAVEPOINT s", "DELETE FROM t", "ROLLBACK TO s", many
    )
    _prepare(chain, "undone", "DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (5, 'never')")
    chain.write("INSERT INTO t VALUES (4, 'd')")
    chain.carry()
    waiting = chain.both(_ALL)
    ask_for_snapshots(chain.spec, ["public.t"], SnapshotOptions())
    chain.write("CHECKPOINT", "UPDATE t SET v = 'e' WHERE id = 4")
    chain.carry()
    read_again = chain.both(_ALL)

    chain.write("ROLLBACK PREPARED 'undone'", "UPDATE t SET v = 'f' WHERE id = 2", "COMMIT PREPARED 'kept'")
    chain.write("UPDATE t SET v = v || '!' WHERE id IN (1, 2, 1001)")
    chain.carry()

    assert waiting[1] == waiting[0] == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    assert read_again[1] == read_again[0]
    assert [each.status for each in read_snapshots(chain.spec)] == [Status.DONE]
    source, warehouse = chain.both(_ALL)
    assert warehouse == source
    assert warehouse[:5] == [(1, "kept!"), (2, "f!"), (3, "c"), (4, "e"), (1001, "many!")]
    assert len(warehouse) == 4 + _MANY
    assert chain.stopped() == {}

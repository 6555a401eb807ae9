"""A server that may keep little WAL for our slot: it is told in time, drains, and a slot that is lost is made anew."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import pytest
from tests.servers.postgres_chain import making_chains

from penstock.core.errors import LogPurgedError
from penstock.dev.postgres import start_postgres
from penstock.wiring.postgres_failover import take_new_slot
from penstock.wiring.source_status import ask_source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers.postgres_chain import PostgresChain

    from penstock.core.retention import Retention
    from penstock.embedded.kafka import KafkaBroker

_ALL: Final = "SELECT * FROM public.t ORDER BY id"
_DRAINED_SECONDS: Final = 120.0
_SETTINGS: Final = {"max_slot_wal_keep_size": "64MB", "max_wal_size": "1GB", "checkpoint_timeout": "1h"}
"""Four segments; nothing is removed before somebody asks for a checkpoint."""


@pytest.fixture
def chain(tmp_path: Path, kafka: KafkaBroker, schematizer: str, fresh_name: str) -> Iterator[PostgresChain]:
    server = start_postgres(tmp_path / "server", settings=_SETTINGS)
    with making_chains(tmp_path, fresh_name, server, (kafka, schematizer)) as make:
        yield make("CREATE TABLE t (id int PRIMARY KEY, v text)", more="    wal_warning_mebibytes: 1000")
    server.stop()


def _fill(chain: PostgresChain, segments: int) -> None:
    """Write rows, and begin so many files of the log."""
    for _ in range(segments):
        ((last,),) = chain.source_rows("SELECT coalesce(max(id), 0) FROM t")
        chain.write(f"INSERT INTO t SELECT {last} + i, 'x' FROM generate_series(1, 10) i", "SELECT pg_switch_wal()")


def _retention(chain: PostgresChain) -> Retention:
    retention = ask_source(chain.spec.sources[0], chain.position()).retention
    assert retention is not None
    return retention


def _level_once_drained(chain: PostgresChain) -> str:
    """A slot lets go of what is read when the server has noted, every 15 seconds, which transactions are open."""
    until = time.monotonic() + _DRAINED_SECONDS
    while (level := _retention(chain).level) != "ok" and time.monotonic() < until:
        time.sleep(1)
        chain.write("UPDATE t SET v = 'y' WHERE id = 1")
        chain.carry()
    return level


@pytest.mark.nightly
def test_log_that_nobody_reads_is_reported_drains_and_where_it_is_lost_the_remedy_brings_all_of_it(
    chain: PostgresChain,
) -> None:
    chain.carry()
    levels: list[str] = [_retention(chain).level]
    _fill(chain, 3)
    levels.append(_retention(chain).level)
    _fill(chain, 3)
    critical = _retention(chain)
    levels.append(critical.level)

    chain.carry()
    drained = chain.both(_ALL)
    levels.append(_level_once_drained(chain))
    _fill(chain, 8)
    chain.write("DELETE FROM t WHERE id % 3 = 0", "CHECKPOINT")
    lost = _retention(chain)
    with pytest.raises(LogPurgedError, match="lost log that is needed") as refused:
        chain.carry()
    take_new_slot(chain.spec, chain.spec.sources[0].name)
    chain.carry()

    assert levels == ["ok", "warning", "error", "ok"]
    assert "may remove it at any moment" in critical.text
    assert drained[0] == drained[1]
    assert (lost.level, "lost log" in lost.text) == ("error", True)
    assert "--new-slot" in refused.value.hint
    source, warehouse = chain.both(_ALL)
    assert warehouse == source
    assert (chain.stopped(), _retention(chain).level) == ({}, "ok")

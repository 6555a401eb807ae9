"""`penstock run` on Spark with a PostgreSQL source: kill -9 of everything in mid-run, and `run --once` after it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.servers.pipeline.killing import kill_everything, wait_for

from penstock.adapters.duckdb.query import query
from penstock.adapters.duckdb.query_wire import run_file
from penstock.core.errors import PenstockError
from penstock.dev.postgres import PASSWORD
from penstock.faults.witness import Witness
from penstock.faults.workload import CREATE_TABLES, Workload
from penstock.wiring.tether import tethered

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.servers.postgres_chain import PostgresChain

    from penstock.embedded.kafka import KafkaBroker

_KILLS = 2
_RUN_SECONDS = 240


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_nothing_of_postgres_is_lost_or_doubled_by_kill_9_of_everything(
    make_postgres: Callable[..., PostgresChain], kafka: KafkaBroker, schematizer: str
) -> None:
    full = [f"ALTER TABLE {table} REPLICA IDENTITY FULL" for table in ("accounts", "entries", "last_versions")]
    chain = make_postgres(*CREATE_TABLES, *full)

    def connect() -> psycopg.Connection:
        connection = chain.connect()
        connection.autocommit = False
        return connection

    with Workload(connect, "kills", refused=psycopg.Error) as workload:
        for _ in range(_KILLS):
            before = _loaded(chain)
            running = _start(chain)
            wait_for(lambda seen=before: _loaded(chain) > seen)  # type: ignore[misc]
            time.sleep(2)
            kill_everything(running, chain.spec.home)
    assert workload.commits > 0

    assert _start(chain, "--once").wait(_RUN_SECONDS) == 0

    with Witness(kafka.bootstrap_servers, schematizer, f"{chain.spec.sources[0].name}.public") as witness:
        tally = witness.read()
        with closing(chain.connect()) as connection:
            tally.lost += witness.lacks(connection)
            witness.count_surplus(connection)
    assert tally.changes > 0
    assert (tally.lost, tally.doubled, tally.examples) == (0, 0, [])
    for sql in ("SELECT * FROM public.accounts ORDER BY id", "SELECT number FROM public.entries ORDER BY number"):
        source, warehouse = chain.both(sql)
        assert warehouse == source


def _start(chain: PostgresChain, *options: str) -> subprocess.Popen[bytes]:
    with chain.file.with_name("run.log").open("ab") as log:
        return subprocess.Popen(
            tethered([sys.executable, "-m", "penstock", "run", str(chain.file), *options]),
            stdout=log,
            stderr=log,
            env={**os.environ, "POSTGRES_CHAIN_PASSWORD": PASSWORD},
            start_new_session=True,
        )


def _loaded(chain: PostgresChain) -> int:
    """How many entries the warehouse has; 0 while it does not answer, or has no such table yet."""
    home: Path = chain.spec.home
    try:
        found = query(home / "wh.duckdb", run_file(home, "wh"), "SELECT count(*) FROM public.entries").rows
    except PenstockError:
        return 0
    return int(found.column(0)[0].as_py())

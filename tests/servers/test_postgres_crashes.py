"""A pipeline from PostgreSQL that ends, as by kill -9, between two writes: the next run loses and doubles nothing."""

from __future__ import annotations

import signal
import time
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest

from penstock.config.crash_points import VARIABLE
from penstock.dev.postgres import PASSWORD
from penstock.faults.round import carry_apart
from penstock.faults.witness import Witness
from penstock.faults.workload import CREATE_TABLES, Workload

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.postgres_chain import PostgresChain

    from penstock.embedded.kafka import KafkaBroker

_COMMITS = 10
_TABLES = ("accounts", "entries", "last_versions")
_CAPTURE = ("publisher.opened", "publish.messages_sent:2", "publish.sent:2", "publish.committed:2")
_REST = ("objects.file_written", "load.merged", "load.positions_set", "load.committed", "load.finished")


def _write(chain: PostgresChain, seed: str) -> None:
    def connect() -> psycopg.Connection:
        connection = chain.connect()
        connection.autocommit = False
        return connection

    with Workload(connect, seed, pause_seconds=0.001, refused=psycopg.Error) as workload:
        while workload.commits < _COMMITS:
            time.sleep(0.01)


@pytest.mark.nightly
def test_every_change_of_postgres_is_there_once_after_a_crash_at_each_place(
    make_postgres: Callable[..., PostgresChain], kafka: KafkaBroker, schematizer: str
) -> None:
    full = [f"ALTER TABLE {table} REPLICA IDENTITY FULL" for table in _TABLES]
    chain = make_postgres(*CREATE_TABLES, *full)
    _write(chain, "first")
    chain.carry()

    for point in _CAPTURE + _REST:
        _write(chain, f"before {point}")
        log = chain.file.with_name("round.log")
        environment = {"POSTGRES_CHAIN_PASSWORD": PASSWORD, VARIABLE: point}
        code = carry_apart(chain.file, None, environment, log)
        assert code == -signal.SIGKILL, log.read_text()
        _write(chain, f"behind {point}")
    chain.carry()

    with Witness(kafka.bootstrap_servers, schematizer, f"{chain.spec.sources[0].name}.public") as witness:
        tally = witness.read()
        with closing(chain.connect()) as connection:
            tally.lost += witness.lacks(connection)
            witness.count_surplus(connection)
    assert tally.changes > 0
    assert (tally.lost, tally.doubled, tally.examples) == (0, 0, [])
    for sql in (
        "SELECT * FROM public.accounts ORDER BY id",
        "SELECT * FROM public.last_versions ORDER BY id",
        # A table without a key is a change log, and nobody changes its rows.
        "SELECT number, note FROM public.entries ORDER BY number",
    ):
        source, warehouse = chain.both(sql)
        assert warehouse == source


@pytest.mark.nightly
def test_a_table_that_is_altered_in_mid_transaction_is_equal_after_a_crash_at_each_place(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres("CREATE TABLE t (id int PRIMARY KEY, n int)", more="    ddl_trigger: true")
    chain.write("INSERT INTO t VALUES (1, 1)")
    chain.carry()

    for number, point in enumerate((*_CAPTURE, "load.merged", "load.committed")):
        rows = f"INSERT INTO t (id, n) SELECT {number} * 1000 + i, i FROM generate_series(100, 400) i"
        chain.write_together(
            f"ALTER TABLE t ADD c{number} int DEFAULT {number}",
            rows,
            f"ALTER TABLE t ADD d{number} int DEFAULT 9, ADD x{number} text",
            f"ALTER TABLE t ALTER x{number} TYPE varchar",
            f"UPDATE t SET d{number} = id WHERE id % 7 = 0",
            f"ALTER TABLE t RENAME d{number} TO e{number}",
            f"DELETE FROM t WHERE id % 11 = {number}",
        )
        chain.crash(point)
    chain.carry()

    assert chain.stopped() == {}
    source, warehouse = chain.both("SELECT * FROM public.t ORDER BY id")
    assert warehouse == source

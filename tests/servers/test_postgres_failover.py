"""`penstock failover` of a PostgreSQL source: with the slot that the other server has, or with a new one."""

from __future__ import annotations

import json
import signal
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest
from tests.servers.copied_postgres import copy_as_standby
from tests.servers.forked import run_forked
from tests.servers.postgres_chain import PostgresChain, making_chains

from penstock.adapters.postgres.source.slot import drop_slot
from penstock.config.load import load
from penstock.core.errors import LogPurgedError, UnfitServerError
from penstock.core.snapshots import Status
from penstock.dev.postgres import start_postgres
from penstock.wiring.postgres_failover import follow_slot, take_new_slot
from penstock.wiring.postgres_server import postgres_source, source_server
from penstock.wiring.snapshots import read_snapshots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from penstock.dev.postgres import PostgresServer
    from penstock.embedded.kafka import KafkaBroker

_TABLE = "CREATE TABLE t (id int PRIMARY KEY, v text)"
_OID_MAX = 2**32 - 1
_ALL = "SELECT * FROM public.t ORDER BY id"


def _slot(chain: PostgresChain) -> str:
    return postgres_source(chain.spec.sources[0]).slot_name


def _source(chain: PostgresChain) -> str:
    return chain.spec.sources[0].name


def _take(file: Path) -> None:
    spec = load(file)
    take_new_slot(spec, spec.sources[0].name)


@pytest.mark.nightly
def test_with_a_new_slot_all_tables_are_read_again_and_nothing_is_missing(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    log = "CREATE TABLE keyless (n int)"
    chain = make_postgres(_TABLE, log, "ALTER TABLE keyless REPLICA IDENTITY FULL", "INSERT INTO t VALUES (1), (2)")
    chain.write("CREATE TABLE left_out (id int PRIMARY KEY)")
    chain.carry()
    config = chain.file.read_text()
    before = chain.position()
    chain.write("INSERT INTO t VALUES (3, 'unread')", "DELETE FROM t WHERE id = 1", "INSERT INTO keyless VALUES (1)")
    drop_slot(source_server(chain.spec.sources[0]), _slot(chain))
    with pytest.raises(LogPurgedError, match="no replication slot") as refused:
        chain.carry()
    assert "penstock failover FILE SOURCE --to HOST:PORT --new-slot" in refused.value.hint
    with pytest.raises(LogPurgedError, match="no replication slot"):
        follow_slot(chain.spec, _source(chain))

    chain.file.write_text(config.replace('["public.*"]', '["public.*", "!public.left_out"]'))
    slots = f"SELECT FROM pg_replication_slots WHERE slot_name = '{_slot(chain)}'"
    # The first commit of a capture says that it has taken over, the second that the tables have stopped.
    assert run_forked(_take, chain.file, crash_at="publish.sent:2") == -signal.SIGKILL
    assert chain.source_rows(slots) == []
    assert run_forked(_take, chain.file, crash_at="publish.sent:3") == -signal.SIGKILL
    # If the slot began ahead of the position, a start would go on there.
    assert len(chain.source_rows(slots)) == 1
    assert (chain.position().order, chain.position().timeline) == (before.order, 0)
    assert chain.stopped().keys() == {"public.t", "public.keyless", "public.left_out"}
    assert not chain.position().has_all_of(_OID_MAX)
    done = take_new_slot(chain.spec, _source(chain))
    chain.file.write_text(config)
    chain.write("INSERT INTO t VALUES (4, 'behind the slot')", "UPDATE t SET v = 'b' WHERE id = 2")
    chain.carry()
    chain.write("INSERT INTO t VALUES (5, 'live')")
    chain.carry()

    assert (done.read_again, done.left) == (("public.t",), ("public.keyless",))
    assert (done.after.timeline, chain.position().timeline) == (1, 1)
    source, warehouse = chain.both(_ALL)
    assert warehouse == source
    assert chain.stopped().keys() == {"public.keyless", "public.left_out"}
    assert {each.status for each in read_snapshots(chain.spec, ["public.t"])} == {Status.DONE}


def test_a_slot_of_another_program_is_left_alone(make_postgres: Callable[..., PostgresChain]) -> None:
    chain = make_postgres(_TABLE)
    chain.carry()
    drop_slot(source_server(chain.spec.sources[0]), _slot(chain))
    chain.write(f"SELECT pg_create_logical_replication_slot('{_slot(chain)}', 'test_decoding')")

    with pytest.raises(UnfitServerError, match="another program's"):
        take_new_slot(chain.spec, _source(chain))

    assert chain.source_rows("SELECT plugin FROM pg_replication_slots WHERE plugin = 'test_decoding'")
    assert chain.stopped() == {}


@contextmanager
def _promoted(first: PostgresServer, home: Path, *, has_slots: bool) -> Iterator[PostgresServer]:
    """Stop a server, and promote a copy of it, as a standby that had received everything."""
    first.stop()
    copy_as_standby(first, home, has_slots=has_slots)
    second = start_postgres(home)
    try:
        with PostgresChain(home, second.database, second).connect() as connection:
            connection.execute("SELECT pg_promote()")
        yield second
    finally:
        second.stop()


@pytest.mark.nightly
@pytest.mark.parametrize("has_slots", [True, False])
def test_a_promoted_standby_is_followed_with_its_slot_and_without_one_by_snapshots(
    tmp_path: Path, kafka: KafkaBroker, schematizer: str, fresh_name: str, *, has_slots: bool
) -> None:
    first = start_postgres(tmp_path / "first")
    with ExitStack() as opened:
        making = making_chains(tmp_path, fresh_name, first, (kafka, schematizer))
        chain = making.__enter__()(_TABLE, "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        chain.carry()
        chain.write("INSERT INTO t VALUES (3, 'unread')", "DELETE FROM t WHERE id = 1")
        second = opened.enter_context(_promoted(first, tmp_path / "second", has_slots=has_slots))
        to = f"127.0.0.1:{second.port}"

        looked = chain.failover("--to", to)
        done = looked if has_slots else chain.failover("--to", to, "--new-slot")
        as_json = chain.failover("--to", to, "--json") if has_slots else None
        moved = chain.moved_to(second)
        moved.write("INSERT INTO t VALUES (4, 'on the new primary')", "UPDATE t SET v = 'B' WHERE id = 2")
        moved.carry()

        assert (looked.returncode == 0) == has_slots, looked.stderr
        if not has_slots:
            assert "no replication slot" in looked.stderr
            assert "--new-slot" in looked.stderr
        assert done.returncode == 0, done.stderr
        assert f"{_source(chain)} goes on at {to}" in done.stdout
        assert "in timeline 2" in done.stdout
        assert f"Now write {to} into {chain.file}" in done.stdout
        assert ("1 table(s), when the pipeline runs" in done.stdout) == (not has_slots)
        if as_json is not None:
            assert json.loads(as_json.stdout)["changed"] is False
        source, warehouse = moved.both(_ALL)
        assert warehouse == source
        assert moved.stopped() == {}

"""The workload does what it says, at the rate it says, whatever happens to its server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from penstock.adapters.mysql.connection import MysqlServer, connect
from penstock.core.errors import UnavailableError
from penstock.demo.marketplace import Sizes, fill
from penstock.demo.marks import write_end_marks
from penstock.demo.workload import Workload
from penstock.embedded.mariadb import MariadbServer, start_mariadb

if TYPE_CHECKING:
    from pathlib import Path

_ROWS = 3_000


@pytest.fixture
def server(mariadb: MariadbServer) -> MysqlServer:
    return MysqlServer(mariadb.host, mariadb.port, mariadb.user, mariadb.password)


def test_the_same_seed_fills_the_same_rows(server: MysqlServer) -> None:
    first, second = fill(server, _ROWS, seed=5), _checksums(server)
    fill(server, _ROWS, seed=5)
    again = _checksums(server)
    fill(server, _ROWS, seed=6)

    assert first.total == _ROWS
    assert second == again
    assert _checksums(server) != again


def test_the_workload_reports_exactly_the_rows_that_the_log_shows(server: MysqlServer) -> None:
    sizes = fill(server, _ROWS)
    with connect(server) as connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL userstat = 1")
        cursor.execute("FLUSH TABLE_STATISTICS")
    workload = Workload(server, sizes, seconds=3.0, seed=1, rate=1_000)

    _run_to_end(workload)

    progress = workload.progress()
    assert progress.error == ""
    assert progress.unknown_transactions == 0
    assert progress.changes_total == _changed_rows(server)
    assert progress.share_done == 1.0
    assert len(progress.schema_changes) == 4
    assert set(progress.newest) == set(progress.changes) >= {"bookings", "audit_log"}


def test_the_rate_is_held(server: MysqlServer) -> None:
    sizes = fill(server, _ROWS)
    workload = Workload(server, sizes, seconds=3.0, seed=1, rate=200)

    _run_to_end(workload)

    assert 150 <= workload.progress().rate <= 250


def test_sampled_rows_stay_in_the_table(server: MysqlServer) -> None:
    sizes = fill(server, _ROWS)
    workload = Workload(server, sizes, seconds=2.0, seed=2, rate=1_500)

    _run_to_end(workload)

    sampled = {committed.sample.key for committed in workload.take_samples()}
    assert len(sampled) > 10
    with connect(server) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id FROM shop.reviews WHERE id IN %s", (tuple(sampled),))
        assert {row[0] for row in cursor.fetchall()} == sampled


def test_a_stopped_workload_ends_within_a_transaction(server: MysqlServer) -> None:
    sizes = fill(server, _ROWS)
    workload = Workload(server, sizes, seconds=60.0, seed=1)
    workload.start()
    time.sleep(0.3)

    began = time.monotonic()
    workload.stop()

    assert time.monotonic() - began < 2
    assert workload.progress().ended
    assert not workload.progress().error


def test_the_workload_goes_on_after_its_server_was_killed(tmp_path: Path) -> None:
    source = start_mariadb(tmp_path / "source")
    try:
        server = MysqlServer(source.host, source.port, source.user, source.password)
        sizes = fill(server, _ROWS)
        workload = Workload(server, sizes, seconds=4.0, seed=3, rate=1_000)
        workload.start()
        time.sleep(1.5)

        source.kill()
        source = start_mariadb(tmp_path / "source")
        _wait(workload)

        assert workload.progress().error == ""
        assert workload.progress().share_done == 1.0
        assert workload.progress().unknown_transactions <= 1
        assert len(workload.progress().schema_changes) == 4
    finally:
        source.stop()


def test_end_marks_are_in_every_table_and_say_where(server: MysqlServer) -> None:
    fill(server, _ROWS)

    marks = write_end_marks(server, 3)

    assert set(marks.conditions) == {"ad_packages", "audit_log", "businesses", "reviews", "users"}
    with connect(server) as connection, connection.cursor() as cursor:
        for table, condition in marks.conditions.items():
            assert cursor.execute(f"SELECT 1 FROM shop.{table} WHERE {condition}") == 1


def test_a_server_that_is_away_is_named(server: MysqlServer) -> None:
    away = MysqlServer(server.host, 1, server.user, server.password)

    with pytest.raises(UnavailableError, match=f"{server.user}@127.0.0.1:1 does not answer"):
        fill(away, _ROWS)


def _run_to_end(workload: Workload) -> None:
    workload.start()
    _wait(workload)


def _wait(workload: Workload) -> None:
    deadline = time.monotonic() + 60
    while not workload.progress().ended:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    workload.stop()


def _changed_rows(server: MysqlServer) -> int:
    """Rows of the marketplace that the server says it changed since it began to count."""
    with connect(server) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT SUM(ROWS_CHANGED) FROM information_schema.TABLE_STATISTICS WHERE TABLE_SCHEMA = 'shop'")
        ((changed,),) = cursor.fetchall()
        return int(changed)


def _checksums(server: MysqlServer) -> list[tuple[object, ...]]:
    with connect(server) as connection, connection.cursor() as cursor:
        cursor.execute("CHECKSUM TABLE shop." + ", shop.".join(Sizes.__dataclass_fields__))
        return list(cursor.fetchall())

"""A bench's parts run on real servers, with so few rows that nothing can be concluded from them."""

from __future__ import annotations

import os
from contextlib import closing
from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest
from tests.servers.capture_case import CaseServers
from tests.servers.kinds import first

from penstock.adapters.mysql.connection import ask, connect
from penstock.bench.capture import decode, latency
from penstock.bench.capture.pipeline import LOW_LATENCY, BenchPipeline
from penstock.bench.capture.workload import create_table, login, write_bulk, write_one_by_one
from penstock.bench.lab import Lab, Settings
from penstock.bench.programs.measured import measure_python
from penstock.config.load import load
from penstock.core.tables import TableId
from penstock.links.capture.spec import CaptureSpec
from penstock.wiring.capture import open_live

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from penstock.bench.capture.workload import Stretch
    from penstock.embedded.mariadb import MariadbServer

_ROWS = 2_000


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(tmp_path_factory.mktemp("bench"), Settings(rows=_ROWS, seconds=1), lambda _: None) as opened:
        yield opened


@pytest.fixture(scope="module")
def ids() -> latency.Ids:
    """Rows of one test are not taken for those of another."""
    return latency.Ids()


@pytest.fixture
def latency_source(lab: Lab) -> Iterator[MariadbServer]:
    """The source with the table of the latency's figures, which is gone afterwards."""
    server = lab.source()
    create_table(server, latency.TABLE)
    yield server
    with closing(connect(login(server), 30)) as connection:
        ask(connection, f"DROP DATABASE {latency.TABLE.schema}")


def test_the_decode_figure_is_measured(lab: Lab) -> None:
    (figure,) = decode.measure(lab)

    assert figure.value is not None
    assert figure.value > 0
    assert figure.ok in {True, False}


@pytest.mark.nightly
def test_the_latency_of_a_capture_is_measured_at_each_rate(
    lab: Lab,
    ids: latency.Ids,
    latency_source: MariadbServer,
    tmp_path: Path,
    tracker_server: MariadbServer,
    schematizer: str,
) -> None:
    """Of one that runs in a thread: its figures are those of this process."""
    case = CaseServers(tmp_path, latency_source, tracker_server, schematizer).make_case(
        lab.kafka(), latency.TABLE.schema, transactions=False
    )
    case.start()
    over = Event()
    capture = Thread(target=follow, args=(CaptureSpec(case.spec, "db", 1), over))
    side = latency._Side("ours", os.getpid(), capture.is_alive, case.topic(latency.TABLE.name), latency.id_of_avro)

    capture.start()
    try:
        times = latency._measure_rates(lab, ids, side)
    finally:
        over.set()
        capture.join(60)

    assert list(times) == [200, 1_000]
    assert all(0.0 < each.p50_ms <= each.p99_ms and each.cores > 0.0 for each in times.values())
    assert all(0.0 < each.rate <= rate * 1.1 for rate, each in times.items())


def follow(spec: CaptureSpec, over: Event) -> None:
    with closing(open_live(spec)) as live:
        while not over.is_set():
            live.run(0.5, None)


def test_the_settings_for_low_latency_are_those_that_are_said(lab: Lab, tmp_path: Path) -> None:
    BenchPipeline(lab, "tuned", latency.TABLE, tmp_path, is_low_latency=True).write_file()

    config = load(tmp_path / "pipeline.yaml")

    (source,) = config.sources
    assert f"kafka.transactions: false, publish_interval_ms: {source.publish_interval_ms}" == LOW_LATENCY
    assert not config.kafka.transactions


@pytest.mark.nightly
@pytest.mark.usefixtures("latency_source")
def test_the_latency_of_our_side_is_measured(lab: Lab, ids: latency.Ids) -> None:
    """The whole of it, with Spark: its parts are tried above."""
    times = latency.measure_ours(lab, ids, is_low_latency=True)

    assert list(times) == [200, 1_000]
    assert all(0.0 < each.p50_ms <= each.p99_ms and each.cores > 0.0 for each in times.values())


@pytest.mark.parametrize("write", first(1, write_bulk, write_one_by_one))
def test_our_reader_finds_every_row_that_was_written_and_no_other(
    lab: Lab, tmp_path: Path, write: Callable[[MariadbServer, TableId, int], Stretch]
) -> None:
    server, table = lab.source(), TableId(f"bench_{write.__name__}", "orders")
    create_table(server, table)
    write_bulk(server, table, 300)
    stretch = write(server, table, _ROWS)
    write_bulk(server, table, 300)

    who, begin = login(server), stretch.begin
    arguments = (who.host, who.port, who.user, who.password, table, begin.file, begin.offset)
    work = measure_python("read_log", arguments, tmp_path / "log", 120)

    assert work.rows == _ROWS


@pytest.mark.nightly
def test_bulk_is_spread_over_as_many_files_as_asked(lab: Lab) -> None:
    server, table = lab.source(), TableId("bench_files", "orders")
    create_table(server, table)
    before = _files(server)

    write_bulk(server, table, 1_000, files=3)

    # And the file that is written next, empty so far.
    assert len(_files(server)) - len(before) == 4


def _files(server: MariadbServer) -> list[Path]:
    return sorted((server.home / "data").glob("binlog.[0-9]*"))

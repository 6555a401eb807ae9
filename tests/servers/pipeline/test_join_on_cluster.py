"""A join on a standalone Spark cluster: one of two workers is killed in mid-run, and nothing is lost or doubled."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import yaml
from tests.servers.pipeline.joined_reviews import BUSINESSES, REVIEWS, Workload, add_join, fold, join_in_source
from tests.servers.pipeline.killing import wait_for

from penstock.adapters.registry.client import HttpRegistry
from penstock.core.avro.envelope_decode import decode_changes
from penstock.core.avro.schemas import table_schema
from penstock.core.avro.wire import schema_ids
from penstock.dev.spark import start_spark
from penstock.wiring.tether import tethered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers.pipeline.conftest import PipelineCase

    from penstock.embedded.mariadb import MariadbServer

WAIT_SECONDS = 600.0


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_a_join_on_a_cluster_is_that_of_sql_after_kill_9_of_a_worker_under_a_workload(
    make_case: Callable[..., PipelineCase], mariadb: MariadbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = make_case()
    name = add_join(case.file, case.database)
    case.write(BUSINESSES, REVIEWS, "INSERT INTO business VALUES (31, 'first', 'Ulm')")
    case.write("INSERT INTO user_review VALUES (1000, 31, 1, '')", f"CREATE DATABASE {case.database}_state")
    login = f"{mariadb.user}:{mariadb.password}@{mariadb.host}:{mariadb.port}"
    monkeypatch.setenv("CASE_STATE_URL", f"mysql+pymysql://{login}/{case.database}_state")
    home = case.file.parent

    def joined() -> int:
        return len(case.records(name))

    with start_spark(home / "spark") as cluster, Workload(case.connect, 1) as workload:
        config = yaml.safe_load(case.file.read_text())
        config["spark"] = {"master": cluster.url, "shared_home": True}
        config |= {"state": {"url_env": "CASE_STATE_URL"}, "objects": {"url": (home / "objects").as_uri()}}
        case.file.write_text(yaml.safe_dump(config))
        with running(case) as run:
            wait_for(lambda: run.poll() is not None or joined() > 3, WAIT_SECONDS)
            cluster.workers[0].kill()
            before = joined()
            wait_for(lambda: run.poll() is not None or joined() > before + 5, WAIT_SECONDS)
            assert run.poll() is None, (home / "run.log").read_text()[-4000:]
        assert workload.changes > 100
    with closing(case.connect()) as connection:
        expected = join_in_source(connection)
    config["spark"] = {"shared_home": True}
    case.file.write_text(yaml.safe_dump(config))
    case.run_once()

    assert fold(images(case, f"{name}.joined.{name}")) == expected
    found = case.query(f"SELECT biz_id, stars, city, review_id FROM joined.{name} ORDER BY review_id")
    assert [tuple(row.values()) for row in found] == expected
    batches = [record["batch"] for record in case.records(name)]
    assert batches == sorted(set(batches))
    # It went on with its state.
    assert {record["generation"] for record in case.records(name)} == {1}


@contextmanager
def running(case: PipelineCase) -> Iterator[subprocess.Popen[bytes]]:
    """Run the pipeline by the command line while a `with` block lasts."""
    with (case.file.parent / "run.log").open("ab") as log:
        command = tethered([sys.executable, "-m", "penstock", "run", str(case.file)])
        run = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield run
        run.send_signal(signal.SIGINT)
        run.wait(120)
    finally:
        run.kill()
        run.wait()


def images(case: PipelineCase, topic: str) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """(op, before, after) of every message of a topic with one partition."""
    schematizer = case.spec.schematizer
    assert schematizer is not None
    assert schematizer.url is not None
    values = pa.array(case.messages()[topic], pa.binary())
    with closing(HttpRegistry(schematizer.url)) as registry:
        text = registry.value_schema(int(schema_ids(values)[0]))
    decoded = decode_changes(table_schema(text), text, values)
    ops: list[Any] = decoded.op.to_pylist()
    return list(zip(ops, decoded.before.to_pylist(), decoded.after.to_pylist(), strict=True))

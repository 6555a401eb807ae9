"""The same pipeline on a standalone Spark cluster: a master and two workers on loopback."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from penstock.adapters.mysql.connection import MysqlServer
from penstock.demo.compare import compare_all
from penstock.dev.spark import start_spark
from penstock.links.capture.spec import CaptureSpec
from penstock.ports.queries import ReadLimits
from penstock.wiring.capture import start_capture
from penstock.wiring.epochs import next_epoch
from penstock.wiring.sink_kinds.table import sql_kind

if TYPE_CHECKING:
    from tests.servers.capture_case import CaseServers

    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer

RUN_SECONDS = 300


@pytest.mark.timeout(600)
def test_a_pipeline_runs_on_a_cluster_unchanged(
    case_servers: CaseServers,
    tmp_path: Path,
    mariadb: MariadbServer,
    kafka: KafkaBroker,
    fresh_database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = case_servers.make_case(kafka, fresh_database)
    case.write(
        "CREATE TABLE users (id INT PRIMARY KEY, name VARCHAR(40))",
        "INSERT INTO users SELECT seq, CONCAT('user ', seq) FROM seq_1_to_500",
        f"CREATE DATABASE {fresh_database}_state",
    )
    config = yaml.safe_load(case.file.read_text())
    config["state"] = {"url_env": "CASE_STATE_URL"}
    config["objects"] = {"url": (tmp_path / "objects").as_uri()}
    login = f"{mariadb.user}:{mariadb.password}@{mariadb.host}:{mariadb.port}"
    monkeypatch.setenv("CASE_STATE_URL", f"mysql+pymysql://{login}/{fresh_database}_state")

    with start_spark(tmp_path / "spark") as cluster:
        config["spark"] = {"master": cluster.url}
        case.file.write_text(yaml.safe_dump(config))
        # What an instance on this machine has begun, which the cluster goes on with: a copy, and changes behind it.
        start_capture(CaptureSpec(case.spec, "db", next_epoch(case.spec)))
        case.write("UPDATE users SET name = 'changed' WHERE id % 2 = 0")
        code, said, telling = _run_watched([sys.executable, "-m", "penstock", "run", str(case.file), "--once"], login)
        assert code == 0, said[-4000:]
        pids = [cluster.pid, *(worker.pid for worker in cluster.workers)]
        was_alive = cluster.alive()

    # Executors got it, for they wrote to the state database; no command line has it, nor does what was said.
    assert (telling, login in said) == (set(), False)
    # It takes its workers along when it stops.
    assert (was_alive, cluster.alive(), len(pids)) == (True, False, 3)
    assert not any(Path("/proc", str(pid), "exe").exists() for pid in pids)
    source = MysqlServer(mariadb.host, mariadb.port, mariadb.user, mariadb.password)
    spec = case.spec
    compared = compare_all(
        source, lambda sql: sql_kind(spec, spec.sinks[0]).query(sql, ReadLimits()).rows, case.database
    )
    assert {c.table: c.differences for c in compared} == {"users": 0}
    assert kafka.alive()


def _run_watched(command: list[str], secret: str) -> tuple[int, str, set[str]]:
    """Run a command; its exit code, what it said, and which programs had `secret` among their arguments."""
    telling: set[str] = set()
    until = time.monotonic() + RUN_SECONDS
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        while True:
            for arguments in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    found = arguments.read_text(errors="replace")
                    telling |= {found.partition("\0")[0]} if secret in found else set()
            try:
                said, _ = process.communicate(timeout=0.5)
            except subprocess.TimeoutExpired:
                assert time.monotonic() < until
                continue
            return process.returncode, said, telling

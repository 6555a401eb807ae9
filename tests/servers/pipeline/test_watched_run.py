"""`penstock run` with its page: what is killed is told, and then that all is well again."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
import yaml
from tests.servers.prometheus import prometheus
from tests.servers.sessions import log_in
from tests.unit.web.shop import until

from penstock.wiring.tether import tethered

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.embedded.mariadb import MariadbServer

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(580)]

WAIT_SECONDS = 150
EVERY_MINUTE = {"source": "db", "sink": "warehouse", "every": "60s"}
AUDITS = ({**EVERY_MINUTE, "tables": "orders"}, {**EVERY_MINUTE, "tables": "locked", "query_seconds": 1})


class Watched:
    """A run of which we know what its page says."""

    def __init__(self, directory: Path, run: subprocess.Popen[bytes], client: httpx.Client) -> None:
        self.directory = directory
        self.run = run
        self._client = client

    def metrics(self) -> Mapping[str, float]:
        """Metrics without the pipeline's name; empty while there is no answer."""
        try:
            text = self._client.get("/metrics").text
        except httpx.TransportError:
            return {}
        lines = [line for line in text.splitlines() if line.startswith("penstock_")]
        return {
            re.sub(r'pipeline="\w+",?', "", line.rpartition(" ")[0]): float(line.rpartition(" ")[2]) for line in lines
        }

    def page(self) -> str:
        return self._client.get("/").text

    def until(self, metric: str, value: float, *, or_more: bool = False) -> None:
        """Wait until a metric has a value."""
        deadline = time.monotonic() + WAIT_SECONDS
        while (found := self.metrics().get(metric)) != value and not (or_more and found is not None and found > value):
            assert time.monotonic() < deadline, (metric, found, self.page())
            time.sleep(0.2)

    def until_ready(self) -> None:
        """Wait until all is well."""
        self.until("penstock_healthy{}", 1)
        deadline = time.monotonic() + WAIT_SECONDS
        while (answer := self._client.get("/readyz")).status_code != 200:
            assert time.monotonic() < deadline, answer.text
            time.sleep(0.5)

    def kill(self, *words: str) -> None:
        """Kill what the run has started and whose command line has all of `words`."""
        found = [pid for pid in self._descendants() if all(word in _command(pid) for word in words)]
        assert found, words
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def penstock(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command beside it, on its file."""
        program = [sys.executable, "-m", "penstock", command, str(self.directory / "pipeline.yaml"), *arguments]
        return subprocess.run(program, capture_output=True, text=True, check=False)

    def _descendants(self) -> list[int]:
        parents = {}
        for entry in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                parents[int(entry.parent.name)] = int(entry.read_text().rpartition(")")[2].split()[1])
        family = {self.run.pid}
        while more := {pid for pid, parent in parents.items() if parent in family} - family:
            family |= more
        return sorted(family - {self.run.pid})


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


@pytest.fixture(params=[()])
def watched(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    mariadb: MariadbServer,
    fresh_database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Watched]:
    """A pipeline that runs with embedded servers and audits, and carries rows."""
    audits: Sequence[Mapping[str, object]] = request.param
    monkeypatch.setenv("CASE_PASSWORD", mariadb.password)
    connection = log_in(mariadb)
    with contextlib.closing(connection), connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {fresh_database}.orders (id INT PRIMARY KEY)")
        cursor.execute(f"INSERT INTO {fresh_database}.orders VALUES (1), (2), (3)")
        cursor.execute(f"CREATE TABLE {fresh_database}.locked (id INT PRIMARY KEY)")
        cursor.execute(f"INSERT INTO {fresh_database}.locked VALUES (1)")
    login = {"host": mariadb.host, "port": mariadb.port, "user": mariadb.user, "password_env": "CASE_PASSWORD"}
    config = {
        "pipeline": fresh_database,
        "home": str(tmp_path / "home"),
        "sources": [{"name": "db", "kind": "mysql", **login, "tables": [f"{fresh_database}.*"], "start": "snapshot"}],
        "sinks": [{"name": "warehouse", "kind": "duckdb", "path": str(tmp_path / "warehouse.duckdb")}],
        "links": [{"from": "db", "to": "warehouse"}],
        "audits": [{**audit, "tables": [f"{fresh_database}.{audit['tables']}"]} for audit in audits],
    }
    file, log = tmp_path / "pipeline.yaml", tmp_path / "run.log"
    file.write_text(yaml.safe_dump(config))
    with log.open("wb") as output:
        run = subprocess.Popen(
            tethered([sys.executable, "-m", "penstock", "run", str(file)]), stdout=output, stderr=output
        )
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        while (found := re.search(r"live page: (http://[\d.:]+)/", log.read_text())) is None:
            assert run.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        with httpx.Client(base_url=found[1], trust_env=False, timeout=10) as client:
            yield Watched(tmp_path, run, client)
    finally:
        run.terminate()
        run.wait(60)


def test_what_is_killed_is_seen_and_is_gone_when_it_has_recovered(
    watched: Watched, tmp_path: Path, fresh_database: str
) -> None:
    watched.until(f'penstock_table_rows_total{{link="db-to-warehouse",table="{fresh_database}.orders"}}', 3)
    watched.until_ready()
    target = watched._client.base_url.netloc.decode()
    seen: dict[str, float] = {}
    with prometheus(tmp_path / "prometheus", target) as asked:
        # A counter has grown only for who saw it before.
        until(lambda: len(asked.ask("penstock_server_restarts_total == 0")) == 3)
        for server, words in {
            "Kafka": ("kafka.Kafka",),
            "schema tracker of db": ("mariadbd",),
            "Schematizer": ("schematizer", "serve"),
        }.items():
            began = time.monotonic()
            watched.kill(*words)
            watched.until(f'penstock_server_restarts_total{{server="{server}"}}', 1)
            asked.until_alerts("PenstockServerRestarted", fires=True)
            seen[server] = time.monotonic() - began
            watched.until(f'penstock_server_up{{server="{server}"}}', 1)
            asked.until_alerts("PenstockServerRestarted", fires=False, seconds=WAIT_SECONDS)
            watched.until_ready()
        # Not whatever else names the module in its command line.
        watched.kill("-m penstock.spark.daemon")
        deadline = time.monotonic() + WAIT_SECONDS
        while not any(count for name, count in watched.metrics().items() if "_failures_total" in name):
            assert time.monotonic() < deadline, watched.metrics()
            time.sleep(0.2)
        watched.until_ready()
        assert "Recovered in the last 10 minutes" in watched.page()
        asked.until_alerts("PenstockUnhealthy", fires=False, seconds=WAIT_SECONDS)
        watched.kill("penstock.cli.main web", "--port")
        asked.until_alerts("PenstockDown", fires=True)
        asked.until_alerts("PenstockDown", fires=False, seconds=WAIT_SECONDS)
        watched.kill("org.apache.spark.deploy.SparkSubmit")
        watched.until('penstock_server_up{server="Spark"}', 0)
        assert "Spark is being started again" in watched.page()
        deadline = time.monotonic() + WAIT_SECONDS
        while (told := watched.metrics()).get('penstock_server_up{server="Spark"}') != 1:
            assert told["penstock_running{}"] == 1
            assert time.monotonic() < deadline, watched.page()
            time.sleep(0.2)
        watched.until_ready()
        asked_by_a_script = watched.penstock("status", "--exit-code")

    assert asked_by_a_script.returncode == 0, asked_by_a_script.stdout
    assert watched.run.poll() is None
    print(f"seen after {seen}")  # noqa: T201 - how soon, for who reads a nightly's output


@pytest.mark.parametrize("watched", [AUDITS], indirect=True)
def test_a_run_audits_itself_and_an_audit_that_fails_is_told_and_disturbs_no_link(
    watched: Watched, mariadb: MariadbServer, fresh_database: str
) -> None:
    rows = f'penstock_table_rows_total{{link="db-to-warehouse",table="{fresh_database}.%s"}}'
    audit = f'{{audit="db-to-warehouse%s",table="{fresh_database}.%s"}}'
    watched.until(rows % "orders", 3)
    watched.until(rows % "locked", 1)
    with (
        contextlib.closing(log_in(mariadb, fresh_database)) as connection,
        contextlib.closing(log_in(mariadb, fresh_database)) as locking,
        connection.cursor() as cursor,
        locking.cursor() as lock,
    ):
        watched.until(f"penstock_audit_score{audit % ('', 'orders')}", 1)
        watched.until(f"penstock_audit_score{audit % (' (2)', 'locked')}", 1)
        assert "penstock_healthy{}" in watched.metrics()

        # Nobody else reads the table now, so that the source ends the audit's query after a second.
        lock.execute("LOCK TABLES locked WRITE")
        said = _until_failed(watched)
        before = watched.metrics()[f"penstock_audit_timestamp_seconds{audit % ('', 'orders')}"]
        cursor.execute("INSERT INTO orders VALUES (4)")
        watched.until(rows % "orders", 4)
        watched.until(f"penstock_audit_timestamp_seconds{audit % ('', 'orders')}", before, or_more=True)

    assert watched.metrics()[f"penstock_audit_score{audit % ('', 'orders')}"] == 1
    assert "query_seconds" in said, said
    assert "db-to-warehouse (2)" in watched.page()


def _until_failed(watched: Watched) -> str:
    """Wait until the status has an audit that failed; what it says of it."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        command = [sys.executable, "-m", "penstock", "status", str(watched.directory / "pipeline.yaml"), "--json"]
        told = json.loads(subprocess.run(command, capture_output=True, timeout=60, check=False).stdout)
        failed = [each for each in told["audits"] if each["state"] == "failed"]
        if failed:
            assert all(link["state"] == "running" for link in told["links"]), told["links"]
            return str(failed[0]["why"])
        assert time.monotonic() < deadline, told
        time.sleep(2)

"""One source into two Redshifts and a DuckDB file, with keys in the environment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest
import yaml
from tests.servers.redshift_case import log_in, run

from penstock.config.audits import AuditSpec
from penstock.config.crash_points import VARIABLE
from penstock.dev.redshift.cluster import ROLE
from penstock.faults.proxy import Proxy
from penstock.faults.round import carry_apart
from penstock.wiring.audit import run_audit
from penstock.wiring.tether import tethered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers.pipeline.conftest import PipelineCase

    from penstock.core.audit.findings import TableFindings
    from penstock.dev.redshift import RedshiftServer
    from penstock.dev.s3 import S3Server

RUN_SECONDS = 240
DOWN_SECONDS = int(os.environ.get("PENSTOCK_TEST_DOWN_SECONDS", "15"))
"""How long a cluster is away; 3600 for an hour."""
TABLES = (
    "CREATE TABLE users (id INT PRIMARY KEY, name VARCHAR(40), score DECIMAL(10,2), body BLOB NOT NULL, doc JSON)",
    """INSERT INTO users VALUES (1, 'Ada, "A"', 1.50, '', '{"a": [1]}'), (2, '', NULL, x'00FF', NULL)""",
    "INSERT INTO users VALUES (3, CONCAT(CHAR(92), 'N'), 0, '', 'null')",
    "CREATE TABLE log (what VARCHAR(20))",
    "INSERT INTO log VALUES ('a'), ('a'), (NULL)",
)


@pytest.fixture
def case(
    make_case: Callable[..., PipelineCase],
    redshift: RedshiftServer,
    s3: S3Server,
    fresh_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[PipelineCase]:
    """A pipeline into a DuckDB file and two databases of a Redshift, of which the second gets one table only."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3.secret_access_key)
    monkeypatch.setenv("REDSHIFT_PASSWORD", redshift.password)
    case = make_case()
    config = yaml.safe_load(case.file.read_text())
    config["objects"] = {
        "url": f"s3://{s3.bucket}/{fresh_name}",
        "endpoint": s3.endpoint,
        "format": "csv",
        "compression": "gzip",
    }
    login = {"host": redshift.host, "port": redshift.port, "user": redshift.user, "password_env": "REDSHIFT_PASSWORD"}
    kind = {"kind": "redshift", "sslmode": "disable", **login}
    layout = {"match": ["*.users"], "distkey": "id", "sortkey": ["name"]}
    config["sinks"] += [
        {"name": "first", "database": f"{fresh_name}_1", "iam_role": ROLE, "tables": [layout], **kind},
        {"name": "second", "database": f"{fresh_name}_2", **kind},
    ]
    config["links"] += [{"from": "db", "to": "first"}, {"from": "db", "to": "second", "tables": ["*.users"]}]
    case.file.write_text(yaml.safe_dump(config))
    names = [f"{fresh_name}_{number}" for number in (1, 2)]
    with closing(log_in(redshift)) as connection:
        for name in names:
            run(connection, f"CREATE DATABASE {name}")
        yield case
        for name in names:
            run(connection, f"DROP DATABASE {name}")


def penstock(case: PipelineCase, *arguments: str) -> tuple[int, str]:
    """Run a command on the pipeline; its exit code and all that it says."""
    command, *options = arguments
    done = subprocess.run(
        [sys.executable, "-m", "penstock", command, str(case.file), *options],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    return done.returncode, (done.stdout + done.stderr)[-60_000:]


@contextmanager
def running(case: PipelineCase, redshift: RedshiftServer) -> Iterator[Callable[[str, int], None]]:
    """Let the pipeline run; what waits until a database (`first`, `second`) has so many users."""
    log = case.file.with_name("run.log")
    with log.open("wb") as out:
        command = tethered([sys.executable, "-m", "penstock", "run", str(case.file)])
        process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)

    def wait(name: str, wanted: int) -> None:
        deadline = time.monotonic() + RUN_SECONDS
        while count(case, redshift, name) != wanted:
            assert process.poll() is None, log.read_text()[-4000:]
            assert time.monotonic() < deadline, log.read_text()[-4000:]
            time.sleep(0.5)

    try:
        yield wait
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


def count(case: PipelineCase, redshift: RedshiftServer, name: str) -> int:
    """How many users a database has, -1 for no table."""
    number = [sink.name for sink in case.spec.sinks].index(name)
    if not rows(case, redshift, number, "SELECT 1 FROM pg_class WHERE relname = 'users'"):
        return -1
    ((found,),) = rows(case, redshift, number, f"SELECT COUNT(*) FROM {case.database}.users")
    return int(str(found))


def rows(case: PipelineCase, redshift: RedshiftServer, number: int, query: str) -> list[tuple[object, ...]]:
    database = case.spec.sinks[number].database  # type: ignore[union-attr]
    with closing(log_in(redshift, dbname=database)) as connection:
        return run(connection, query)


def test_redshifts_have_what_the_source_has_whatever_ends_on_the_way(
    case: PipelineCase, redshift: RedshiftServer
) -> None:
    case.write(*TABLES)
    checked, said = penstock(case, "check", "--connect")
    assert checked == 0, said
    assert said.count("COPY reads our files") == 2
    log = case.file.with_name("killed.log")
    assert carry_apart(case.file, None, {VARIABLE: "load.positions_set:3"}, log) == -signal.SIGKILL, log.read_text()
    case.run_once()
    case.write(
        "UPDATE users SET name = 'Ada Lovelace', body = x'01' WHERE id = 1",
        "ALTER TABLE users ADD COLUMN karma BIGINT NOT NULL DEFAULT 7, MODIFY name VARCHAR(60)",
        "DELETE FROM users WHERE id = 2",
        "INSERT INTO users (id, name, body, karma) VALUES (4, REPEAT('é', 60), 'x', 1)",
        "INSERT INTO log VALUES ('b')",
    )
    case.run_once()

    case.assert_equal()
    columns = f"id, name, score, TO_HEX(body), doc, karma FROM {case.database}.users ORDER BY id"
    found = rows(case, redshift, 1, f"SELECT {columns}")
    assert [row[:2] for row in found] == [(1, "Ada Lovelace"), (3, "\\N"), (4, "é" * 60)]
    assert [row[3:] for row in found] == [("01", '{"a": [1]}', 7), ("", "null", 7), ("78", None, 1)]
    assert rows(case, redshift, 2, f"SELECT {columns}") == found
    logged = f"SELECT what, COUNT(*) FROM {case.database}.log GROUP BY what ORDER BY what"
    assert rows(case, redshift, 1, logged) == [("a", 2), ("b", 1), (None, 1)]
    assert rows(case, redshift, 2, "SELECT 1 FROM pg_class WHERE relname = 'log'") == []
    of_users = f"\"schema\" = '{case.database}' AND \"table\" = 'users'"
    spread = f"SELECT diststyle, sortkey1 FROM svv_table_info WHERE {of_users}"
    assert rows(case, redshift, 1, spread) == [("KEY(id)", "name")]
    count = f"SELECT COUNT(*) AS n FROM {case.database}.users"
    code, said = penstock(case, "sql", count, "--sink", "second")
    assert (code, "3" in said) == (0, True), said
    assert {row.key for row in audited(case).rows} == set()
    rows_changed(case, redshift, f"UPDATE {case.database}.users SET name = name || ' ' WHERE id = 3")
    (row,) = audited(case).rows
    assert (row.key, dict(row.columns)) == (("3",), {"name": ("\\N", "\\N ")})


def audited(case: PipelineCase) -> TableFindings:
    """What an audit of the first Redshift finds of the users."""
    audit = AuditSpec(source="db", sink="first", tables=("*.users",))
    (found,) = run_audit(case.spec, audit, lambda _: None).tables
    assert (found.source_rows, found.not_compared) == (3, ())
    return found


def rows_changed(case: PipelineCase, redshift: RedshiftServer, statement: str) -> None:
    """Change rows of the first Redshift behind the pipeline's back."""
    with closing(log_in(redshift, dbname=case.spec.sinks[1].database)) as connection:  # type: ignore[union-attr]
        run(connection, statement)


@pytest.mark.nightly
@pytest.mark.timeout(900 + DOWN_SECONDS)
def test_a_cluster_that_is_away_holds_no_other_up_and_catches_up(case: PipelineCase, redshift: RedshiftServer) -> None:
    with Proxy("redshift", redshift.port) as proxy:
        config = yaml.safe_load(case.file.read_text())
        (first,) = [sink for sink in config["sinks"] if sink["name"] == "first"]
        first["port"] = proxy.port
        case.file.write_text(yaml.safe_dump(config))
        case.write(*TABLES)
        with running(case, redshift) as wait:
            wait("first", 3)
            wait("second", 3)

            proxy.refuse()
            number, end = 3, time.monotonic() + DOWN_SECONDS
            while time.monotonic() < end:
                number += 1
                case.write(f"INSERT INTO users (id, name, body) VALUES ({number}, 'away', '')")
                time.sleep(1)
            wait("second", number)
            left = count(case, redshift, "first")
            told = json.loads(penstock(case, "status", "--json")[1])

            proxy.heal()
            wait("first", number)

    assert left == 3
    assert next(link for link in told["links"] if link["link"] == "db-to-first")["error"] is not None, told
    columns = f"id, name, score, TO_HEX(body), doc FROM {case.database}.users ORDER BY id"
    assert rows(case, redshift, 1, f"SELECT {columns}") == rows(case, redshift, 2, f"SELECT {columns}")

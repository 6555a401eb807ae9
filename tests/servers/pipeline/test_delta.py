"""One source into Delta tables, every night with kill -9 between a commit and the next one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
import yaml
from tests.servers.kinds import first

from penstock.config.audits import AuditSpec
from penstock.config.places import lake_url
from penstock.config.sinks import DeltaSinkSpec
from penstock.ports.queries import ReadLimits
from penstock.spark.delta.query import query_lake
from penstock.spark.delta.session import own_session, spark_url
from penstock.wiring.audit import run_audit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.servers.pipeline.conftest import PipelineCase

    from penstock.core.audit.findings import TableFindings
    from penstock.dev.s3 import S3Server

pytestmark = pytest.mark.usefixtures("spark")

RUN_SECONDS = 240
TABLE = "CREATE TABLE users (id INT PRIMARY KEY, name VARCHAR(40), score DECIMAL(10,2), big BIGINT UNSIGNED)"


def rows(case: PipelineCase, query: str) -> list[tuple[object, ...]]:
    sink = case.spec.sinks[0]
    assert isinstance(sink, DeltaSinkSpec)
    found = query_lake(case.session, lake_url(case.spec, sink), query, ReadLimits())
    return [tuple(row.values()) for row in found.rows.to_pylist()]


def audited(case: PipelineCase) -> Mapping[str, TableFindings]:
    """Audit the lake; the findings by table."""
    report = run_audit(case.spec, AuditSpec(source="db", sink="warehouse"), lambda _: None)
    return {found.table.partition(".")[2]: found for found in report.tables}


def rows_changed(case: PipelineCase, table: str, change: str) -> str:
    """Change rows of the lake behind the pipeline's back; where they are."""
    sink = case.spec.sinks[0]
    assert isinstance(sink, DeltaSinkSpec)
    path = f"{spark_url(lake_url(case.spec, sink))}/{case.database}/{table}"
    own_session(case.session).sql(f"UPDATE delta.`{path}` SET {change}")
    return path


def penstock(case: PipelineCase, command: str, *options: str) -> str:
    """Run a command on the pipeline to its end; what it prints."""
    whole = [sys.executable, "-m", "penstock", command, str(case.file), *options]
    done = subprocess.run(whole, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    return done.stdout


def kill_at(case: PipelineCase, point: str) -> None:
    """Run until the process comes by a place between two writes, where it ends as by kill -9."""
    with (case.file.parent / "run.log").open("wb") as log:
        killed = subprocess.run(
            [sys.executable, "-m", "penstock", "run", str(case.file), "--once"],
            env={**os.environ, "PENSTOCK_CRASH_AT": point},
            stdout=log,
            stderr=log,
            timeout=RUN_SECONDS,
            check=False,
        )
    assert killed.returncode == -signal.SIGKILL, (case.file.parent / "run.log").read_text()[-4000:]


@pytest.fixture
def lake_case(make_case: Callable[..., PipelineCase]) -> PipelineCase:
    """A pipeline into a folder of Delta tables, and its first table with rows."""
    case = make_case()
    config = yaml.safe_load(case.file.read_text())
    config["sinks"] = [{"name": "warehouse", "kind": "delta"}]
    case.file.write_text(yaml.safe_dump(config))
    case.write(TABLE, "INSERT INTO users VALUES (1, 'Ada', 1.50, 18446744073709551615), (2, '', NULL, 0)")
    return case


def assert_same_rows(case: PipelineCase, query: str) -> None:
    """Source and lake answer the same."""
    with case.connect() as connection, connection.cursor() as cursor:
        cursor.execute(query)
        assert rows(case, query) == list(cursor.fetchall())


@pytest.mark.timeout(900)
@pytest.mark.parametrize("point", first(1, "", "lake.committed:2"))
def test_a_lake_equals_its_source_also_after_kill_9_between_two_commits(lake_case: PipelineCase, point: str) -> None:
    case = lake_case

    if point:
        # The table is made before it is filled.
        kill_at(case, point)
    else:
        case.run_once()
    case.write(
        "UPDATE users SET name = 'Ada Lovelace' WHERE id = 1",
        "ALTER TABLE users ADD COLUMN karma BIGINT NOT NULL DEFAULT 7, RENAME COLUMN score TO points",
        "DELETE FROM users WHERE id = 2",
        "INSERT INTO users (id, karma) VALUES (3, 1)",
    )
    case.run_once()

    assert_same_rows(case, f"SELECT id, name, points, big, karma FROM {case.database}.users ORDER BY id")
    assert {name: table.state for name, table in audited(case).items()} == {"users": "equal"}
    lake = rows_changed(case, "users", "points = points + 1 WHERE id = 1")
    found = audited(case)["users"]
    assert {row.key: dict(row.columns) for row in found.rows} == {("1",): {"points": ("1.50", "2.50")}}, lake


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_a_rename_is_finished_after_kill_9_between_its_commits(lake_case: PipelineCase) -> None:
    case = lake_case
    case.run_once()
    case.write("RENAME TABLE users TO people", "INSERT INTO people (id, name) VALUES (4, 'Grace')")

    for point in ("lake.moved", "lake.left"):
        kill_at(case, point)
    case.run_once()

    assert_same_rows(case, f"SELECT id, name, score, big FROM {case.database}.people ORDER BY id")
    sink = case.spec.sinks[0]
    assert isinstance(sink, DeltaSinkSpec)
    assert not (Path(urlsplit(lake_url(case.spec, sink)).path) / case.database / "users").exists()


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_a_lake_on_s3_that_keeps_deleted_rows_and_hides_a_column_equals_its_source_after_kill_9(
    make_case: Callable[..., PipelineCase], s3: S3Server, fresh_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3.secret_access_key)
    case = make_case()
    config = yaml.safe_load(case.file.read_text())
    config["objects"] = {"url": f"s3://{s3.bucket}/{fresh_name}", "endpoint": s3.endpoint}
    config["sinks"] = [{"name": "warehouse", "kind": "delta"}]
    config["links"][0] |= {"deletes": "soft", "columns": {"drop": [f"{case.database}.users.score"]}}
    case.file.write_text(yaml.safe_dump(config))
    case.write(TABLE, "INSERT INTO users VALUES (1, 'Ada', 1.50, 18446744073709551615), (2, '', NULL, 0)")
    kill_at(case, "lake.recorded:2")
    case.write(
        "UPDATE users SET name = 'Ada Lovelace' WHERE id = 1",
        "ALTER TABLE users ADD COLUMN karma BIGINT NOT NULL DEFAULT 7",
        "DELETE FROM users WHERE id = 2",
        "INSERT INTO users (id, karma) VALUES (3, 1)",
    )

    penstock(case, "run", "--once")

    there = f"SELECT *, _deleted_at IS NULL AS living FROM {case.database}.users ORDER BY id"
    found = [json.loads(line) for line in penstock(case, "sql", there, "--json").splitlines()]
    assert list(found[0]) == ["id", "name", "big", "karma", "_deleted_at", "living"]
    assert [row["id"] for row in found if not row["living"]] == [2]
    with case.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT id, name, karma FROM {case.database}.users ORDER BY id")
        assert [(row["id"], row["name"], row["karma"]) for row in found if row["living"]] == list(cursor.fetchall())
    users = audited(case)["users"]
    assert (users.state, [each.column for each in users.not_compared], users.rows) == ("equal", ["score"], ())

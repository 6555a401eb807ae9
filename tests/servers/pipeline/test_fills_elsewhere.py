"""A Redshift, a Snowflake or a folder of Delta tables that comes when files are gone is filled under writes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest
import yaml
from tests.servers.redshift_case import log_in, run
from tests.servers.snowflake_case import connect, merge

from penstock.config.audits import AuditSpec
from penstock.config.crash_points import VARIABLE
from penstock.core.snapshots import Status
from penstock.dev.redshift.cluster import ROLE
from penstock.wiring.audit import run_audit
from penstock.wiring.open import OBJECTS_LINK
from penstock.wiring.snapshots import read_snapshots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers.pipeline.conftest import PipelineCase

    from penstock.dev.redshift import RedshiftServer
    from penstock.dev.s3 import S3Server
    from penstock.dev.snowflake import SnowflakeServer

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

_NEW = "db-to-new"
_ROWS = 9_000
"""Three chunks."""
_TABLES = (
    "CREATE TABLE users (id INT PRIMARY KEY, name VARCHAR(40), score DECIMAL(10,2), body VARBINARY(9), at DATETIME(6))",
    f"INSERT INTO users SELECT seq, CONCAT('n', seq), seq / 4, x'00ff', '2024-02-29 01:02:03' FROM seq_1_to_{_ROWS}",
    "CREATE TABLE old (id INT PRIMARY KEY, n INT)",
    "INSERT INTO old SELECT seq, 0 FROM seq_1_to_50",
    "CREATE TABLE gone (id INT PRIMARY KEY)",
    "INSERT INTO gone VALUES (1)",
    "CREATE TABLE log (what VARCHAR(20))",
    "INSERT INTO log VALUES ('a'), ('a'), (NULL)",
)


@pytest.fixture
def make_worn_case(make_case: Callable[..., PipelineCase]) -> Callable[..., PipelineCase]:
    """Make a pipeline whose files are gone; keywords say where they are."""

    def make(**objects: object) -> PipelineCase:
        case = make_case()
        change_config(case, lambda config: config.update(objects={"keep_hours": 0, **objects}))
        case.write(*_TABLES)
        case.run_once()
        case.write("DROP TABLE gone", "RENAME TABLE old TO moved", "UPDATE users SET score = 1 WHERE id < 100")
        for number in range(2):
            case.write(
                f"INSERT INTO log VALUES ('{number}')", f"UPDATE users SET score = score + 1 WHERE id = {number}"
            )
            case.run_once()
        assert case.records(OBJECTS_LINK)[-1]["files_from"] > 0
        return case

    return make


def change_config(case: PipelineCase, change: Callable[[dict[str, object]], None]) -> None:
    config = yaml.safe_load(case.file.read_text())
    change(config)
    case.file.write_text(yaml.safe_dump(config))


def add_target(case: PipelineCase, **sink: object) -> None:
    """Give the pipeline a second target, called `new`."""

    def add(config: dict[str, object]) -> None:
        for key, value in (("sinks", {"name": "new", **sink}), ("links", {"from": "db", "to": "new"})):
            listed = config[key]
            assert isinstance(listed, list)
            listed.append(value)

    change_config(case, add)


@contextmanager
def writes(case: PipelineCase) -> Iterator[None]:
    """Change rows at random while a `with` block lasts."""
    stopping, drawn = threading.Event(), random.Random(5)  # noqa: S311 - no secrets
    failed: list[BaseException] = []

    def write() -> None:
        try:
            with closing(case.connect()) as connection, connection.cursor() as cursor:
                while not stopping.wait(0.02):
                    row = drawn.randint(1, _ROWS)
                    cursor.execute(f"UPDATE users SET score = score + 1, name = 'changed' WHERE id = {row}")
                    cursor.execute(f"DELETE FROM users WHERE id = {drawn.randint(1, _ROWS)}")
                    cursor.execute(f"REPLACE INTO users VALUES ({drawn.randint(1, 2 * _ROWS)}, 'new', 2, NULL, NULL)")
                    cursor.execute(f"UPDATE moved SET n = n + 1 WHERE id = {row % 50}")
        except BaseException as error:  # noqa: BLE001 - it is told
            failed.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(30)
    assert failed == []


def fill(case: PipelineCase, point: str = "") -> None:
    """Run the pipeline with its new target under writes; that is killed once on its way, at `point` if one is given."""
    with writes(case):
        if point:
            for link in (_NEW, "db", OBJECTS_LINK):
                case.run_once(link)
            kill_at(case, point)
        case.run_once()
    case.run_once()
    asked = read_snapshots(case.spec)
    assert {(each.table, each.status) for each in asked} == {
        (f"{case.database}.{table}", Status.DONE) for table in ("users", "moved")
    }


def kill_at(case: PipelineCase, point: str) -> None:
    """Load the new target by a process of its own until `point`."""
    command = [sys.executable, "-m", "penstock", "run", str(case.file), "--once", "--only", _NEW]
    environment = {**os.environ, VARIABLE: point}
    killed = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert killed.returncode == -signal.SIGKILL, (killed.stdout + killed.stderr)[-4000:]


def assert_equal(case: PipelineCase) -> None:
    """Both targets have what the source has, and nothing of tables that it dropped."""
    for sink in ("warehouse", "new"):
        report = run_audit(case.spec, AuditSpec(source="db", sink=sink), lambda _: None)
        found = {each.table.partition(".")[2]: each for each in report.tables}
        for table in ("users", "moved"):
            wrong = [(row.key, row.state, dict(row.columns)) for row in found[table].rows]
            assert (found[table].state, found[table].why, wrong) == ("equal", "", []), (sink, table)


@pytest.mark.parametrize("point", ["", "load.positions_set:2"])
def test_a_redshift_is_filled(
    make_worn_case: Callable[..., PipelineCase],
    redshift: RedshiftServer,
    s3: S3Server,
    fresh_name: str,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3.secret_access_key)
    monkeypatch.setenv("REDSHIFT_PASSWORD", redshift.password)
    url = f"s3://{s3.bucket}/{fresh_name}"
    case = make_worn_case(url=url, endpoint=s3.endpoint, format="csv", compression="gzip", inline_bytes_max=1024)
    login = {"host": redshift.host, "port": redshift.port, "user": redshift.user, "password_env": "REDSHIFT_PASSWORD"}
    add_target(case, kind="redshift", sslmode="disable", database=fresh_name, iam_role=ROLE, **login)
    with closing(log_in(redshift)) as connection:
        run(connection, f"CREATE DATABASE {fresh_name}")

        fill(case, point)

        assert_equal(case)
        with closing(log_in(redshift, dbname=fresh_name)) as there:
            logged = run(there, f"SELECT what, COUNT(*) FROM {case.database}.log GROUP BY what ORDER BY what")
            assert logged == [("0", 1), ("1", 1), ("a", 2), (None, 1)]
        run(connection, f"DROP DATABASE {fresh_name}")


@pytest.mark.parametrize("point", ["", "load.positions_set:2"])
def test_tables_of_a_snowflake_are_filled(
    make_worn_case: Callable[..., PipelineCase], snowflake: SnowflakeServer, point: str
) -> None:
    case = make_worn_case()
    add_target(case, landing=False, **_login(snowflake, case))

    fill(case, point)

    assert_equal(case)


@pytest.mark.parametrize("point", ["", "load.finished:2"])
def test_a_landing_zone_of_a_snowflake_is_filled(
    make_worn_case: Callable[..., PipelineCase], snowflake: SnowflakeServer, point: str
) -> None:
    case = make_worn_case()
    add_target(case, **_login(snowflake, case))

    fill(case, point)

    with closing(connect(snowflake, f"DB_{case.database}")) as connection:
        merge(connection)
    assert_equal(case)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("point", ["", "lake.committed:2"])
def test_a_folder_of_delta_tables_is_filled(make_worn_case: Callable[..., PipelineCase], point: str) -> None:
    case = make_worn_case()
    add_target(case, kind="delta")

    fill(case, point)

    assert_equal(case)


def _login(server: SnowflakeServer, case: PipelineCase) -> dict[str, object]:
    login = {"kind": "snowflake", "account": server.account, "user": server.user, "database": f"DB_{case.database}"}
    address = {"host": server.host, "port": server.port, "protocol": "http"}
    return {**login, **address, "password_env": "SNOWFLAKE_PASSWORD", "warehouse": "WH"}

"""The accounts of a CRM: businesses, their owners and ad packages in one table, by the example in the docs."""

from __future__ import annotations

import signal
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest
import yaml
from tests.servers.pipeline.joined_reviews import Workload
from tests.servers.pipeline.killing import kill_everything, wait_for

if TYPE_CHECKING:
    from random import Random

    import pymysql
    from tests.servers.pipeline.user_pipeline import UserPipeline

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "account.yaml"
TABLES = {
    "business": "business_id INT PRIMARY KEY, name VARCHAR(40), address VARCHAR(80), owner_id BIGINT",
    "owner": "id BIGINT PRIMARY KEY, name VARCHAR(40), email VARCHAR(80)",
    "ad_package": "package_id INT PRIMARY KEY, biz_id INT, status VARCHAR(10), monthly_cents INT NOT NULL",
}
COLUMNS = "business_id, name, owner_id, package_id, monthly_cents, package_id_key, owner_name, owner_email"
JOINED = """
    SELECT b.business_id, b.name, b.owner_id, p.package_id, p.monthly_cents, coalesce(p.package_id, 0), o.name, o.email
    FROM business b
    LEFT JOIN ad_package p ON p.biz_id = b.business_id AND p.status = 'running'
    LEFT JOIN owner o ON o.id = b.owner_id
    ORDER BY 1, 6
"""
WAREHOUSE = f"SELECT {COLUMNS} FROM crm.account ORDER BY 1, 6"


def add_accounts(pipeline: UserPipeline) -> None:
    """Add the example to a pipeline whose source and schema have other names."""
    text = EXAMPLE.read_text().replace("shopdb.shop.", f"db.{pipeline.database}.")
    (pipeline.directory / "account.yaml").write_text(text)
    config = yaml.safe_load(pipeline.file.read_text())
    config["joins"] = ["account.yaml"]
    config["links"].append({"from": "account", "to": "warehouse"})
    pipeline.file.write_text(yaml.safe_dump(config))


def change_accounts(rng: Random) -> str:
    """Some change of businesses, their owners and ad packages."""
    business, owner, package = rng.randrange(40), rng.randrange(12), rng.randrange(1, 120)
    owner_or_none = rng.choice(["NULL", str(owner)])
    status = rng.choice(["running", "paused", "ended"])
    return rng.choice(
        [
            f"REPLACE INTO business VALUES ({business}, 'name {rng.randrange(9)}', 'street', {owner_or_none})",
            f"UPDATE business SET owner_id = {owner_or_none} WHERE business_id BETWEEN {business} AND {business + 3}",
            f"DELETE FROM business WHERE business_id = {business} AND {rng.randrange(3)} = 0",
            f"REPLACE INTO owner VALUES ({owner}, 'owner {rng.randrange(9)}', 'mail{rng.randrange(9)}@x.org')",
            f"DELETE FROM owner WHERE id = {owner} AND {rng.randrange(3)} = 0",
            f"REPLACE INTO ad_package VALUES ({package}, {business}, '{status}', {rng.randrange(9)}00)",
            f"UPDATE ad_package SET status = '{status}' WHERE package_id BETWEEN {package} AND {package + 4}",
            f"UPDATE ad_package SET biz_id = {business} WHERE package_id = {package}",
            f"DELETE FROM ad_package WHERE package_id = {package}",
        ]
    )


def join_by_duckdb(source: pymysql.Connection) -> list[tuple[object, ...]]:
    """What DuckDB makes of the source's rows."""
    with duckdb.connect() as oracle, source.cursor() as cursor:
        for table, columns in TABLES.items():
            oracle.execute(f"CREATE TABLE {table} ({columns})")
            cursor.execute(f"SELECT * FROM {table}")
            rows = [tuple(row) for row in cursor.fetchall()]
            if rows:
                oracle.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
        return oracle.execute(JOINED).fetchall()


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_accounts_are_what_sql_makes_of_the_source_after_kill_9_under_live_load(user_pipeline: UserPipeline) -> None:
    pipeline = user_pipeline
    add_accounts(pipeline)
    pipeline.execute(*(f"CREATE TABLE {table} ({columns})" for table, columns in TABLES.items()))
    pipeline.execute("INSERT INTO business VALUES (100, 'first', '', NULL)")
    with Workload(pipeline.connect, 3, change_accounts) as workload:
        running = pipeline.start()
        await_change(pipeline)
        time.sleep(5)
        kill_everything(running, pipeline.home)
        running = pipeline.start()
        await_change(pipeline)
    with closing(pipeline.connect()) as source:
        expected = join_by_duckdb(source)

    wait_for(lambda: running.poll() is not None or pipeline.rows(WAREHOUSE) == expected)
    running.send_signal(signal.SIGINT)
    running.wait(120)

    assert workload.changes > 100
    assert pipeline.rows(WAREHOUSE) == expected
    assert {row[3] is None for row in expected} == {row[6] is None for row in expected} == {True, False}


def await_change(pipeline: UserPipeline) -> None:
    """Return when the warehouse has rows, and then others."""
    wait_for(lambda: pipeline.rows(WAREHOUSE) is not None)
    before = pipeline.rows(WAREHOUSE)
    wait_for(lambda: pipeline.rows(WAREHOUSE) != before)

"""One pipeline, run through once and again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import yaml

from penstock.core.errors import UnfitServerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.pipeline.conftest import PipelineCase

USERS = "CREATE TABLE users (id INT PRIMARY KEY, name VARCHAR(40), score DECIMAL(10,2), seen DATETIME(6))"


START_CAPTURE = """
import sys
from pathlib import Path
from penstock.config.load import load
from penstock.links.capture.spec import CaptureSpec
from penstock.wiring.capture import start_capture
start_capture(CaptureSpec(load(Path(sys.argv[1])), "db", 1))
"""


def test_a_second_run_without_changes_writes_nothing(make_case: Callable[..., PipelineCase]) -> None:
    case = make_case()
    case.write(USERS, "INSERT INTO users (id) VALUES (1), (2), (3)")
    case.run_once()
    messages, files = case.messages(), case.query("SELECT * FROM penstock.positions")

    case.run_once()

    assert case.messages() == messages
    assert case.query("SELECT * FROM penstock.positions") == files


def test_what_was_brought_in_before_a_source_failed_is_carried_all_the_same(
    make_case: Callable[..., PipelineCase],
) -> None:
    case = make_case()
    case.write(USERS, "INSERT INTO users (id) VALUES (1)")
    case.run_once()
    case.write("INSERT INTO users (id) VALUES (2)")
    case.run_once(only="db")
    config = yaml.safe_load(case.file.read_text())
    config["sources"][0]["user"] = "nobody"
    case.file.write_text(yaml.safe_dump(config))

    with pytest.raises(UnfitServerError):
        case.run_once()

    assert [row["id"] for row in case.query(f"SELECT id FROM {case.database}.users ORDER BY id")] == [1, 2]


def test_a_changed_primary_key_deletes_the_old_row(make_case: Callable[..., PipelineCase]) -> None:
    case = make_case()
    case.write(USERS, "INSERT INTO users (id) VALUES (1), (2)")
    case.run_once()
    case.write("UPDATE users SET id = id + 10 WHERE id = 1")

    case.run_once()

    assert [row["id"] for row in case.query(f"SELECT id FROM {case.database}.users ORDER BY id")] == [2, 11]
    case.assert_equal()


@pytest.mark.nightly
def test_new_and_altered_tables_arrive_without_help(make_case: Callable[..., PipelineCase]) -> None:
    case = make_case()
    case.write(USERS, "INSERT INTO users (id, name) VALUES (1, 'a'), (2, 'b')")
    case.run_once()
    case.write(
        "INSERT INTO users (id, name) VALUES (3, 'before')",
        "ALTER TABLE users ADD COLUMN karma INT NOT NULL DEFAULT 7",
        "INSERT INTO users (id, name, karma) VALUES (4, 'after', 8)",
        "ALTER TABLE users MODIFY COLUMN karma BIGINT NOT NULL DEFAULT 7",
        "INSERT INTO users (id, name, karma) VALUES (5, 'wide', 5000000000)",
        "UPDATE users SET karma = 6000000000 WHERE id = 1",
        "CREATE TABLE orders (id BIGINT UNSIGNED PRIMARY KEY, note TEXT)",
        "INSERT INTO orders VALUES (18446744073709551615, 'largest')",
        "CREATE TABLE empty_one (id INT PRIMARY KEY)",
    )

    case.run_once()

    case.assert_equal()
    assert set(case.compare()) == {"users", "orders", "empty_one"}


def test_a_table_without_a_key_is_a_change_log_that_adds_up(make_case: Callable[..., PipelineCase]) -> None:
    case = make_case()
    case.write(
        "CREATE TABLE audit (who VARCHAR(20), what INT)", "INSERT INTO audit VALUES ('a', 1), ('a', 1), (NULL, 2)"
    )
    case.run_once()
    case.write(
        "INSERT INTO audit VALUES ('b', 3)",
        "UPDATE audit SET what = 9 WHERE who = 'a' LIMIT 1",
        "DELETE FROM audit WHERE who IS NULL",
    )

    case.run_once()

    case.assert_equal()


def test_a_value_that_cannot_be_carried_stops_its_table_only(make_case: Callable[..., PipelineCase]) -> None:
    case = make_case()
    case.write(USERS, "CREATE TABLE visits (id INT PRIMARY KEY, day DATE)", "INSERT INTO visits VALUES (1, NULL)")
    case.run_once()
    case.write(
        "INSERT INTO users (id) VALUES (1)",
        "SET sql_mode = ''",
        "INSERT INTO visits VALUES (2, '2024-02-29'), (3, '0000-00-00')",
        "INSERT INTO users (id) VALUES (2)",
    )

    case.run_once()

    stopped = case.records("db")[-1]["stopped"]
    assert set(stopped) == {f"{case.database}.visits"}
    assert "visits.day stopped at" in stopped[f"{case.database}.visits"]["error"]
    assert "0000-00-00 is no date" in stopped[f"{case.database}.visits"]["error"]
    assert "zero_dates" in stopped[f"{case.database}.visits"]["hint"]
    assert case.compare()["users"].differences == 0
    assert case.query(f"SELECT id FROM {case.database}.visits") == [{"id": 1}]


@pytest.mark.nightly
def test_rows_of_several_partitions_arrive(make_case: Callable[..., PipelineCase]) -> None:
    case = make_case(partitions=3)
    case.write(USERS, "INSERT INTO users (id) SELECT seq FROM seq_1_to_2000")
    case.run_once()
    case.write(
        "UPDATE users SET score = id WHERE id % 3 = 0",
        "ALTER TABLE users ADD COLUMN karma INT DEFAULT 4",
        "UPDATE users SET karma = id WHERE id % 5 = 0",
        "ALTER TABLE users ALTER COLUMN karma SET DEFAULT 9",
        "INSERT INTO users (id) SELECT seq FROM seq_3001_to_3100",
        "DELETE FROM users WHERE id % 7 = 0",
    )

    case.run_once()

    case.assert_equal()


def test_a_broker_without_transactions_is_told_from_the_state_database(make_case: Callable[..., PipelineCase]) -> None:
    case = make_case(partitions=2)
    config = yaml.safe_load(case.file.read_text())
    config["kafka"]["transactions"] = False
    case.file.write_text(yaml.safe_dump(config))
    case.write(
        USERS,
        "CREATE TABLE audit (who VARCHAR(20), what INT)",
        "INSERT INTO users (id) SELECT seq FROM seq_1_to_300",
        "INSERT INTO audit VALUES ('a', 1)",
    )
    # A copy that was broken off: its rows are visible, and some of them will be gone by the next one.
    environment = {**os.environ, "PENSTOCK_CRASH_AT": "watermarks.flushed", "PYTHONPATH": os.pathsep.join(sys.path)}
    program = [sys.executable, "-c", START_CAPTURE, str(case.file)]
    case.spec.home.mkdir(exist_ok=True)
    assert subprocess.run(program, env=environment, check=False).returncode == -signal.SIGKILL
    assert {len(found) for found in case.messages().values()} == {300, 1}
    case.write("DELETE FROM users WHERE id <= 100", "DELETE FROM audit", "INSERT INTO audit VALUES ('b', 2)")
    case.run_once()
    case.assert_equal()

    case.write(
        "UPDATE users SET name = 'x' WHERE id % 2 = 0",
        "ALTER TABLE users ADD COLUMN karma INT DEFAULT 4",
        "FLUSH BINARY LOGS",
        "DELETE FROM users WHERE id % 3 = 0",
        "FLUSH BINARY LOGS",
        "INSERT INTO audit VALUES ('b', 2)",
    )
    case.run_once()
    case.assert_equal()

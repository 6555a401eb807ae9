"""A pipeline once through on Spark, as `penstock run FILE --once` does it; what it carries, the other tests show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.pipeline.conftest import PipelineCase

pytestmark = pytest.mark.usefixtures("spark")
USERS = "CREATE TABLE users (id INT PRIMARY KEY, name VARCHAR(40), score DECIMAL(10,2), seen DATETIME(6))"


def test_existing_rows_and_later_changes_arrive(make_case: Callable[..., PipelineCase]) -> None:
    case = make_case()
    case.write(
        USERS,
        "INSERT INTO users VALUES (1, 'Ada', 1.50, '2026-01-02 03:04:05.678901'), (2, NULL, -0.01, NULL)",
    )
    case.run_once()
    case.assert_equal()

    case.write(
        "INSERT INTO users VALUES (3, 'Grace', 99999999.99, NULL)",
        "UPDATE users SET name = 'Ada Lovelace' WHERE id = 1",
        "DELETE FROM users WHERE id = 2",
    )
    case.run_once()

    case.assert_equal()


def test_a_backlog_of_many_files_arrives_in_order(make_case: Callable[..., PipelineCase]) -> None:
    case = make_case(backlog_tasks=3)
    case.write(USERS, "INSERT INTO users (id, score) SELECT seq, 0 FROM seq_1_to_50")
    case.run_once()
    for number in range(7):
        case.write(
            f"UPDATE users SET score = {number} WHERE id > {number * 5}",
            f"DELETE FROM users WHERE id = {number * 3 + 1}",
            f"INSERT INTO users (id) VALUES ({number + 100})",
            "FLUSH BINARY LOGS",
        )
        if number == 4:
            case.write("ALTER TABLE users ADD COLUMN karma INT DEFAULT 4")

    with capture_logs() as logs:
        case.run_once()

    case.assert_equal()
    assert "backlog published" in {log["event"] for log in logs}

"""XA transactions through a whole pipeline that is stopped between PREPARE and COMMIT, live and in the backlog."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.servers.kinds import first

from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.pipeline.conftest import PipelineCase


def prepare(case: PipelineCase, name: str, *statements: str) -> None:
    """Prepare on a connection that is gone afterwards."""
    with closing(case.connect()) as connection, connection.cursor() as cursor:
        for statement in (f"XA START '{name}'", *statements, f"XA END '{name}'", f"XA PREPARE '{name}'"):
            cursor.execute(statement)


def test_rows_arrive_with_their_commit_in_whichever_run_that_is(make_case: Callable[..., PipelineCase]) -> None:
    case = make_case()
    case.write("CREATE TABLE t (id INT PRIMARY KEY, name TEXT)", "INSERT INTO t VALUES (1, 'copied')")
    case.run_once()

    prepare(case, "a", "INSERT INTO t VALUES (2, 'a')", "UPDATE t SET name = 'a' WHERE id = 1")
    prepare(case, "b", "INSERT INTO t VALUES (3, 'b')")
    case.write("FLUSH BINARY LOGS", "INSERT INTO t VALUES (4, 'between')")
    case.run_once()
    case.assert_equal()
    assert len(case.records("db")[-1]["prepared"]) == 2

    case.write("XA COMMIT 'a'", "XA ROLLBACK 'b'")
    case.run_once()
    case.assert_equal()
    assert case.records("db")[-1]["prepared"] == []
    assert [len(messages) for messages in case.messages().values()] == [4]


@pytest.mark.parametrize("tasks", first(1, 1, 2))
def test_any_number_of_files_may_be_between_prepare_and_commit(
    make_case: Callable[..., PipelineCase], tasks: int
) -> None:
    case = make_case(backlog_tasks=tasks)
    case.write("CREATE TABLE t (id INT PRIMARY KEY, name TEXT)")
    case.run_once()

    case.write("INSERT INTO t VALUES (50, 'plain')", "FLUSH BINARY LOGS")
    for number in range(1, 4):
        prepare(case, f"x{number}", f"INSERT INTO t VALUES ({number}, 'x')")
        case.write("FLUSH BINARY LOGS", f"INSERT INTO t VALUES ({number + 10}, 'plain')")
    for number in (2, 1, 3):
        case.write(f"XA COMMIT 'x{number}'", "FLUSH BINARY LOGS", f"INSERT INTO t VALUES ({number + 20}, 'plain')")
    case.write("FLUSH BINARY LOGS", "INSERT INTO t VALUES (30, 'plain')", "FLUSH BINARY LOGS")
    case.run_once()

    case.assert_equal()
    assert [len(messages) for messages in case.messages().values()] == [11]


def test_a_source_says_how_many_bytes_of_prepared_rows_are_held(make_case: Callable[..., PipelineCase]) -> None:
    case = make_case(prepared_xa_mebibytes_max=1)
    case.write("CREATE TABLE t (id INT PRIMARY KEY, name LONGTEXT)", "INSERT INTO t VALUES (1, 'copied')")
    case.run_once()
    prepare(case, "large", "INSERT INTO t VALUES (2, REPEAT('x', 2000000))")

    with pytest.raises(PenstockError, match="over 1 MiB of rows") as caught:
        case.run_once()

    assert "prepared_xa_mebibytes_max" in caught.value.hint
    case.file.write_text(case.file.read_text().replace("prepared_xa_mebibytes_max: 1", "prepared_xa_mebibytes_max: 2"))
    case.write("XA COMMIT 'large'")
    case.run_once()
    case.assert_equal()

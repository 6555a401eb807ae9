"""Columns that come, go and get other names before a join begins and while it goes on, beside SQL's join."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
import yaml
from tests.servers.pipeline.killing import kill_everything, wait_for
from tests.servers.pipeline.test_join_upgrades import announced
from typer.testing import CliRunner

from penstock.cli.joinery import app
from penstock.wiring.join_rebuild import OpenedRebuild, open_rebuild

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.pipeline.conftest import PipelineCase
    from tests.servers.pipeline.user_pipeline import UserPipeline

WAIT_SECONDS = 300.0
FIRST = (
    "CREATE TABLE business (business_id INT PRIMARY KEY, city VARCHAR(20))",
    "CREATE TABLE review (review_id INT PRIMARY KEY, biz_id INT, stars INT, l INT, r INT, gone INT)",
    "INSERT INTO business VALUES (1, 'Ulm'), (2, 'Bonn')",
    "INSERT INTO review VALUES (10, 1, 5, 1, -1, 7), (11, 1, 4, 2, -2, 7), (12, 2, 3, 3, -3, 7), (13, 9, 2, 4, -4, 7)",
)
BEFORE = (
    "ALTER TABLE review ADD COLUMN status VARCHAR(20) DEFAULT 'open'",
    "ALTER TABLE review ALTER COLUMN status SET DEFAULT 'closed'",
    "ALTER TABLE review RENAME COLUMN stars TO rating",
    "ALTER TABLE review RENAME COLUMN l TO r, RENAME COLUMN r TO l",
    "ALTER TABLE review DROP COLUMN gone",
    "ALTER TABLE review ADD COLUMN gone INT",
    "ALTER TABLE review ADD COLUMN n INT NOT NULL DEFAULT 5",
    "ALTER TABLE business ADD COLUMN area INT DEFAULT 3",
    "INSERT INTO business VALUES (3, 'Trier', 4)",
    "INSERT INTO review VALUES (14, 3, 1, -5, 5, 'open', 8, 6), (15, 3, 1, -6, 6, 'closed', 8, 6)",
)
"""Those of before have the status open, and the joined ones that are not touched any more are in the state by then."""
MEANWHILE = (
    "ALTER TABLE review RENAME COLUMN rating TO points",
    "ALTER TABLE review RENAME COLUMN l TO r, RENAME COLUMN r TO l",
    "ALTER TABLE review ADD COLUMN more INT DEFAULT 1",
    "UPDATE review SET points = 2, l = 20 WHERE review_id = 11",
    "UPDATE review SET biz_id = 2 WHERE review_id = 13",
    "INSERT INTO review VALUES (16, 1, 9, 7, -7, 'open', NULL, 5, 2)",
)
JOINED = (
    "SELECT r.review_id, r.{0}, r.{1}, r.{2}, r.status, r.gone, r.n, b.city, b.area FROM review r"
    " JOIN business b ON r.biz_id = b.business_id AND r.status = 'open' ORDER BY 1"
)


def with_join(case: PipelineCase | UserPipeline) -> str:
    """Add the join to a case, and return its name."""
    name = f"open_{case.database}"
    join = {
        "join": [
            {"topic": f"{case.database}.review", "join_keys": ["biz_id"], "where": "status = 'open'"},
            {
                "topic": f"{case.database}.business",
                "join_keys": ["business_id"],
                "aliases": [{"from": "business_id", "to": "biz_id"}],
            },
        ],
        "output": {"namespace": "joined", "source": name, "pkey": ["review_id"]},
    }
    (case.file.parent / "open.yaml").write_text(yaml.safe_dump(join))
    config = yaml.safe_load(case.file.read_text())
    config["joins"] = ["open.yaml"]
    config["links"].append({"from": name, "to": "warehouse"})
    case.file.write_text(yaml.safe_dump(config))
    return name


def assert_joined(
    case: PipelineCase, name: str, in_source: tuple[str, str, str], in_join: tuple[str, str, str]
) -> None:
    """The warehouse has what the source says, whose columns may have other names than the join's."""
    with closing(case.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(JOINED.format(*in_source))
        expected = [tuple(row) for row in cursor.fetchall()]
    columns = ", ".join(["review_id", *in_join, "status", "gone", "n", "city", "area"])
    found = [tuple(row.values()) for row in case.query(f"SELECT {columns} FROM joined.{name} ORDER BY 1")]
    assert len(expected) >= 4
    assert found == expected
    verified = CliRunner().invoke(app, ["verify", str(case.file)])
    assert verified.exit_code == 0, verified.output


@pytest.mark.nightly
def test_columns_that_change_before_and_while_a_join_goes_on_keep_their_values(
    make_case: Callable[..., PipelineCase],
) -> None:
    case = make_case(partitions=2)
    case.write(*FIRST)
    case.run_once()
    case.write(*BEFORE)
    case.run_once()
    name = with_join(case)
    checked = CliRunner().invoke(app, ["check", str(case.file)])
    assert checked.exit_code == 0, checked.output

    case.run_once()
    assert_joined(case, name, ("rating", "l", "r"), ("rating", "l", "r"))

    case.write(*MEANWHILE)
    case.run_once()
    assert_joined(case, name, ("points", "r", "l"), ("rating", "l", "r"))

    # Without the alias, the warehouse could not tell a new name from a column that goes and one that comes.
    file = case.file.parent / "open.yaml"
    join = yaml.safe_load(file.read_text())
    join["join"][0]["aliases"] = [{"from": "points", "to": "rating"}]
    file.write_text(yaml.safe_dump(join))
    told = CliRunner().invoke(app, ["rebuild", str(case.file), name])
    assert told.exit_code == 0, told.output
    case.run_once()
    assert_joined(case, name, ("points", "l", "r"), ("rating", "l", "r"))


@pytest.mark.nightly
def test_a_column_that_becomes_wider_is_wider_in_the_joined_table(make_case: Callable[..., PipelineCase]) -> None:
    case = make_case()
    case.write(
        "CREATE TABLE review (review_id INT PRIMARY KEY, biz_id INT, status VARCHAR(9), v SMALLINT, note VARCHAR(10))",
        "CREATE TABLE business (business_id INT PRIMARY KEY, city VARCHAR(9))",
        "INSERT INTO review VALUES (1, 7, 'open', 1, 'short')",
        "INSERT INTO business VALUES (7, 'Ulm')",
    )
    name = with_join(case)
    case.run_once()
    case.write(
        "ALTER TABLE review MODIFY v INT, MODIFY note VARCHAR(300), MODIFY status VARCHAR(30)",
        "INSERT INTO review VALUES (2, 7, 'open', 70000, REPEAT('x', 200))",
    )

    case.run_once()
    case.run_once()

    found = case.query(f"SELECT review_id, v, length(note) AS characters FROM joined.{name} ORDER BY 1")
    assert [tuple(row.values()) for row in found] == [(1, 1, 5), (2, 70000, 200)]
    assert case.records(name)[-1]["generation"] == 1
    verified = CliRunner().invoke(app, ["verify", str(case.file)])
    assert verified.exit_code == 0, verified.output


@pytest.mark.nightly
def test_a_column_that_becomes_wider_while_a_join_is_made_again_is_wider_when_that_is_done(
    make_case: Callable[..., PipelineCase],
) -> None:
    case = make_case()
    case.write(
        "CREATE TABLE review (review_id INT PRIMARY KEY, biz_id INT, status VARCHAR(9), v SMALLINT)",
        "CREATE TABLE business (business_id INT PRIMARY KEY, city VARCHAR(9))",
        "INSERT INTO review VALUES (1, 7, 'open', 1)",
        "INSERT INTO business VALUES (7, 'Ulm')",
    )
    name = with_join(case)
    case.run_once()
    told = CliRunner().invoke(app, ["rebuild", str(case.file), name])
    assert told.exit_code == 0, told.output
    begun = open_rebuild(case.spec, name, case.records(name)[-1]["epoch"])
    assert isinstance(begun, OpenedRebuild)
    begun.letters.close()
    case.write(
        "ALTER TABLE review MODIFY v INT, MODIFY status VARCHAR(30)", "INSERT INTO review VALUES (2, 7, 'open', 70000)"
    )
    case.run_once()
    case.write("UPDATE review SET v = 80000 WHERE review_id = 1")
    case.run_once()

    found = case.query(f"SELECT review_id, v FROM joined.{name} ORDER BY 1")
    assert [tuple(row.values()) for row in found] == [(1, 80000), (2, 70000)]
    assert announced(case, name) == ["schema", "schema"]
    verified = CliRunner().invoke(app, ["verify", str(case.file)])
    assert verified.exit_code == 0, verified.output


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_a_join_that_runs_goes_on_by_itself_when_columns_change(user_pipeline: UserPipeline) -> None:
    pipeline = user_pipeline
    name = with_join(pipeline)
    found = f"SELECT review_id, rating, l, r, status, gone, n, city, area FROM joined.{name} ORDER BY 1"
    again = (
        "ALTER TABLE review RENAME COLUMN l TO r, RENAME COLUMN r TO l",
        "ALTER TABLE review DROP COLUMN more",
        "ALTER TABLE review MODIFY COLUMN points INT AFTER n",
        "UPDATE review SET l = l + 100, points = 7",
    )
    pipeline.execute(*FIRST, *BEFORE)

    def is_joined(columns: tuple[str, str, str]) -> bool:
        with closing(pipeline.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(JOINED.format(*columns))
            expected = [tuple(row) for row in cursor.fetchall()]
        return len(expected) >= 4 and pipeline.rows(found) == expected

    running = pipeline.start()
    wait_for(lambda: running.poll() is not None or is_joined(("rating", "l", "r")), WAIT_SECONDS)
    pipeline.execute(*MEANWHILE)
    wait_for(lambda: running.poll() is not None or is_joined(("points", "r", "l")), WAIT_SECONDS)
    pipeline.execute(*again)
    kill_everything(running, pipeline.home)
    running = pipeline.start()
    wait_for(lambda: running.poll() is not None or is_joined(("points", "l", "r")), WAIT_SECONDS)
    kill_everything(running, pipeline.home)

    assert is_joined(("points", "l", "r"))
    assert f"the columns of db.{pipeline.database}.review changed" in (pipeline.directory / "run.log").read_text()


@pytest.mark.nightly
def test_a_join_key_that_came_later_joins_older_rows_by_its_default(make_case: Callable[..., PipelineCase]) -> None:
    case = make_case()
    case.write(
        "CREATE TABLE business (business_id INT PRIMARY KEY, city VARCHAR(20))",
        "CREATE TABLE review (review_id INT PRIMARY KEY, stars INT)",
        "INSERT INTO business VALUES (1, 'Ulm'), (2, 'Bonn')",
        "INSERT INTO review VALUES (10, 5), (11, 4)",
        "ALTER TABLE review ADD COLUMN status VARCHAR(20) DEFAULT 'open'",
    )
    case.run_once()
    case.write(
        "ALTER TABLE review ADD COLUMN biz_id INT DEFAULT 2",
        "INSERT INTO review VALUES (12, 3, 'open', 1), (13, 2, 'open', NULL)",
    )
    case.run_once()
    name = with_join(case)
    checked = CliRunner().invoke(app, ["check", str(case.file)])
    case.run_once()

    assert checked.exit_code == 0, checked.output
    assert case.query(f"SELECT review_id, city FROM joined.{name} ORDER BY 1") == [
        {"review_id": 10, "city": "Bonn"},
        {"review_id": 11, "city": "Bonn"},
        {"review_id": 12, "city": "Ulm"},
    ]

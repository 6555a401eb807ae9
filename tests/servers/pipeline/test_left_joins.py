"""Left joins, filters and joins by other keys in a pipeline, and what SQL makes of the source's tables."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
import yaml
from tests.servers.pipeline.joined_reviews import add_join
from tests.servers.pipeline.test_join_upgrades import FIRST as REVIEWED
from tests.servers.pipeline.test_join_upgrades import assert_verified, change, changes, rows
from typer.testing import CliRunner

from penstock.adapters.kafka.described import forgetful_topics
from penstock.cli.joinery import app
from penstock.core.errors import UsageError
from penstock.wiring.open import open_topic_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from tests.servers.pipeline.conftest import PipelineCase

TABLES = (
    "CREATE TABLE owner (id INT PRIMARY KEY, name VARCHAR(40))",
    "CREATE TABLE business (business_id INT PRIMARY KEY, name VARCHAR(40), owner_id BIGINT)",
    "CREATE TABLE review (review_id BIGINT PRIMARY KEY, biz_id INT, stars INT)",
)
FIRST = (
    "INSERT INTO owner VALUES (1, 'ann'), (2, 'bob')",
    "INSERT INTO business VALUES (1, 'one', 1), (2, 'two', 1), (3, 'three', NULL), (4, 'four', 9)",
    "INSERT INTO review VALUES (10, 1, 5), (11, 1, 4), (12, 2, 1), (13, NULL, 5), (14, 3, 5), (15, 8, 5)",
)
THEN = (
    "DELETE FROM review WHERE review_id = 14",
    "UPDATE review SET stars = 1 WHERE review_id = 10",
    "UPDATE review SET stars = 5 WHERE review_id = 12",
    "UPDATE review SET biz_id = 4 WHERE review_id = 13",
    "UPDATE owner SET name = 'Ann' WHERE id = 1",
    "INSERT INTO owner VALUES (9, 'zoe')",
    "DELETE FROM owner WHERE id = 2",
    "UPDATE business SET owner_id = 2 WHERE business_id = 2",
)
LAST = (
    "TRUNCATE TABLE review",
    "INSERT INTO review VALUES (10, 3, 5), (11, 3, 5), (12, 3, 1)",
    "DELETE FROM business WHERE business_id = 1",
    "INSERT INTO business VALUES (5, 'five', 9)",
)
JOINED = (
    "SELECT b.business_id, b.name, b.owner_id, r.review_id, r.stars, coalesce(r.review_id, 0), o.name FROM business b"
    " LEFT JOIN review r ON b.business_id = r.biz_id AND r.stars >= 4 LEFT JOIN owner o ON b.owner_id = o.id"
    " ORDER BY 1, 6"
)


def with_join(case: PipelineCase) -> PipelineCase:
    """Add the join to a case: businesses, with good reviews and owners where there are any."""
    name = name_of(case)
    join = {
        "join": [
            {"topic": f"{case.database}.business", "join_keys": ["business_id"]},
            {
                "topic": f"{case.database}.review",
                "type": "left",
                "join_keys": ["biz_id"],
                "aliases": [{"from": "biz_id", "to": "business_id"}],
                "where": "stars >= 4",
            },
            {
                "topic": f"{case.database}.owner",
                "type": "left",
                "join_keys": ["id"],
                "left_keys": ["owner_id"],
                "aliases": [{"from": "id", "to": "owner_id"}, {"from": "name", "to": "owner"}],
            },
        ],
        "output": {
            "namespace": "joined",
            "source": name,
            "pkey": ["business_id", "review_id_key"],
            "partitions": 3,
            "retention_hours": "unlimited",
        },
    }
    (case.file.parent / "business.yaml").write_text(yaml.safe_dump(join))
    config = yaml.safe_load(case.file.read_text())
    config["joins"] = ["business.yaml"]
    config["links"].append({"from": name, "to": "warehouse"})
    case.file.write_text(yaml.safe_dump(config))
    return case


def name_of(case: PipelineCase) -> str:
    """What the join of a case is called; pipelines of tests share a broker."""
    return f"left_{case.database}"


def assert_joined(case: PipelineCase) -> None:
    """The warehouse has what the source says."""
    with closing(case.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(JOINED)
        expected = [tuple(row) for row in cursor.fetchall()]
    columns = "business_id, name, owner_id, review_id, stars, review_id_key, owner"
    found = case.query(f"SELECT {columns} FROM joined.{name_of(case)} ORDER BY 1, 6")
    assert [tuple(row.values()) for row in found] == expected


@pytest.mark.nightly
def test_left_joins_filters_and_other_keys_are_as_in_the_source(make_case: Callable[..., PipelineCase]) -> None:
    case = with_join(make_case(partitions=2))
    case.write(*TABLES, *FIRST)
    case.run_once()
    assert_joined(case)

    case.write(*THEN, *LAST)
    case.run_once()
    assert_joined(case)
    topics = [f"{name}.joined.{name}" for name in (name_of(case), f"{name_of(case)}_step1")]
    with closing(open_topic_log(case.spec)) as log:
        assert [count for _, count in log.shapes(topics).values()] == [3, 3]
        assert forgetful_topics(log.admin, set(topics)) == []
    told = CliRunner().invoke(app, ["check", str(case.file)]).stdout
    assert "review_id_key is added: 0 where there is no match, for a key cannot be NULL" in told
    assert "only rows where stars >= 4" in told


@pytest.mark.nightly
def test_spark_joins_as_the_pipeline_without_it(make_case: Callable[..., PipelineCase], spark: SparkSession) -> None:
    del spark
    case = with_join(make_case())
    case.write(*TABLES, *FIRST)
    case.run_once()
    assert_joined(case)

    case.write(*THEN)
    case.run_once()
    assert_joined(case)

    case.write(*LAST)
    case.run_once()
    assert_joined(case)


@pytest.mark.nightly
def test_a_table_that_is_joined_with_itself_is_as_in_the_source(make_case: Callable[..., PipelineCase]) -> None:
    case = make_case()
    name, topic = f"staff_{case.database}", f"{case.database}.staff"
    boss = [{"from": old, "to": f"boss_{old}"} for old in ("id", "name", "boss")]
    streams = [
        {"topic": topic, "join_keys": ["boss"]},
        {"topic": topic, "type": "left", "join_keys": ["id"], "aliases": boss},
    ]
    output = {"namespace": "joined", "source": name, "pkey": ["id"]}
    (case.file.parent / "staff.yaml").write_text(yaml.safe_dump({"join": streams, "output": output}))
    config = yaml.safe_load(case.file.read_text())
    config["links"].append({"from": name, "to": "warehouse"})
    case.file.write_text(yaml.safe_dump({**config, "joins": ["staff.yaml"]}))
    case.write(
        "CREATE TABLE staff (id INT PRIMARY KEY, name VARCHAR(40), boss INT)",
        "INSERT INTO staff VALUES (1, 'ann', NULL), (2, 'bob', 1), (3, 'cid', 2), (4, 'dan', 9), (5, 'eve', 5)",
    )
    case.run_once()
    case.write("UPDATE staff SET name = 'Bob', boss = 2 WHERE id = 2", "DELETE FROM staff WHERE id = 1")
    case.run_once()

    found = case.query(f"SELECT id, name, boss_id, boss_name FROM joined.{name} ORDER BY 1")
    assert [tuple(row.values()) for row in found] == [
        (2, "Bob", 2, "Bob"),
        (3, "cid", 2, "Bob"),
        (4, "dan", None, None),
        (5, "eve", 5, "eve"),
    ]
    assert_verified(case)


@pytest.mark.nightly
def test_what_a_later_step_cannot_join_is_told_before_anything_is_written(
    make_case: Callable[..., PipelineCase],
) -> None:
    case = with_join(make_case())
    file = case.file.parent / "business.yaml"
    file.write_text(file.read_text().replace("left_keys:\n  - owner_id", "left_keys:\n  - owner"))
    case.write(*TABLES, *FIRST)

    with pytest.raises(UsageError, match="left_keys names owner, and no stream above has a field of that name"):
        case.run_once()

    assert case.records(f"{name_of(case)}_step1") == []
    told = CliRunner().invoke(app, ["check", str(case.file)])
    assert told.exit_code == UsageError.exit_code
    assert "left_keys names owner" in told.stderr
    file.write_text(file.read_text().replace("left_keys:\n  - owner", "left_keys:\n  - owner_id"))
    told = CliRunner().invoke(app, ["check", str(case.file)])
    assert told.exit_code == 0
    assert f"{name_of(case)}_step1 (not made yet) by owner_id" in told.stdout


@pytest.mark.nightly
def test_an_alias_of_a_left_join_leaves_the_key_and_what_stands_in_for_it_as_they_are(
    make_case: Callable[..., PipelineCase],
) -> None:
    case = make_case()
    name = add_join(case.file, case.database)
    file = case.file.parent / "business_review.yaml"
    join = yaml.safe_load(file.read_text())
    review, business = join["join"]
    join["join"] = [business, review | {"type": "left", "exclude_fields": ["content"]}]
    join["output"]["pkey"] = ["business_id", "review_id"]
    file.write_text(yaml.safe_dump(join))
    case.write(*REVIEWED, "INSERT INTO business VALUES (3, 'three', 'Jena')")
    case.run_once()

    change(case, {"aliases": [{"from": "stars", "to": "points"}]})
    case.write("UPDATE business SET city = 'Kiel' WHERE business_id = 3")
    case.run_once()

    told = [event.column_renames for event in changes(case, name)]
    assert told == [(), (("stars", "points"),)]
    found = [(row["review_id"], row["review_id_key"], row["city"]) for row in rows(case, name)]
    assert sorted(found, key=lambda each: str(each[1])) == [
        (None, 0, "Kiel"),
        (10, 10, "Ulm"),
        (11, 11, "Ulm"),
        (12, 12, "Bonn"),
    ]
    assert_verified(case)

"""A join in a pipeline: what comes into the warehouse is SQL's join of the source's tables."""

from __future__ import annotations

import shutil
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
import yaml

from penstock.core.errors import PenstockError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from tests.servers.pipeline.conftest import PipelineCase

BUSINESSES = "CREATE TABLE business (business_id INT PRIMARY KEY, name VARCHAR(40), city VARCHAR(40))"
REVIEWS = (
    "CREATE TABLE user_review (review_id BIGINT PRIMARY KEY, biz_id BIGINT, stars DECIMAL(2,1) NOT NULL COMMENT 'Of 5',"
    " content TEXT)"
)
JOINED = (
    "SELECT r.biz_id, r.stars, b.city, r.review_id FROM user_review r JOIN business b ON r.biz_id = b.business_id"
    " ORDER BY r.review_id"
)
FIRST = (
    BUSINESSES,
    REVIEWS,
    "INSERT INTO business VALUES (1, 'one', 'Ulm'), (2, 'two', 'Bonn'), (3, 'three', NULL)",
    "INSERT INTO user_review VALUES (10, 1, 4.5, 'good'), (11, 1, 2.0, 'bad'), (12, NULL, 3.0, ''), (13, 9, 1.0, '')",
)


def name_of(case: PipelineCase) -> str:
    """The join's name, which its topic begins with: cases share a broker."""
    return f"reviews_{case.database}"


def with_join(case: PipelineCase, **output: object) -> PipelineCase:
    """Add the join of the original's documentation to a case, and a link that loads it."""
    join = {
        "join": [
            {
                "topic": f"db.{case.database}.user_review",
                "join_keys": ["biz_id"],
                "exclude_fields": ["content", "review_id"],
            },
            {
                "topic": f"{case.database}.business",
                "join_keys": ["business_id"],
                "aliases": [{"from": "business_id", "to": "biz_id"}],
                "exclude_fields": ["name"],
            },
        ],
        "output": {
            "namespace": "joined",
            "source": name_of(case),
            "doc": "Reviews",
            "pkey": ["business_id"],
            **output,
        },
    }
    (case.file.parent / "business_review.yaml").write_text(yaml.safe_dump(join))
    config = yaml.safe_load(case.file.read_text())
    config["joins"] = ["business_review.yaml"]
    config["links"].append({"from": name_of(case), "to": "warehouse"})
    case.file.write_text(yaml.safe_dump(config))
    return case


def assert_joined(case: PipelineCase) -> None:
    """The warehouse has what the source says, and something."""
    with closing(case.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(JOINED)
        expected = [tuple(row) for row in cursor.fetchall()]
    found = case.query(f"SELECT biz_id, stars, city, review_id FROM joined.{name_of(case)} ORDER BY review_id")
    assert expected
    assert [tuple(row.values()) for row in found] == expected


def test_the_joined_table_is_the_join_of_the_sources_tables(make_case: Callable[..., PipelineCase]) -> None:
    case = with_join(make_case(partitions=2))
    case.write(*FIRST)
    case.run_once()
    assert_joined(case)

    case.write(
        "UPDATE business SET city = 'Berlin' WHERE business_id = 1",
        "UPDATE user_review SET biz_id = 2 WHERE review_id = 10",
        "UPDATE user_review SET review_id = 110, biz_id = 3 WHERE review_id = 11",
        "UPDATE user_review SET content = 'not joined' WHERE review_id = 110",
        "INSERT INTO business VALUES (9, 'nine', 'Trier')",
        "ALTER TABLE business ADD COLUMN phone VARCHAR(20)",
        "INSERT INTO business VALUES (4, 'four', 'Jena', '4')",
        "INSERT INTO user_review VALUES (14, 4, 5.0, '')",
        "DELETE FROM business WHERE business_id = 3",
    )
    case.run_once()
    assert_joined(case)

    case.run_once()
    assert_joined(case)
    assert [record["batch"] for record in case.records(name_of(case))][-1] < 5


def test_a_truncate_of_an_input_empties_the_joined_table(make_case: Callable[..., PipelineCase]) -> None:
    case = with_join(make_case(partitions=2))
    case.write(*FIRST)
    case.run_once()

    case.write("TRUNCATE TABLE user_review", "INSERT INTO user_review VALUES (10, 2, 1.5, 'after')")
    case.run_once()

    assert_joined(case)


def test_a_lost_state_is_made_again_from_the_topics(make_case: Callable[..., PipelineCase]) -> None:
    case = with_join(make_case())
    case.write(*FIRST)
    case.run_once()
    shutil.rmtree(case.spec.home / "joins")
    case.write("DELETE FROM user_review WHERE review_id = 10")

    case.run_once()

    assert_joined(case)


def test_a_changed_file_stops_the_join_and_nothing_else(make_case: Callable[..., PipelineCase]) -> None:
    case = with_join(make_case())
    case.write(*FIRST)
    case.run_once()
    file = case.file.parent / "business_review.yaml"
    file.write_text(file.read_text().replace("- name", "- city"))
    case.write("INSERT INTO user_review VALUES (20, 1, 1.5, 'more')")

    with pytest.raises(UsageError) as refused:
        case.run_once()

    assert "was changed" in refused.value.message
    case.assert_equal()


def test_a_stream_that_nobody_carries_is_refused_before_anything_is_written(
    make_case: Callable[..., PipelineCase],
) -> None:
    case = with_join(make_case())
    case.write(BUSINESSES)

    with pytest.raises(UsageError) as refused:
        case.run_once()

    assert "user_review, and this pipeline carries no such table" in refused.value.message
    assert case.records(name_of(case)) == []


def test_a_renamed_input_ends_the_join(make_case: Callable[..., PipelineCase]) -> None:
    case = with_join(make_case())
    case.write(*FIRST)
    case.run_once()
    case.write("RENAME TABLE business TO shops")

    with pytest.raises(PenstockError) as ended:
        case.run_once()

    assert "were renamed" in ended.value.message


def test_spark_makes_the_join_that_sql_makes(make_case: Callable[..., PipelineCase], spark: SparkSession) -> None:
    del spark
    case = with_join(make_case(partitions=2))
    case.write(*FIRST)
    case.run_once()
    assert_joined(case)

    case.write(
        "UPDATE business SET city = 'Berlin' WHERE business_id = 1",
        "UPDATE user_review SET biz_id = 2 WHERE review_id = 10",
        "DELETE FROM business WHERE business_id = 3",
        "INSERT INTO business VALUES (9, 'nine', 'Trier')",
    )
    case.run_once()
    assert_joined(case)

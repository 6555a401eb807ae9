"""A join that is made again goes on as it was: with what it cannot read, without an input, and as a step."""

from __future__ import annotations

import json
import re
from contextlib import closing
from threading import Event
from typing import TYPE_CHECKING

import pytest
import yaml
from confluent_kafka import Producer
from tests.servers.pipeline import test_left_joins
from tests.servers.pipeline.join_status import status_of
from tests.servers.pipeline.joined_reviews import add_join
from tests.servers.pipeline.killing import wait_for
from tests.servers.pipeline.test_join_foreign_messages import forget
from tests.servers.pipeline.test_join_upgrades import FIRST, announced, assert_verified, change, rebuild, rows
from typer.testing import CliRunner

from penstock.cli.deadletters import app as deadletters
from penstock.jobs.in_process_join import join_in_process
from penstock.jobs.join_link import JoinLink
from penstock.jobs.link import RebuildWork
from penstock.wiring.join_mirror import JoinMirror
from penstock.wiring.open import open_pipeline_state
from penstock.wiring.rebuild_marks import end_rebuild

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession
    from tests.servers.pipeline.conftest import PipelineCase

    from penstock.ports.state import State


def join_link(case: PipelineCase, name: str, state: State) -> AbstractContextManager[JoinLink]:
    """The join as the instance that ran last has it."""
    return closing(JoinLink(case.spec, name, state, case.records(name)[-1]["epoch"], may_wait=True))


@pytest.fixture
def renamed(make_case: Callable[..., PipelineCase]) -> Iterator[tuple[PipelineCase, str]]:
    """A pipeline whose join reads a table that was renamed, and is to be made again without it; and the join's name."""
    case = make_case()
    name = add_join(case.file, case.database)
    case.write(*FIRST, "CREATE TABLE tag (tag_id INT PRIMARY KEY, business INT, tag VARCHAR(9))")
    case.write("INSERT INTO tag VALUES (1, 1, 'old'), (2, 1, 'new'), (3, 2, 'new')")
    file = case.file.parent / "business_review.yaml"
    without = file.read_text()
    join = yaml.safe_load(without)
    alias = {"from": "business", "to": "biz_id"}
    join["join"].append({"topic": f"db.{case.database}.tag", "join_keys": ["business"], "aliases": [alias]})
    file.write_text(yaml.safe_dump(join))
    case.run_once()
    case.write("RENAME TABLE tag TO tags", "UPDATE user_review SET stars = 1.0 WHERE review_id = 10")
    case.run_once(only="db")
    file.write_text(without)
    rebuild(case, name)
    yield case, name
    assert [(row["review_id"], row["stars"]) for row in rows(case, name)] == [(10, 1), (11, 2), (12, 3)]
    assert announced(case, name) == ["schema", "create"]
    assert_verified(case)


@pytest.mark.nightly
def test_a_join_whose_input_was_renamed_stands_still_and_status_says_why(renamed: tuple[PipelineCase, str]) -> None:
    case, name = renamed
    with closing(open_pipeline_state(case.spec)) as state:
        with join_link(case, name, state) as link:
            work = link.open()
            assert isinstance(work, RebuildWork)
            assert work.going_on is not None
            join_in_process(case.spec, work.going_on)
        with closing(JoinMirror(case.spec, name, state)) as mirror:
            place = mirror.refresh()

    assert re.search(r"; made again from 0 of \d+; it stands still: the join .* were renamed", place.position)
    assert {record["generation"] for record in case.records(name)} == {1}
    case.run_once()


@pytest.mark.nightly
def test_spark_makes_a_join_again_without_the_input_that_was_renamed(
    renamed: tuple[PipelineCase, str], spark: SparkSession
) -> None:
    del spark
    case, _ = renamed

    case.run_once()


@pytest.mark.nightly
def test_a_join_whose_topics_lost_messages_goes_on_as_it_was_and_status_says_what_to_do(
    make_case: Callable[..., PipelineCase],
) -> None:
    case = make_case()
    name = add_join(case.file, case.database)
    case.write(*FIRST)
    case.run_once()
    forget(case, f"db.{case.database}.business", 1)
    rebuild(case, name)
    case.write("UPDATE business SET city = 'Kiel' WHERE business_id = 2")

    case.run_once()

    assert rows(case, name)[-1]["city"] == "Kiel"
    told = status_of(case, name)
    assert f"; it is not made again, and goes on as it was: the join {name} needs all of db." in told
    assert f"penstock joinery rebuild FILE {name} --cancel" in told
    rebuild(case, name, "--cancel")
    case.write("UPDATE business SET city = 'Trier' WHERE business_id = 2")
    case.run_once()
    assert rows(case, name)[-1]["city"] == "Trier"
    assert "made again" not in status_of(case, name)


def assert_one_letter(case: PipelineCase) -> None:
    """A message that comes while a join is made again, and cannot be read, is one dead letter."""
    name = add_join(case.file, case.database)
    case.write(*FIRST)
    case.run_once()
    business = f"db.{case.database}.business"
    producer = Producer({"bootstrap.servers": case.bootstrap_servers})
    producer.produce(business, b"hello", key=b"key")
    assert producer.flush(30) == 0
    change(case, {"exclude_fields": []})
    rebuild(case, name)

    case.run_once(only=name)

    newest = case.records(name)[-1]
    assert (newest["generation"], newest["letters"]) == (2, 1)
    shown = CliRunner().invoke(deadletters, ["show", str(case.file), name, "--json"])
    assert [each["value_text"] for each in json.loads(shown.stdout)["letters"]] == ["hello"]


@pytest.mark.nightly
def test_a_message_that_cannot_be_read_is_one_dead_letter(make_case: Callable[..., PipelineCase]) -> None:
    assert_one_letter(make_case())


@pytest.mark.nightly
def test_spark_sets_a_message_that_cannot_be_read_aside_once(
    make_case: Callable[..., PipelineCase], spark: SparkSession
) -> None:
    del spark
    assert_one_letter(make_case())


@pytest.mark.nightly
def test_a_step_goes_on_as_it_was_until_the_one_that_it_reads_is_made_again(
    make_case: Callable[..., PipelineCase], spark: SparkSession
) -> None:
    from penstock.spark.link_query import LinkQuery  # noqa: PLC0415 - PySpark takes a second
    from penstock.spark.queries import QueryPlace  # noqa: PLC0415

    case = test_left_joins.with_join(make_case())
    case.write(*test_left_joins.TABLES, *test_left_joins.FIRST)
    case.run_once()
    name = test_left_joins.name_of(case)
    step = f"{name}_step1"
    file = case.file.parent / "business.yaml"
    file.write_text(file.read_text().replace("stars >= 4", "stars >= 1"))
    rebuild(case, step)
    case.write("UPDATE owner SET name = 'somebody else'")
    case.run_once(only="db")
    batch = case.records(name)[-1]["batch"]
    with closing(open_pipeline_state(case.spec)) as state, join_link(case, name, state) as link:
        query = LinkQuery(case.spec, link, Event())
        running = query.start(QueryPlace(spark, once=False))
        try:
            wait_for(lambda: case.records(name)[-1]["batch"] > batch)
            waits = running.isActive
            end_rebuild(case.spec, step)
            wait_for(lambda: not running.isActive)
        finally:
            running.stop()
        failed = query.failure()
        then = link.open()

    assert waits
    assert query.goes_on
    assert failed is None
    assert running.exception() is None
    assert {record["generation"] for record in case.records(name)} == {1}
    assert isinstance(then, RebuildWork)

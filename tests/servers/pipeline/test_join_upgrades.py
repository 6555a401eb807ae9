"""A join whose file changes goes on with its state where it can, and is made again where it is told to."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.servers.pipeline.joined_reviews import BUSINESSES, REVIEWS, add_join, inspect
from typer.testing import CliRunner

from penstock.cli.joinery import app
from penstock.core.errors import FencedError, UsageError
from penstock.core.schema_changes import SchemaChange
from penstock.wiring.join_rebuild import OpenedRebuild, open_rebuild
from penstock.wiring.open import open_registry, open_topic_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from tests.servers.pipeline.conftest import PipelineCase

FIRST = (
    BUSINESSES,
    REVIEWS,
    "INSERT INTO business VALUES (1, 'one', 'Ulm'), (2, 'two', 'Bonn')",
    "INSERT INTO user_review VALUES (10, 1, 4.5, 'good'), (11, 1, 2.0, 'bad'), (12, 2, 3.0, '')",
)


def _carried(make_case: Callable[..., PipelineCase]) -> tuple[PipelineCase, str]:
    """A pipeline whose join has carried the first rows, and the join's name."""
    case = make_case()
    name = add_join(case.file, case.database)
    case.write(*FIRST)
    case.run_once()
    return case, name


def change(case: PipelineCase, of_business: dict[str, Any]) -> None:
    """Say something else of the businesses in the join's file."""
    file = case.file.parent / "business_review.yaml"
    join = yaml.safe_load(file.read_text())
    join["join"][1] |= of_business
    file.write_text(yaml.safe_dump(join))


def rows(case: PipelineCase, name: str) -> list[dict[str, object]]:
    return case.query(f"SELECT * FROM joined.{name} ORDER BY review_id")


@pytest.mark.nightly
def test_an_alias_and_a_field_that_goes_need_no_replay(make_case: Callable[..., PipelineCase]) -> None:
    case, name = _carried(make_case)
    aliases = [{"from": "business_id", "to": "biz_id"}, {"from": "city", "to": "town"}]

    change(case, {"aliases": aliases})
    case.write("UPDATE business SET city = 'Trier' WHERE business_id = 2")
    case.run_once()
    renamed = rows(case, name)
    verified = CliRunner().invoke(app, ["verify", str(case.file)])
    change(case, {"exclude_fields": ["name", "city"], "aliases": aliases[:1]})
    case.write("UPDATE user_review SET stars = 5.0 WHERE review_id = 10", "UPDATE business SET city = 'Kiel'")
    case.run_once()
    case.write("DELETE FROM user_review WHERE review_id = 11")
    case.run_once()

    assert [row["town"] for row in renamed] == ["Ulm", "Ulm", "Trier"]
    assert "city" not in renamed[0]
    assert verified.exit_code == 0, verified.output
    assert [row["review_id"] for row in rows(case, name)] == [10, 12]
    assert {record["generation"] for record in case.records(name)} == {1}
    again = CliRunner().invoke(app, ["verify", str(case.file)])
    assert again.exit_code == 0, again.output


def rebuild(case: PipelineCase, name: str, *options: str) -> None:
    """Ask for a rebuild, as a user does."""
    told = CliRunner().invoke(app, ["rebuild", str(case.file), name, *options])
    assert told.exit_code == 0, told.output


def announced(case: PipelineCase, name: str) -> list[str]:
    """What became of the joined table, in order."""
    return [str(each.kind) for each in changes(case, name)]


def changes(case: PipelineCase, name: str) -> list[SchemaChange]:
    """The schema-change events of the joined table, in order."""
    topic = f"penstock.{case.spec.pipeline}.schemas"
    with closing(open_topic_log(case.spec)) as log:
        end = log.ends([(topic, 0)])[topic, 0]
        told = [SchemaChange.from_json(value) for part in log.read(topic, 0, 0, end) for _, value in part]
    return [each for each in told if each.source == name]


def assert_verified(case: PipelineCase) -> None:
    verified = CliRunner().invoke(app, ["verify", str(case.file)])
    assert verified.exit_code == 0, verified.output


def assert_a_field_is_added(case: PipelineCase) -> None:
    """A field that was excluded comes in by a rebuild, which publishes it in one transaction, and no emptied table."""
    name = add_join(case.file, case.database)
    case.write(*FIRST)
    case.run_once()
    before = len(case.messages()[f"{name}.joined.{name}"])
    change(case, {"exclude_fields": []})
    case.write(
        "DELETE FROM user_review WHERE review_id = 11",
        "INSERT INTO business VALUES (3, NULL, 'Jena')",
        "INSERT INTO user_review VALUES (13, 3, 1.0, '')",
    )

    with pytest.raises(UsageError) as refused:
        case.run_once()
    rebuild(case, name)
    case.run_once()

    assert "name was not in the output" in refused.value.message
    assert "penstock joinery rebuild FILE JOIN" in refused.value.hint
    assert [(row["review_id"], row["name"]) for row in rows(case, name)] == [(10, "one"), (12, "two"), (13, None)]
    assert announced(case, name) == ["schema", "schema"]
    # Two rows with the new field, one that went, and one that came.
    assert len(case.messages()[f"{name}.joined.{name}"]) == before + 4
    generations = [record["generation"] for record in case.records(name)]
    assert generations == sorted(generations)
    assert set(generations) == {1, 2}
    assert_verified(case)
    case.write("UPDATE business SET name = 'three' WHERE business_id = 3", "DELETE FROM business WHERE business_id = 2")
    case.run_once()
    assert [(row["review_id"], row["name"]) for row in rows(case, name)] == [(10, "one"), (13, "three")]
    assert {record["generation"] for record in case.records(name)} == {1, 2}
    assert sorted(path.name for path in (case.spec.home / "joins" / name).glob("[0-9]*")) == ["2"]
    assert_verified(case)


@pytest.mark.nightly
def test_an_added_field_is_published_beside_what_there_is(make_case: Callable[..., PipelineCase]) -> None:
    case = make_case()

    assert_a_field_is_added(case)

    (name,) = [each.name for each in case.spec.joins]
    batches = [record["batch"] for record in case.records(name) if record["generation"] == 1]
    # As the join was, it carried what came before its next state took over.
    assert sorted(set(batches)) == [-1, 0, 1]


@pytest.mark.nightly
def test_spark_publishes_an_added_field_beside_what_there_is(
    make_case: Callable[..., PipelineCase], spark: SparkSession
) -> None:
    del spark
    assert_a_field_is_added(make_case(partitions=2))


@pytest.mark.nightly
def test_a_rebuild_that_was_taken_back_leaves_the_join_as_it_is(make_case: Callable[..., PipelineCase]) -> None:
    case, name = _carried(make_case)
    change(case, {"exclude_fields": ["name", "city"], "join_keys": ["name"]})
    rebuild(case, name)
    case.write("UPDATE business SET city = 'Kiel' WHERE business_id = 2")
    case.run_once()
    assert rows(case, name)[-1]["city"] == "Kiel"
    change(case, {"exclude_fields": [], "join_keys": ["business_id"]})
    spec, half = case.spec, case.spec.home / "joins" / name / "2"
    # What a killed run has made of it.
    opened = open_rebuild(spec, name, case.records(name)[-1]["epoch"] + 1)
    assert isinstance(opened, OpenedRebuild)
    opened.letters.close()
    assert half.is_dir()
    (half / "offsets").mkdir()
    (half / "offsets" / "0").write_text(json.dumps({"other": {"0": 7}}))
    change(case, {"exclude_fields": ["name"]})
    rebuild(case, name, "--cancel")

    case.run_once()

    assert not half.exists()
    assert {record["generation"] for record in case.records(name)} == {1}
    assert announced(case, name) == ["schema"]


@pytest.mark.nightly
def test_a_join_whose_state_is_lost_begins_in_an_empty_folder(make_case: Callable[..., PipelineCase]) -> None:
    case, name = _carried(make_case)
    states = case.spec.home / "joins" / name
    # What another instance, or a rebuild, has begun, and did not come to the end of.
    (states / "1").rename(states / "2")
    (states / "2" / "offsets" / "0").rename(states / "2" / "offsets" / "7")

    case.run_once()

    assert case.records(name)[-1]["generation"] == 2
    assert [each.name for each in (states / "2" / "offsets").iterdir()] == ["0"]
    assert [row["review_id"] for row in rows(case, name)] == [10, 11, 12]


@pytest.mark.nightly
def test_rows_go_where_readers_look_though_a_rebuild_with_a_topic_of_its_own_was_taken_back(
    make_case: Callable[..., PipelineCase],
) -> None:
    case = make_case()
    name = add_join(case.file, case.database)
    file = case.file.parent / "business_review.yaml"
    with_stars = file.read_text()
    without = yaml.safe_load(with_stars)
    without["join"][0]["exclude_fields"] += ["stars"]
    file.write_text(yaml.safe_dump(without))
    case.write(*FIRST)
    case.run_once()

    def take_back_after(do: Callable[[OpenedRebuild], object], change_of_a_row: str) -> None:
        file.write_text(with_stars)
        rebuild(case, name)
        opened = open_rebuild(case.spec, name, case.records(name)[-1]["epoch"])
        assert isinstance(opened, OpenedRebuild)
        do(opened)
        opened.letters.close()
        file.write_text(yaml.safe_dump(without))
        rebuild(case, name, "--cancel")
        case.write(change_of_a_row)
        case.run_once()

    def register(opened: OpenedRebuild) -> None:
        """Come as far as a switch that is killed before it has published anything."""
        with closing(open_registry(case.spec)) as registry:
            registry.register(name, opened.job.plan.output)

    take_back_after(lambda _: None, "UPDATE business SET city = 'Trier' WHERE business_id = 2")
    before = changes(case, name)
    take_back_after(register, "UPDATE business SET city = 'Kiel' WHERE business_id = 1")

    assert [each.kind for each in before] == ["schema"]
    first, last = changes(case, name)
    assert last.topic != first.topic
    assert last.follows == first.topic
    assert [row["city"] for row in rows(case, name)] == ["Kiel", "Kiel", "Trier"]
    assert_verified(case)


@pytest.mark.nightly
def test_an_older_instance_is_refused_while_a_newer_one_makes_a_join_again(
    make_case: Callable[..., PipelineCase],
) -> None:
    case, name = _carried(make_case)
    epoch = case.records(name)[-1]["epoch"]
    rebuild(case, name)
    newer = open_rebuild(case.spec, name, epoch + 1)
    assert isinstance(newer, OpenedRebuild)

    with pytest.raises(FencedError):
        open_rebuild(case.spec, name, epoch)

    newer.letters.claim()
    newer.letters.close()


@pytest.mark.nightly
def test_an_output_that_does_not_fit_its_state_is_emptied_and_filled(make_case: Callable[..., PipelineCase]) -> None:
    case, name = _carried(make_case)

    rebuild(case, name, "--empty")
    case.run_once()

    assert announced(case, name) == ["schema", "truncate"]
    assert [row["review_id"] for row in rows(case, name)] == [10, 11, 12]


@pytest.mark.nightly
def test_more_parallelism_comes_with_a_rebuild_that_publishes_nothing(
    make_case: Callable[..., PipelineCase], spark: SparkSession
) -> None:
    del spark
    case, name = _carried(make_case)
    case.write("UPDATE user_review SET stars = 1.0 WHERE review_id = 12")
    case.run_once()
    before = len(case.messages()[f"{name}.joined.{name}"])
    file = case.file.parent / "business_review.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | {"parallelism": 7}))
    rebuild(case, name)
    # What a kill leaves between our commit in Kafka and Spark's own.
    state = case.spec.home / "joins" / name / "1"
    batch = case.records(name)[-1]["batch"]
    for each in (str(batch), f".{batch}.crc"):
        (state / "commits" / each).unlink()

    case.run_once()

    state = case.spec.home / "joins" / name / "2" / "state" / "0"
    assert sorted(int(each.name) for each in state.iterdir() if each.name.isdigit()) == list(range(7))
    assert len(case.messages()[f"{name}.joined.{name}"]) == before
    case.write("UPDATE business SET city = 'Trier' WHERE business_id = 2")
    case.run_once()
    assert [row["city"] for row in rows(case, name)] == ["Ulm", "Ulm", "Trier"]
    assert_verified(case)


@pytest.mark.nightly
def test_another_key_has_the_table_made_anew(make_case: Callable[..., PipelineCase], spark: SparkSession) -> None:
    del spark
    case = make_case()
    name = add_join(case.file, case.database)
    case.write(*FIRST, "CREATE TABLE tag (tag_id INT PRIMARY KEY, business INT, tag VARCHAR(9))")
    case.write("INSERT INTO tag VALUES (1, 1, 'old'), (2, 1, 'new'), (3, 2, 'new')")
    case.run_once()
    file = case.file.parent / "business_review.yaml"
    join = yaml.safe_load(file.read_text())
    alias = {"from": "business", "to": "biz_id"}
    join["join"].append({"topic": f"db.{case.database}.tag", "join_keys": ["business"], "aliases": [alias]})
    file.write_text(yaml.safe_dump(join))

    rebuild(case, name)
    case.run_once()

    assert announced(case, name) == ["schema", "create"]
    found = [(row["review_id"], row["tag"]) for row in case.query(f"SELECT * FROM joined.{name} ORDER BY 4, 5, 6")]
    assert sorted(found) == [(10, "new"), (10, "old"), (11, "new"), (11, "old"), (12, "new")]
    assert_verified(case)


@pytest.mark.nightly
def test_other_inputs_are_refused_and_a_rebuild_takes_what_its_inputs_are_now(
    make_case: Callable[..., PipelineCase],
) -> None:
    case, name = _carried(make_case)
    file = case.file.parent / "business_review.yaml"
    before = file.read_text()
    swapped = yaml.safe_load(before)
    swapped["join"].reverse()
    file.write_text(yaml.safe_dump(swapped))

    with pytest.raises(UsageError, match="are others, or in another order"):
        case.run_once()
    file.write_text(before)
    case.write(
        "ALTER TABLE business ADD COLUMN phone VARCHAR(9)", "UPDATE business SET phone = '4711' WHERE business_id = 1"
    )
    case.run_once()
    assert "phone" not in rows(case, name)[0]
    rebuild(case, name)
    # What a machine that went down has left of a mark.
    (case.spec.home / "joins" / name / "rebuild.json").write_text("")
    case.run_once()

    assert [(row["review_id"], row["phone"]) for row in rows(case, name)] == [(10, "4711"), (11, "4711"), (12, None)]


@pytest.mark.nightly
def test_a_join_goes_on_with_its_state_where_its_home_was_moved_to(
    make_case: Callable[..., PipelineCase], spark: SparkSession
) -> None:
    del spark
    case, name = _carried(make_case)
    before = case.spec.home
    config = yaml.safe_load(case.file.read_text())
    case.file.write_text(yaml.safe_dump(config | {"home": str(before.with_name("another home"))}))

    before.rename(case.spec.home)
    case.write(
        "UPDATE business SET city = 'Trier' WHERE business_id = 2", "DELETE FROM user_review WHERE review_id = 11"
    )
    case.run_once()

    assert [(row["review_id"], row["city"]) for row in rows(case, name)] == [(10, "Ulm"), (12, "Trier")]
    assert {record["generation"] for record in case.records(name)} == {1}
    inspected = inspect(case, name)
    assert inspected.returncode == 0, inspected.stderr
    assert not before.exists()

"""A join whose file changes goes on with its state where it can, and is made again where it is told to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.servers.pipeline.joined_reviews import BUSINESSES, REVIEWS, add_join
from typer.testing import CliRunner

from penstock.cli.joinery import app
from penstock.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from tests.servers.pipeline.conftest import PipelineCase

_FIRST = (
    BUSINESSES,
    REVIEWS,
    "INSERT INTO business VALUES (1, 'one', 'Ulm'), (2, 'two', 'Bonn')",
    "INSERT INTO user_review VALUES (10, 1, 4.5, 'good'), (11, 1, 2.0, 'bad'), (12, 2, 3.0, '')",
)


def change(case: PipelineCase, of_business: dict[str, Any]) -> None:
    """Say something else of the businesses in the join's file."""
    file = case.file.parent / "business_review.yaml"
    join = yaml.safe_load(file.read_text())
    join["join"][1] |= of_business
    file.write_text(yaml.safe_dump(join))


def rows(case: PipelineCase, name: str) -> list[dict[str, object]]:
    return case.query(f"SELECT * FROM joined.{name} ORDER BY review_id")


def test_an_alias_and_a_field_that_goes_need_no_replay(make_case: Callable[..., PipelineCase]) -> None:
    case = make_case()
    name = add_join(case.file, case.database)
    case.write(*_FIRST)
    case.run_once()
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


@pytest.mark.nightly
def test_a_join_that_cannot_go_on_is_rebuilt_when_it_is_told_to(make_case: Callable[..., PipelineCase]) -> None:
    case = make_case()
    name = add_join(case.file, case.database)
    case.write(*_FIRST)
    case.run_once()
    change(case, {"exclude_fields": []})

    with pytest.raises(UsageError) as refused:
        case.run_once()
    told = CliRunner().invoke(app, ["rebuild", str(case.file), name])
    case.run_once()

    assert "name was not in the output" in refused.value.message
    assert "penstock joinery rebuild FILE JOIN" in refused.value.hint
    assert told.exit_code == 0, told.output
    assert [(row["review_id"], row["name"]) for row in rows(case, name)] == [(10, "one"), (11, "one"), (12, "two")]
    verified = CliRunner().invoke(app, ["verify", str(case.file)])
    assert verified.exit_code == 0, verified.output


@pytest.mark.nightly
def test_other_inputs_are_refused_and_a_rebuild_takes_what_its_inputs_are_now(
    make_case: Callable[..., PipelineCase],
) -> None:
    case = make_case()
    name = add_join(case.file, case.database)
    case.write(*_FIRST)
    case.run_once()
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
    told = CliRunner().invoke(app, ["rebuild", str(case.file), name])
    case.run_once()

    assert told.exit_code == 0, told.output
    assert [(row["review_id"], row["phone"]) for row in rows(case, name)] == [(10, "4711"), (11, "4711"), (12, None)]


@pytest.mark.nightly
def test_a_join_goes_on_with_its_state_where_its_home_was_moved_to(
    make_case: Callable[..., PipelineCase], spark: SparkSession
) -> None:
    del spark
    case = make_case()
    name = add_join(case.file, case.database)
    case.write(*_FIRST)
    case.run_once()
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
    inspected = CliRunner().invoke(app, ["inspect", str(case.file), name])
    assert inspected.exit_code == 0, inspected.output
    assert not before.exists()

"""What the state of a join holds, asked for from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.servers.pipeline.joined_reviews import BUSINESSES, REVIEWS, add_join, inspect

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from tests.servers.pipeline.conftest import PipelineCase


@pytest.mark.nightly
def test_inspect_shows_what_the_state_holds_and_the_rows_of_a_key(
    make_case: Callable[..., PipelineCase], spark: SparkSession
) -> None:
    del spark
    case = make_case()
    name = add_join(case.file, case.database)
    case.write(
        BUSINESSES,
        REVIEWS,
        "INSERT INTO business VALUES (1, 'one', 'Ulm'), (2, 'two', 'Bonn')",
        "INSERT INTO user_review VALUES (10, 1, 4.5, 'good'), (11, 1, 2.0, 'bad'), (12, 2, 3.0, ''), (13, NULL, 1, '')",
    )
    case.run_once()

    whole, one, wrong = inspect(case), inspect(case, name, "--key", "1"), inspect(case, name, "--key", "one")

    assert whole.returncode == 0, whole.stderr
    assert f"holds  db.{case.database}.user_review: 3 rows" in whole.stdout
    assert f"holds  db.{case.database}.business: 2 rows" in whole.stdout
    assert f"key    1: 2 rows of db.{case.database}.user_review" in whole.stdout
    assert f"read   db.{case.database}.business/0 up to" in whole.stdout
    assert one.returncode == 0, one.stderr
    assert "key    1: 3 rows" in one.stdout
    assert "stars=Decimal('4.5')" in one.stdout
    assert "key 1; city='Ulm'" in one.stdout
    assert wrong.returncode == 2
    assert "'one' is no value of the join key" in wrong.stderr

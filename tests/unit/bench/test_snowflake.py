"""What `penstock bench snowflake` makes of what it saw."""

from __future__ import annotations

from penstock.bench.snowflake.suite import SNOWFLAKE
from penstock.bench.snowflake.zone import Looks


def test_a_row_waits_from_its_commit_until_the_first_look_that_has_it() -> None:
    looks = Looks()
    for at, ids in ((1.0, {0: 1}), (2.0, {0: 1, 1: 4}), (3.0, {0: 6, 1: 4})):
        looks.add(at, ids)
    committed = {(0, 1): 0.5, (0, 6): 1.5, (1, 4): 1.75}

    assert looks.waits(committed) == [0.25, 0.5, 1.5]
    assert looks.over_time(committed, 0.5, 2) == ((0.0, 0.5), (0.625, 1.5), (1.25, 0.25))
    assert looks.behind({0: 6, 1: 5}) == 1


def test_freshness_is_measured_for_ten_minutes_unless_somebody_says_otherwise() -> None:
    assert SNOWFLAKE.seconds == 600
    assert list(SNOWFLAKE.parts) == ["fresh", "rounds", "thousand", "tasks"]

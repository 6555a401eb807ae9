"""A table is called up to date where nothing of it is ahead, and nowhere else."""

from __future__ import annotations

import pytest

from penstock.ports.state import TableProgress
from penstock.wiring.overview import Cell, TableRow


@pytest.mark.parametrize(
    ("behind_since_ms", "lag_seconds", "state"),
    [
        (0, 0.0, "up to date"),
        (5_000, 0.0, "behind"),
        (5_000, 3.0, "behind"),
        (None, 3.0, "behind"),
        (None, None, "unknown"),
    ],
)
def test_a_table_is_up_to_date_at_the_end_of_its_log_alone(
    behind_since_ms: int | None, lag_seconds: float | None, state: str
) -> None:
    progress = TableProgress("objects", "shop.orders", 1, 2, 3, "", "", behind_since_ms)

    assert TableRow("shop.orders", {"objects": Cell(progress, lag_seconds)}).state == state

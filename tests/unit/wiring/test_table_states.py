"""A table is called up to date where nothing of it is ahead, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.ports.state import LACKS_ROWS, LinkProgress, TableProgress
from penstock.ports.table_actions import Action, Stage, TableRequest
from penstock.wiring.health import find_problems, is_healthy
from penstock.wiring.overview import Cell, TableRow
from penstock.wiring.pipeline_status import PipelineStatus


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


_DAY_MS = 86_400_000
_LINK = LinkProgress("s-to-t", "7", "running", 0.0, None, 9 * _DAY_MS, "", "", behind_since_ms=0)
_LATE = TableProgress("s-to-t", "shop.orders", 9, 1, 1, "", "", behind_since_ms=0, stopped_at_ms=4 * _DAY_MS)
_PAUSED = TableRequest("1", "s-to-t", "shop.orders", Action.PAUSE, "somebody", Stage.DONE, 4 * _DAY_MS, 4 * _DAY_MS)


def late(table: TableProgress, *requests: TableRequest) -> tuple[float | None, list[str]]:
    """How far a table is behind, and what is told of it."""
    loading = frozenset({"s-to-t"})
    status = PipelineStatus("pid 7", [_LINK], [table], now_ms=9 * _DAY_MS, requests=requests, loading=loading)
    problems = find_problems(status, "shop.yaml")
    assert is_healthy(status, problems) == (LACKS_ROWS not in table.hint)
    return status.table_lag_seconds(table), [f"{each.level}: {each.text}; {each.hint}" for each in problems]


def test_a_table_that_waited_is_behind_until_it_has_caught_up_whatever_its_link_says() -> None:
    catching_up = (
        "warning: it catches up: it waited, and may lack changes of the last 120.0 hours; it goes on by itself"
    )

    assert late(_LATE) == (5 * 86_400, [catching_up])
    assert late(replace(_LATE, hint="2 values did not fit")) == (5 * 86_400, [catching_up])
    assert late(replace(_LATE, stopped_at_ms=0)) == (0, [])


def test_a_table_that_waits_still_does_not_catch_up() -> None:
    (seconds, paused), (_, lacking) = late(_LATE, _PAUSED), late(replace(_LATE, hint=f"{LACKS_ROWS}, and waits"))

    assert (seconds, len(paused), "it waits: somebody paused it 120.0 hours ago" in paused[0]) == (5 * 86_400, 1, True)
    assert [each.partition(";")[0] for each in lacking] == [f"warning: {LACKS_ROWS}, and waits"]

"""Nobody is told that a pipeline is well while Snowflake's tasks are not, or could not be asked."""

from __future__ import annotations

import pytest

from penstock.core.warehouse.landing_state import Trouble
from penstock.ports.state import LinkProgress
from penstock.wiring.health import find_problems, is_healthy
from penstock.wiring.pipeline_status import PipelineStatus
from penstock.wiring.zone_status import ZoneStatus

_LINK = LinkProgress("shop-to-sf", "7", "running", 0.0, None, 1_000, "", "", behind_since_ms=0)


def status(*zones: ZoneStatus) -> PipelineStatus:
    return PipelineStatus("somebody", [_LINK], [], zones=zones, now_ms=2_000)


def test_all_is_well_where_zones_are() -> None:
    well = status(ZoneStatus("shop-to-sf"))

    assert (find_problems(well, "shop.yaml"), is_healthy(well, [])) == ([], True)


@pytest.mark.parametrize(
    ("zone", "told"),
    [
        (
            ZoneStatus("shop-to-sf", [Trouble("error", "shop.orders", "broke", "mend")]),
            "shop-to-sf, shop.orders: broke",
        ),
        (ZoneStatus("shop-to-sf", unanswered="away", hint="wait"), "shop-to-sf: could not be asked how its tasks"),
    ],
)
def test_a_zone_that_is_not_well_or_not_known_is_told(zone: ZoneStatus, told: str) -> None:
    ill = status(zone)

    problems = find_problems(ill, "shop.yaml")

    assert [f"{problem.subject}: {problem.text}".startswith(told) for problem in problems] == [True]
    assert not is_healthy(ill, problems)

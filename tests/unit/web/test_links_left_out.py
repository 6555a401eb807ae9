"""A link of the file that the run does not run is told, however well it was once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.unit.web.shop import BEGAN_MS, now_ms
from tests.unit.web.test_endpoints import StatusReaderOf

from penstock.wiring.overview import make_overview

if TYPE_CHECKING:
    from tests.unit.web.shop import Shop

    from penstock.wiring.overview import Overview
    from penstock.wiring.pipeline_status import PipelineStatus

SINK = "shopdb-to-warehouse"
DAYS_AGO = {"running_since_ms": BEGAN_MS - 300_000_000, "updated_at_ms": BEGAN_MS - 250_000_000}
TOLD = ("this run does not run it: it came into the file later, or the run was started with --only",)
HINT = "stop the pipeline and type: penstock run shop.yaml"


def read(shop: Shop) -> PipelineStatus:
    with StatusReaderOf(shop) as reader, shop.held():
        return reader.read()


def overview(shop: Shop, status: PipelineStatus) -> Overview:
    return make_overview(shop.spec, status, "shop.yaml")


@pytest.mark.parametrize("state", [None, "running", "failed"])
def test_a_link_that_this_run_does_not_run_is_an_error_and_no_other_is(shop: Shop, state: str | None) -> None:
    for name in ("shopdb", "objects"):
        shop.link(name)
    if state is not None:
        shop.link(SINK, state=state, error="" if state == "running" else "it is full", behind_since_ms=1, **DAYS_AGO)

    told = overview(shop, read(shop))

    assert [(each.level, each.subject, each.text, each.hint) for each in told.problems] == [
        ("error", SINK, *TOLD, HINT)
    ]
    assert not told.is_healthy
    assert [stage.state for stage in told.stages] == [
        "running",
        "running",
        {None: "never ran", "running": "stopped", "failed": "failed"}[state],
    ]


def test_a_pipeline_that_starts_has_no_such_problem_and_is_not_well_yet(shop: Shop) -> None:
    began_ms = now_ms() - 2_000
    for name in ("shopdb", "objects"):
        shop.link(name, running_since_ms=began_ms)
    shop.link(SINK, state="stopped", **DAYS_AGO)
    shop.servers("running", "running")

    told = overview(shop, read(shop))

    assert (told.problems, told.is_healthy) == ([], False)


def test_a_link_that_has_yet_to_begin_is_no_problem_however_long_the_others_take(shop: Shop) -> None:
    shop.link("shopdb", running_since_ms=BEGAN_MS - 7_200_000)
    for name in ("objects", SINK):
        shop.link(name, state="starting", behind_since_ms=1, moved_at_ms=1, running_since_ms=BEGAN_MS - 7_200_000)

    told = overview(shop, read(shop))

    assert (told.problems, told.is_healthy) == ([], False)
    assert {stage.stuck_seconds for stage in told.stages} == {0}


def test_a_run_that_ended_in_order_says_nothing_of_a_new_link_until_it_runs_again(shop: Shop) -> None:
    for name in ("shopdb", "objects"):
        shop.link(name, state="stopped")
    status = read(shop)

    assert [overview(shop, each).problems for each in (status, replace(status, holder=""))] == [[], []]

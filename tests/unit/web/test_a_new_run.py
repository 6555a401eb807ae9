"""A run that begins behind one that was killed is told as what it is."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.unit.web.shop import LINKS, now_ms
from tests.unit.web.test_endpoints import StatusReaderOf

from penstock.ports.state import PipelineIdentity
from penstock.wiring.health import find_problems, is_healthy
from penstock.wiring.open import open_pipeline_state
from penstock.wiring.run_start import tell_start

if TYPE_CHECKING:
    from tests.unit.web.shop import Shop

    from penstock.wiring.health import Problem
    from penstock.wiring.pipeline_status import PipelineStatus

MINUTE = 60_000


def read(shop: Shop) -> PipelineStatus:
    with StatusReaderOf(shop) as reader, shop.held():
        return reader.read()


def of_the_run(status: PipelineStatus, later_ms: int = 0) -> list[Problem]:
    """What is told of the pipeline as a whole, some time later."""
    found = find_problems(replace(status, now_ms=status.now_ms + later_ms), "shop.yaml")
    return [each for each in found if each.subject == "pipeline"]


def test_the_run_behind_one_that_was_killed_starts_and_is_neither_well_nor_hangs(shop: Shop) -> None:
    killed_ms = now_ms() - 90 * MINUTE
    for name in LINKS:
        shop.link(name, updated_at_ms=killed_ms, running_since_ms=killed_ms - 90 * MINUTE)

    tell_start(shop.spec)
    status = read(shop)

    assert {link.state for link in status.links} == {"starting"}
    # Since when lag counts: what came after the kill was not looked at.
    assert {link.updated_at_ms for link in status.links} == {killed_ms}
    assert find_problems(replace(status, servers=()), "shop.yaml") == []
    assert not is_healthy(status, ())
    (late,), (too_late,) = of_the_run(status, MINUTE), of_the_run(status, 6 * MINUTE)
    assert (late.level, too_late.level) == ("warning", "error")
    assert "none of its links runs so far" in late.text
    assert "it may wait for a server" in late.hint


def test_a_run_whose_links_have_run_hangs_when_they_give_no_sign(shop: Shop) -> None:
    for name in LINKS:
        shop.link(name)

    (told,) = of_the_run(read(shop), MINUTE)

    assert (told.level, "although somebody holds its lock" in told.text) == ("error", True)


def test_links_that_ended_and_those_of_another_pipeline_stay_as_they_are(shop: Shop) -> None:
    shop.link("objects", state="stopped")
    shop.link("shopdb", state="failed", error="it is full", hint="make room")
    tell_start(shop.spec)
    ended = {link.link: link.state for link in read(shop).links}
    with closing(open_pipeline_state(shop.spec)) as state:
        state.save_identity(PipelineIdentity("a cluster", ("another source",)))
    shop.link("objects")
    tell_start(shop.spec)

    assert ended == {"objects": "stopped", "shopdb": "failed"}
    assert read(shop).links[0].state == "running"


def test_a_pipeline_that_never_ran_gets_no_database_by_that(shop: Shop) -> None:
    tell_start(shop.spec)

    assert not (shop.spec.home / "state.db").exists()

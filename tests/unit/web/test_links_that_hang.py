"""A link that stands still is told, also where nobody knows since when it is behind, and one that is idle is not."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.unit.web.shop import BEGAN_MS, LINKS, now_ms
from tests.unit.web.test_endpoints import StatusReaderOf

from penstock.ports.state import STARTING
from penstock.wiring.health import find_problems
from penstock.wiring.link_place import LinkPlace
from penstock.wiring.mirror import LinkCondition, ProgressLog
from penstock.wiring.open import open_pipeline_state

if TYPE_CHECKING:
    from tests.unit.web.shop import Shop

    from penstock.wiring.pipeline_status import PipelineStatus

MINUTE = 60_000
COPIES = "initial snapshot: 20,001 rows of 2 tables so far"


def read(shop: Shop, **capture: object) -> PipelineStatus:
    """The status of a pipeline that runs well since an hour ago, but for its capture."""
    with shop.held():
        shop.run()
        began = {"running_since_ms": now_ms() - 600 * MINUTE}
        for name in LINKS:
            shop.link(name, **began, **(capture if name == "shopdb" else {}))
        with StatusReaderOf(shop) as reader:
            return reader.read()


def told(status: PipelineStatus) -> list[str]:
    return [each.text for each in find_problems(status, "shop.yaml") if each.subject == "shopdb"]


@pytest.mark.parametrize(
    ("position", "lag_bytes", "said"),
    [
        (COPIES, 0, f"has not moved for 25 minutes; it stands at: {COPIES}"),
        ("", None, "has not moved for 25 minutes; it has carried nothing so far"),
    ],
)
def test_a_capture_that_hangs_before_it_comes_to_its_log_is_told(
    shop: Shop, position: str, lag_bytes: int | None, said: str
) -> None:
    hangs = {"position": position, "lag_bytes": lag_bytes, "lag_messages": None, "behind_since_ms": None}

    status = read(shop, **hangs, moved_at_ms=now_ms() - 25 * MINUTE)

    stuck = {link.link: status.stuck_seconds(link) for link in status.links}
    assert stuck["shopdb"] == pytest.approx(25 * 60, abs=5)
    assert told(status) == [said]
    # Nobody runs it, or it does not run: nothing hangs.
    for over in (replace(status, holder=""), _in_state(status, "retrying"), _in_state(status, STARTING)):
        assert over.stuck_seconds(over.links[1]) is None


def _in_state(status: PipelineStatus, state: str) -> PipelineStatus:
    return replace(status, links=[replace(link, state=state) for link in status.links])


def test_a_copy_whose_next_piece_may_yet_come_is_no_problem(shop: Shop) -> None:
    copies = {"position": COPIES, "lag_bytes": 4096, "lag_messages": None, "behind_since_ms": None}

    status = read(shop, **copies, moved_at_ms=now_ms() - 15 * MINUTE)

    assert told(status) == []


@pytest.mark.parametrize(
    "idle",
    [
        {"behind_since_ms": 0, "lag_bytes": 0},
        {"behind_since_ms": None, "lag_bytes": None, "lag_messages": None},
    ],
    ids=["at the end of its log", "nobody could ask what is ahead"],
)
def test_a_capture_that_has_nothing_to_carry_does_not_hang(shop: Shop, idle: dict[str, int | None]) -> None:
    status = read(shop, **idle, moved_at_ms=now_ms() - 300 * MINUTE)

    assert not any(status.stuck_seconds(link) for link in status.links)
    assert told(status) == []


def test_the_time_that_a_link_waited_for_its_turn_does_not_count(shop: Shop) -> None:
    waits = {"position": "", "lag_bytes": None, "lag_messages": None, "behind_since_ms": None}
    with shop.held():
        shop.link("objects", state=STARTING, **waits, moved_at_ms=BEGAN_MS - 90 * MINUTE)
        with closing(open_pipeline_state(shop.spec)) as state:
            ProgressLog(state, BEGAN_MS - 90 * MINUTE).save("objects", LinkCondition("running"), LinkPlace())
        with StatusReaderOf(shop) as reader:
            status = reader.read()

    assert status.stuck_seconds(status.links[0]) == pytest.approx(0, abs=5)

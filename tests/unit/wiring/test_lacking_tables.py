"""Nobody is told that a pipeline is well while a target lacks rows that a snapshot for its link is to bring."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from penstock.core.snapshots import CANCELLED, SnapshotOptions, Status
from penstock.ports.state import LACKS_ROWS, LinkProgress, TableProgress
from penstock.wiring.health import find_problems, is_healthy
from penstock.wiring.pipeline_status import PipelineStatus
from penstock.wiring.refreshing import new_snapshot

if TYPE_CHECKING:
    from penstock.ports.snapshots import Snapshot

_LINK = LinkProgress("s-to-new", "7", "running", 0.0, None, 1_000, "", "", behind_since_ms=0)
_WELL = PipelineStatus("pid 7", [_LINK], [], now_ms=2_000, loading=frozenset({"s-to-new"}))
_FILL = new_snapshot("s", "shop.orders", SnapshotOptions(full_refresh=True, link="s-to-new"))
_WAITS = TableProgress("s-to-new", "shop.orders", 0, 0, 0, "", f"{LACKS_ROWS}, and waits for its snapshot")


def told(status: PipelineStatus) -> list[str]:
    return [f"{each.subject}: {each.text}" for each in find_problems(status, "shop.yaml")]


@pytest.mark.parametrize("snapshots", [[], [_FILL]])
def test_a_table_that_waits_for_its_rows_is_told_once(snapshots: list[Snapshot]) -> None:
    status = replace(_WELL, tables=[_WAITS], snapshots=snapshots)

    assert told(status) == [f"s-to-new, shop.orders: {_WAITS.hint}"]
    assert not is_healthy(status, find_problems(status, "shop.yaml"))


def test_a_table_is_told_until_its_snapshot_for_the_link_is_whole() -> None:
    status = replace(_WELL, snapshots=[replace(_FILL, status=Status.RUNNING)])
    whole = replace(_WELL, snapshots=[replace(_FILL, status=Status.DONE)])

    assert told(status) == [f"s-to-new, shop.orders: {LACKS_ROWS} until its snapshot for this link is whole"]
    assert not is_healthy(status, find_problems(status, "shop.yaml"))
    assert (told(whole), is_healthy(whole, [])) == ([], True)


def test_a_snapshot_for_nobody_and_a_note_of_another_kind_are_well() -> None:
    reread = new_snapshot("s", "shop.orders", SnapshotOptions(where="id = 1"))
    status = replace(_WELL, tables=[replace(_WAITS, hint="2 values did not fit")], snapshots=[reread])

    assert (told(status), is_healthy(status, [])) == ([], True)


@pytest.mark.parametrize(
    ("state", "error", "is_told"),
    [
        (Status.RUNNING, "", True),
        (Status.FAILED, "the disk is full", True),
        (Status.DONE, "", False),
        (Status.CANCELLED, CANCELLED, True),
        # Somebody has let it be.
        (Status.CANCELLED, "", False),
    ],
)
def test_a_snapshot_for_a_link_that_the_file_does_not_have_says_what_to_type(
    state: Status,
    error: str,
    is_told: bool,  # noqa: FBT001 - a parameter
) -> None:
    status = replace(_WELL, loading=frozenset({"s-to-renamed"}), snapshots=[replace(_FILL, status=state, error=error)])

    found = find_problems(status, "shop.yaml")

    assert [(each.subject, "is for s-to-new" in each.text) for each in found] == [("s, shop.orders", True)] * is_told
    assert all("shop.yaml shop.orders --full-refresh --link LINK" in each.hint for each in found)


def test_a_snapshot_that_was_cancelled_for_a_link_of_the_file_is_told_by_that_link_alone() -> None:
    status = replace(_WELL, snapshots=[replace(_FILL, status=Status.CANCELLED, error=CANCELLED)])

    assert told(status) == []

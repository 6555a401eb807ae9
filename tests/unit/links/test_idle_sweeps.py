"""Old files are looked for while nothing comes, too, unless all are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.config.test_load import SMALL, read

from penstock.jobs.objects_tasks import ObjectsLinkPlanner
from penstock.links.objects.record import ObjectsRecord

if TYPE_CHECKING:
    from tests.unit.links.conftest import MemoryTopics


@pytest.mark.parametrize(
    ("said", "looks"),
    [("", True), ("objects: {keep_hours: 2}\n", True), ("objects: {keep_hours: forever}\n", False)],
)
def test_a_link_with_nothing_to_write_looks_for_old_files_now_and_then_unless_all_are_kept(
    said: str,
    looks: bool,  # noqa: FBT001 - a parameter
    topics: MemoryTopics,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.wiring.files.SWEEP_SECONDS", 0.0)
    planner = ObjectsLinkPlanner(read(f"{SMALL}{said}"), 1, 100, topics)
    planner.know(ObjectsRecord())

    assert planner.has_work() == looks

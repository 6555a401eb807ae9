"""What `penstock failover` says of a PostgreSQL source."""

from __future__ import annotations

import pytest

from penstock.cli.failover import describe_slot, slot_lines
from penstock.core.positions import WalPosition
from penstock.wiring.postgres_failover import SlotFound


@pytest.mark.parametrize(("is_new", "timeline", "notes"), [(False, 0, 1), (False, 1, 0), (True, 0, 0), (True, 1, 0)])
def test_a_slot_that_is_followed_from_a_timeline_that_is_not_known_may_lack_log(
    *, is_new: bool, timeline: int, notes: int
) -> None:
    before, after = (WalPosition(100, server_timeline=each) for each in (timeline, 2))
    found = SlotFound("freight", "slot", is_new, before, after, "1/2", "1/2")

    text = "\n".join(slot_lines(found, "db2:5432", file="f.yaml", is_in_file=True))

    assert ("0/64, in a timeline that is not known" in text) == (timeline == 0)
    assert text.count("cannot be told") == notes
    assert len(describe_slot(found, "db2:5432")["notes"]) == notes  # type: ignore[arg-type]

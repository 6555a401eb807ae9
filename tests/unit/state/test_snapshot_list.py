"""What is asked for of snapshots, in the state database."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from penstock.adapters.state.snapshots import SqlSnapshots, open_snapshots
from penstock.cli.snapshot_words import snapshot_line
from penstock.core.errors import UsageError
from penstock.core.snapshots import SnapshotOptions, Status, Wanted
from penstock.ports.snapshots import Snapshot
from penstock.wiring.snapshot_progress import seconds_left

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ASKED = Snapshot(
    "1", "db", "shop.orders", SnapshotOptions("id > 1", ('{"id": 7}', "8"), 10, 20), Wanted.RUN, Status.REQUESTED
)


@pytest.fixture
def snapshots(tmp_path: Path) -> Iterator[SqlSnapshots]:
    with closing(open_snapshots(f"sqlite:///{tmp_path}/state.db", "p")) as opened:
        yield opened


def test_what_was_asked_for_is_found_again(snapshots: SqlSnapshots) -> None:
    snapshots.add(ASKED)

    (found,) = snapshots.all("db", is_open=True)

    assert found.requested_at_ms > 0
    assert replace(found, requested_at_ms=0, updated_at_ms=0) == ASKED
    assert snapshots.all("another") == []


def test_a_table_has_one_snapshot_at_a_time_and_another_when_it_has_ended(snapshots: SqlSnapshots) -> None:
    snapshots.add(ASKED)
    with pytest.raises(UsageError, match=r"a snapshot of shop\.orders is under way already"):
        snapshots.add(replace(ASKED, id="2"))

    snapshots.tell(replace(ASKED, status=Status.DONE, rows=9))
    snapshots.add(replace(ASKED, id="2"))

    assert [(each.id, each.status, each.rows) for each in snapshots.all()] == [("1", "done", 9), ("2", "requested", 0)]
    assert [each.id for each in snapshots.all(is_open=True)] == ["2"]


def test_a_snapshot_in_the_place_of_another_has_that_one_cancelled(snapshots: SqlSnapshots) -> None:
    snapshots.add(ASKED)
    with pytest.raises(UsageError, match=r"a snapshot of shop\.orders is under way already"):
        snapshots.add(replace(ASKED, id="2"), in_place_of={"3"})

    snapshots.add(replace(ASKED, id="2"), in_place_of={"1"})

    assert [(each.id, each.wanted) for each in snapshots.all(is_open=True)] == [("1", "cancel"), ("2", "run")]


def test_whoever_carries_a_snapshot_does_not_undo_what_is_wanted_of_it(snapshots: SqlSnapshots) -> None:
    snapshots.add(ASKED)
    snapshots.want("1", Wanted.CANCEL)
    snapshots.tell(replace(ASKED, status=Status.RUNNING, error="away", hint="wait"))

    (found,) = snapshots.all()

    assert (found.wanted, found.status, found.error, found.hint) == (Wanted.CANCEL, Status.RUNNING, "away", "wait")


def test_the_time_left_is_told_by_the_pace_while_it_ran(snapshots: SqlSnapshots) -> None:
    running = replace(
        ASKED, options=SnapshotOptions(), status=Status.RUNNING, rows=250, rows_expected=1000, started_at_ms=1_000
    )
    snapshots.add(replace(running, status=Status.REQUESTED))
    snapshots.tell(replace(running, ran_ms=10_000))

    (told,) = snapshots.all()

    assert seconds_left(told) == 30.0
    assert seconds_left(replace(told, status=Status.DONE)) is None
    assert snapshot_line(told) == "shop.orders: running, 250 of about 1,000 rows, 30 s left"
    assert snapshot_line(replace(told, wanted=Wanted.PAUSE)).startswith("shop.orders: pausing, 250")

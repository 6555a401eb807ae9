"""Of which snapshots the Schematizer is told, and when."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.adapters.state.snapshots import open_snapshots
from penstock.config.load import load
from penstock.core.errors import PenstockError
from penstock.core.snapshots import SnapshotOptions, Status, Wanted
from penstock.ports.snapshots import Snapshot
from penstock.wiring.refresh_mirror import RefreshMirror

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.ports.snapshots import SnapshotList

_FILE = """
pipeline: p
home: ./home
sources: [{name: s, kind: mysql, host: h, user: u, password_env: P, tables: [shop.*]}]
sinks: [{name: w, kind: duckdb, path: w.duckdb}]
"""


class Told:
    """What was told; `refuses` a table."""

    def __init__(self, refuses: str = "") -> None:
        self.statuses: list[tuple[str, Status]] = []
        self._refuses = refuses

    def tell(self, snapshot: Snapshot) -> None:
        self.statuses.append((snapshot.table, snapshot.status))
        if snapshot.table == self._refuses:
            message = "no such table"
            raise PenstockError(message, "register it")

    def close(self) -> None:
        """Nothing is open."""


def add(snapshots: SnapshotList, id_: str, table: str, status: Status) -> Snapshot:
    snapshot = Snapshot(id_, "s", table, SnapshotOptions(), Wanted.RUN, Status.REQUESTED)
    snapshots.add(snapshot)
    return say(snapshots, snapshot, status)


def say(snapshots: SnapshotList, snapshot: Snapshot, status: Status) -> Snapshot:
    told = replace(snapshot, status=status)
    if status is not Status.REQUESTED:
        snapshots.tell(told)
    return told


def test_the_schematizer_is_told_of_what_changed_and_of_nothing_that_ended_before(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(_FILE)
    snapshots = open_snapshots(f"sqlite:///{tmp_path / 'state.db'}", "p")
    add(snapshots, "1", "shop.old", Status.DONE)
    mirror, told = RefreshMirror(load(file)), Told(refuses="shop.other")
    mirror._began_ms += 1
    first, _ = add(snapshots, "2", "shop.first", Status.RUNNING), add(snapshots, "3", "shop.later", Status.REQUESTED)
    add(snapshots, "4", "shop.other", Status.RUNNING)

    mirror.tell(snapshots, told)
    mirror.tell(snapshots, told)
    mirror._told["2"] -= 1
    say(snapshots, first, Status.DONE)
    mirror.tell(snapshots, told)
    snapshots.close()

    assert sorted(told.statuses) == [
        ("shop.first", Status.DONE),
        ("shop.first", Status.RUNNING),
        ("shop.other", Status.RUNNING),
    ]

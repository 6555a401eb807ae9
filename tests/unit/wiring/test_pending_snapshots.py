"""Whether a run that ends by itself waits for snapshots."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.unit.links.test_replica_lag import Servers

from penstock.adapters.mysql import replica_lag
from penstock.cli.carried import Carried
from penstock.config.load import load
from penstock.core.snapshots import Method, SnapshotOptions, Status, Wanted
from penstock.core.tables import TableId
from penstock.links.capture.spec import CaptureSpec
from penstock.wiring.open import open_snapshot_list
from penstock.wiring.refreshing import ask_by_itself, new_snapshot
from penstock.wiring.snapshots import has_snapshots

if TYPE_CHECKING:
    from pathlib import Path

_FILE = """
pipeline: p
home: ./home
sources: [{name: s, kind: mysql, host: h, user: u, password_env: P, tables: [shop.*]}]
"""


def test_a_run_waits_for_rows_to_be_read_again_but_not_behind_a_paused_snapshot(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(_FILE)
    pipeline = load(file)
    spec, paused = CaptureSpec(pipeline, "s", epoch=1), new_snapshot("s", "shop.children", SnapshotOptions())
    assert not has_snapshots(spec, (), were_tried=False)
    assert has_snapshots(spec, {"shop.children"}, were_tried=False)

    with closing(open_snapshot_list(pipeline)) as snapshots:
        snapshots.add(paused)
        assert has_snapshots(spec, (), were_tried=False)
        snapshots.want(paused.id, Wanted.PAUSE)

    assert not has_snapshots(spec, {"shop.children"}, were_tried=False)
    assert has_snapshots(spec, {"shop.children", "shop.others"}, were_tried=False)


@pytest.mark.parametrize(
    ("link", "status", "asks"),
    [("s-to-new", Status.FAILED, True), ("s-to-new", Status.RUNNING, False), ("", Status.FAILED, False)],
)
def test_a_snapshot_for_one_link_that_failed_keeps_no_table_from_being_read(
    link: str,
    status: Status,
    asks: bool,  # noqa: FBT001 - a parameter
    tmp_path: Path,
) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(_FILE)
    pipeline, table = load(file), TableId("shop", "children")
    failed = new_snapshot("s", str(table), SnapshotOptions(full_refresh=True, link=link))
    with closing(open_snapshot_list(pipeline)) as snapshots:
        snapshots.add(failed)
        snapshots.tell(replace(failed, status=status, error="the disk is full"))

        ask_by_itself(pipeline.source("s"), (), snapshots, lambda: [table], tuple)

        assert [each for each in snapshots.all("s") if each.options == SnapshotOptions()] == snapshots.all("s")[1:]
        assert len(snapshots.all("s")) == 1 + asks


@pytest.mark.parametrize(
    ("method", "seconds_behind", "were_tried", "is_to_go_on"),
    [
        (Method.READ_ONLY, 99, True, False),
        (Method.READ_ONLY, 99, False, True),
        (Method.READ_ONLY, 0, True, True),
        (Method.FULL_LOCK, 99, True, True),
    ],
)
def test_a_run_does_not_wait_for_snapshots_that_wait_for_a_replica_and_names_them(
    method: Method,
    seconds_behind: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    were_tried: bool,
    is_to_go_on: bool,
) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(_FILE.replace("tables:", "max_replica_lag_seconds: 5, tables:"))
    pipeline = load(file)
    spec = CaptureSpec(pipeline, "s", epoch=1)
    servers = Servers({"h": {"SHOW REPLICA STATUS": [{"Seconds_Behind_Source": seconds_behind}]}})
    monkeypatch.setattr(replica_lag, "connect", servers.connect)
    monkeypatch.setenv("P", "password")
    asked = new_snapshot("s", "shop.children", SnapshotOptions(method=method))
    with closing(open_snapshot_list(pipeline)) as snapshots:
        snapshots.add(asked)
        snapshots.tell(replace(asked, status=Status.RUNNING, error="h is 99 seconds behind"))

    found = has_snapshots(spec, {"shop.children"}, were_tried=were_tried)
    Carried(pipeline).say()

    assert found is is_to_go_on
    assert has_snapshots(spec, {"shop.others"}, were_tried=were_tried)
    assert "the snapshot of shop.children goes on at the next run: h is 99 seconds behind" in capsys.readouterr().err
    servers.servers.clear()
    assert has_snapshots(spec, (), were_tried=were_tried)

"""Whether a run that ends by itself waits for snapshots."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from penstock.config.load import load
from penstock.core.snapshots import SnapshotOptions, Wanted
from penstock.links.capture.spec import CaptureSpec
from penstock.wiring.open import open_snapshot_list
from penstock.wiring.refreshing import new_snapshot
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
    assert not has_snapshots(spec, ())
    assert has_snapshots(spec, {"shop.children"})

    with closing(open_snapshot_list(pipeline)) as snapshots:
        snapshots.add(paused)
        assert has_snapshots(spec, ())
        snapshots.want(paused.id, Wanted.PAUSE)

    assert not has_snapshots(spec, {"shop.children"})
    assert has_snapshots(spec, {"shop.children", "shop.others"})

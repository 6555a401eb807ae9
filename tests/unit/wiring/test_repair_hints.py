"""What a status says to do about rows that differ, and about a snapshot that failed, once somebody has acted."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.unit.web.shop import CONFIG, Shop
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.core.snapshots import SnapshotOptions, Status
from penstock.ports.audit_results import AuditResult
from penstock.wiring.health import find_problems
from penstock.wiring.open import open_snapshot_list
from penstock.wiring.pipeline_status import PipelineStatus
from penstock.wiring.refreshing import new_snapshot

if TYPE_CHECKING:
    from pathlib import Path

_FOUND = AuditResult("a", "shop.orders", 1_000, "different", 0.5, 0.5, 0.5, is_below=True, wrong_rows=2)
_REPAIR = replace(new_snapshot("shopdb", "shop.orders", SnapshotOptions(keys=("[1]", "[2]"))), requested_at_ms=2_000)


@pytest.mark.parametrize(
    ("holder", "snapshot", "told"),
    [
        ("", _REPAIR, "waits for the next run, which carries it out: penstock run p.yaml"),
        ("pid 7", _REPAIR, "the repair of 2 rows is under way; then audit again: penstock audit p.yaml"),
        ("", replace(_REPAIR, status=Status.DONE), "its rows have been read again since"),
        ("", replace(_REPAIR, status=Status.FAILED), "penstock audit p.yaml --repair"),
        ("", replace(_REPAIR, requested_at_ms=500), "penstock audit p.yaml --repair"),
        ("", replace(_REPAIR, options=SnapshotOptions()), "penstock audit p.yaml --repair"),
    ],
)
def test_a_repair_that_was_asked_for_is_not_asked_for_again(holder: str, snapshot: object, told: str) -> None:
    status = PipelineStatus(holder, (), (), now_ms=3_000, audits=[_FOUND], snapshots=[snapshot])  # type: ignore[list-item]

    (hint,) = [each.hint for each in find_problems(status, "p.yaml") if each.subject == "a, shop.orders"]

    assert told in hint


def test_a_stage_that_differs_is_told_where_the_target_is_equal() -> None:
    topic = replace(_FOUND, state="equal", score=1.0, wrong_rows=0, why="its topic differs from the source")
    status = PipelineStatus("", (), (), now_ms=3_000, audits=[topic])

    (told,) = [each for each in find_problems(status, "p.yaml") if each.subject == "a, shop.orders"]

    assert told.text.startswith("its topic differs from the source: score 1 ")
    assert told.hint.endswith("penstock audit p.yaml --stages")


def test_a_snapshot_that_failed_is_told_until_another_one_or_somebody_who_lets_it_be(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(CONFIG)
    shop = Shop(file)
    shop.run()
    asked = new_snapshot("shopdb", "shop.orders", SnapshotOptions())
    with closing(open_snapshot_list(shop.spec)) as snapshots:
        snapshots.add(asked)
        snapshots.tell(replace(asked, status=Status.FAILED, error="no SELECT", hint="type: GRANT SELECT"))
    told, cancelled, later = (
        CliRunner().invoke(app, [*command, str(file), *rest])
        for command, rest in ((["status"], []), (["snapshot"], ["shop.orders", "--cancel"]), (["status"], []))
    )

    let_it_be = f"or let it be: penstock snapshot {file} shop.orders --cancel"
    assert let_it_be in told.stdout
    assert cancelled.exit_code == 0
    assert "its snapshot failed" in told.stdout
    assert "its snapshot failed" not in later.stdout


def test_a_query_before_anything_was_loaded_says_so(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(CONFIG)

    ran = CliRunner().invoke(app, ["sql", str(file), "SELECT * FROM shop.orders"])

    assert ran.exit_code == 2
    assert f"nothing has been loaded into warehouse yet: wait until penstock status {file} shows rows" in ran.stderr

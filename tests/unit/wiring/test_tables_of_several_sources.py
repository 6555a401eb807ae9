"""Two sources with a table of one name: commands act on the one that is meant, and refuse where nobody says."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.config.load import load
from penstock.core.commands import name_file
from penstock.core.errors import FULL_REFRESH, UnavailableError, UsageError
from penstock.core.snapshots import SnapshotOptions, Status, Wanted
from penstock.ports.table_actions import Action, Stage
from penstock.wiring.health import find_problems
from penstock.wiring.open import open_pipeline_state, open_snapshot_list, open_table_actions
from penstock.wiring.pipeline_status import read_status
from penstock.wiring.refreshing import new_snapshot
from penstock.wiring.snapshots import ask_for_snapshots, read_snapshots, want_snapshots
from penstock.wiring.table_requests import ask_for_action, links_of

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.config.specs import PipelineSpec

FILE = """
pipeline: p
home: ./home
sources:
  - {name: shop, kind: mysql, host: 127.0.0.1, port: 1, user: cdc, password_env: P, tables: ["shop.*"]}
  - {name: store, kind: mysql, host: 127.0.0.1, port: 2, user: cdc, password_env: P, tables: ["shop.*"]}
  - {name: hr, kind: mysql, host: 127.0.0.1, port: 3, user: cdc, password_env: P, tables: ["hr.*"]}
sinks: [{name: warehouse, kind: duckdb, path: w.duckdb}]
links:
  - {from: shop, to: warehouse}
  - {from: store, to: warehouse, schema: store_shop}
  - {from: hr, to: warehouse}
"""
TABLE = "shop.orders"


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PipelineSpec:
    """A pipeline that has run, and whose links know their tables; its servers are not asked."""
    monkeypatch.setenv("P", "secret")
    (tmp_path / "p.yaml").write_text(FILE)
    spec = load(tmp_path / "p.yaml")
    with closing(open_pipeline_state(spec)) as state:
        for link in ("shop", "store", "shop-to-warehouse", "store-to-warehouse"):
            state.add_rows(link, {TABLE: (1, 1)})
    return spec


def under_way(spec: PipelineSpec, *sources: str) -> None:
    with closing(open_snapshot_list(spec)) as snapshots:
        for source in sources:
            snapshots.add(new_snapshot(source, TABLE, SnapshotOptions()))


def wanted(spec: PipelineSpec) -> dict[str, Wanted]:
    return {each.source: each.wanted for each in read_snapshots(spec)}


@pytest.mark.parametrize(
    ("source", "link", "port"),
    [("shop", "", 1), ("store", "", 2), ("", "store-to-warehouse", 2), ("store", "store-to-warehouse", 2)],
)
def test_a_snapshot_is_asked_for_at_the_source_that_is_named_or_that_the_link_reads(
    spec: PipelineSpec, source: str, link: str, port: int
) -> None:
    # The source is looked at first, and does not run.
    with pytest.raises(UnavailableError, match=f"^cdc@127.0.0.1:{port} does not answer"):
        ask_for_snapshots(spec, [TABLE], SnapshotOptions(full_refresh=bool(link), link=link), source)


@pytest.mark.parametrize(
    ("source", "link", "said", "hint"),
    [
        ("", "", "shop.orders is a table of shop, store", "say which is meant: --source shop or store"),
        ("hr", "", "shop.orders is a table of shop, store, and not of hr", "--source shop or store"),
        ("shop", "store-to-warehouse", "store-to-warehouse loads tables of store, and not of shop", "leave --source"),
    ],
)
def test_a_snapshot_of_nobody_knows_which_table_is_refused(
    spec: PipelineSpec, source: str, link: str, said: str, hint: str
) -> None:
    with pytest.raises(UsageError) as refused:
        ask_for_snapshots(spec, [TABLE], SnapshotOptions(full_refresh=True, link=link), source)

    assert refused.value.message == said
    assert hint in refused.value.hint
    assert read_snapshots(spec) == []


@pytest.mark.parametrize("what", Wanted)
def test_snapshots_are_paused_resumed_and_cancelled_at_the_source_that_is_named(
    spec: PipelineSpec, what: Wanted
) -> None:
    under_way(spec, "shop", "store")

    (told,) = want_snapshots(spec, [TABLE], what, "shop")

    assert (told.source, told.wanted) == ("shop", what)
    assert wanted(spec) == {"shop": what, "store": Wanted.RUN}


@pytest.mark.parametrize("sources", [("shop", "store"), ("store",)])
def test_a_snapshot_of_nobody_knows_which_table_is_not_cancelled(spec: PipelineSpec, sources: tuple[str, ...]) -> None:
    under_way(spec, *sources)

    with pytest.raises(UsageError, match="is a table of shop, store"):
        want_snapshots(spec, [TABLE], Wanted.CANCEL)

    assert wanted(spec) == dict.fromkeys(sources, Wanted.RUN)


def test_a_failed_snapshot_of_one_source_is_let_be_and_not_that_of_the_other(spec: PipelineSpec) -> None:
    under_way(spec, "shop", "store")
    with closing(open_snapshot_list(spec)) as snapshots:
        for each in snapshots.all():
            snapshots.tell(replace(each, status=Status.FAILED, error="it broke off", hint="mend it"))

    want_snapshots(spec, [TABLE], Wanted.CANCEL, "shop")

    told = {each.source: (each.status, each.error) for each in read_snapshots(spec)}
    assert told == {"shop": (Status.CANCELLED, ""), "store": (Status.FAILED, "it broke off")}
    hints = {each.subject: each.hint for each in find_problems(read_status(spec), "p.yaml")}
    assert hints["store, shop.orders"] == (
        "mend it; then take another one: penstock snapshot p.yaml shop.orders --source store; "
        "or let it be: penstock snapshot p.yaml shop.orders --source store --cancel"
    )


def test_a_table_is_paused_at_the_link_or_at_the_links_of_the_source(spec: PipelineSpec) -> None:
    assert links_of(spec, TABLE, "store-to-warehouse") == ["store-to-warehouse"]
    assert links_of(spec, TABLE, None, "store") == ["store-to-warehouse"]

    asked = ask_for_action(spec, TABLE, Action.PAUSE, None, "ann", "shop")

    assert [each.link for each in asked] == ["shop-to-warehouse"]


@pytest.mark.parametrize(
    ("link", "source", "said"),
    [
        (None, "", "shop.orders is a table of shop, store"),
        ("shop-to-warehouse", "store", "shop-to-warehouse loads tables of shop, and not of store"),
        ("hr-to-warehouse", "", "hr-to-warehouse does not load shop.orders"),
        ("store", "", "store reads one log for all of its tables"),
    ],
)
def test_a_table_that_nobody_says_which_is_refused(
    spec: PipelineSpec, link: str | None, source: str, said: str
) -> None:
    with pytest.raises(UsageError) as refused:
        ask_for_action(spec, TABLE, Action.PAUSE, link, "ann", source)

    assert refused.value.message == said


def test_a_table_that_a_target_dropped_hinders_no_snapshot_of_the_other_sources(spec: PipelineSpec) -> None:
    asked = ask_for_action(spec, TABLE, Action.DROP, "store-to-warehouse", "ann")
    with closing(open_table_actions(spec)) as actions:
        for each in asked:
            actions.end(each, Stage.DONE, "done")

    with pytest.raises(UnavailableError, match="1:1 does not answer"):
        ask_for_snapshots(spec, [TABLE], SnapshotOptions(), "shop")
    with pytest.raises(UsageError, match="was dropped at store-to-warehouse") as refused:
        ask_for_snapshots(spec, [TABLE], SnapshotOptions(), "store")

    assert refused.value.hint == "type: penstock snapshot FILE shop.orders --source store --full-refresh"


def test_a_hint_of_a_stopped_table_names_its_source(spec: PipelineSpec) -> None:
    with closing(open_pipeline_state(spec)) as state:
        for link, hint in (("shop", "penstock snapshot FILE shop.orders"), ("store-to-warehouse", FULL_REFRESH)):
            state.stop_table(link, TABLE, "it was refused", hint, 1)

    hints = {each.subject: each.hint for each in find_problems(read_status(spec), "p.yaml")}

    assert "penstock snapshot p.yaml shop.orders --source shop;" in hints["shop, shop.orders"]
    assert (
        "penstock snapshot p.yaml shop.orders --source store --full-refresh;"
        in hints["store-to-warehouse, shop.orders"]
    )


def test_commands_name_a_source_once_and_no_other_tables() -> None:
    text = (
        "penstock snapshot FILE TABLE, or penstock snapshot FILE a.b --full-refresh --link x; penstock table FILE a.bc"
    )

    assert name_file(text, "p.yaml", "a.b", "s") == (
        "penstock snapshot p.yaml a.b --source s, or penstock snapshot p.yaml a.b --full-refresh --link x; "
        "penstock table p.yaml a.bc"
    )


def test_what_is_typed_reaches_the_source_that_is_named(spec: PipelineSpec, tmp_path: Path) -> None:
    file = str(tmp_path / "p.yaml")
    under_way(spec, "store")

    ran = [
        CliRunner().invoke(app, arguments)
        for arguments in (
            ["snapshot", file, TABLE],
            ["snapshot", file, TABLE, "--source", "store"],
            ["snapshot", file, TABLE, "--source", "store", "--pause"],
            ["snapshot", file, "--status"],
            ["snapshot", file, "--status", "--source", "shop"],
            ["table", file, TABLE, "pause"],
            ["table", file, TABLE, "pause", "--source", "store"],
        )
    ]

    assert [each.exit_code for each in ran] == [2, 1, 0, 0, 0, 2, 0]
    assert wanted(spec) == {"store": Wanted.PAUSE}
    assert "127.0.0.1:2 does not answer" in ran[1].output
    assert "shop.orders of store: " in ran[3].output
    assert "no table had a snapshot yet" in ran[4].output
    assert f"see what comes of it: penstock table {file} shop.orders --source store" in ran[6].output

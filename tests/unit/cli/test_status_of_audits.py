"""What `penstock status`, the metrics and the live page say of audits, over a real state database."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.config.load import load
from penstock.ports.audit_results import WHOLE, AuditResult
from penstock.web.metrics import describe_metrics
from penstock.web.page import render_parts
from penstock.wiring.audits import open_results
from penstock.wiring.health import find_problems
from penstock.wiring.open import open_pipeline_state
from penstock.wiring.overview import make_overview
from penstock.wiring.pipeline_status import read_status

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.config.specs import PipelineSpec

CONFIG = """\
pipeline: shop
sources:
  - {name: shopdb, kind: mysql, host: 127.0.0.1, port: 1, user: u, password_env: SHOP_PASSWORD, tables: [shop.*]}
sinks:
  - {name: warehouse, kind: duckdb, path: w.duckdb}
links:
  - {from: shopdb, to: warehouse}
"""
LINK = "shopdb-to-warehouse"
BELOW = AuditResult(LINK, "shop.orders", 5000, "different", 0.5, 0.25, 0.75, is_below=True, wrong_rows=3)


@pytest.fixture
def spec(tmp_path: Path) -> PipelineSpec:
    file = tmp_path / "shop.yaml"
    file.write_text(CONFIG)
    loaded = load(file)
    with closing(open_pipeline_state(loaded)) as state:
        state.add_rows("shopdb", {"shop.orders": (1, 1)})
    return loaded


def keep(spec: PipelineSpec, *results: AuditResult) -> None:
    with closing(open_results(spec)) as kept:
        kept.add(results)


def said(spec: PipelineSpec) -> list[tuple[str, str, str]]:
    problems = find_problems(read_status(spec), "FILE")
    return [(each.level, each.subject, each.text) for each in problems]


def test_a_table_below_its_threshold_is_an_error_until_an_audit_finds_it_equal(spec: PipelineSpec) -> None:
    keep(spec, replace(BELOW, table=WHOLE, state="below"), BELOW)
    (found,) = said(spec)
    keep(spec, AuditResult(LINK, WHOLE, 6000, "passed"), AuditResult(LINK, "shop.orders", 6000, "equal", 1, 1, 1))

    assert found[:2] == ("error", f"{LINK}, shop.orders")
    assert "score 0.5 (0.25 to 0.75), 3 wrong rows, threshold 1, " in found[2]
    assert said(spec) == []


@pytest.mark.parametrize("state", ["lagging", "not reached", "failed"])
def test_a_table_below_its_threshold_stays_an_error_while_audits_come_to_no_result(
    spec: PipelineSpec, state: str
) -> None:
    keep(spec, replace(BELOW, table=WHOLE, state="below"), BELOW)
    keep(spec, AuditResult(LINK, WHOLE, 6000, "unknown"), AuditResult(LINK, "shop.orders", 6000, state, why="w"))
    keep(spec, AuditResult(LINK, WHOLE, 7000, "unknown"), AuditResult(LINK, "shop.orders", 7000, state, why="w"))
    (found,) = said(spec)
    metrics = describe_metrics(make_overview(spec, read_status(spec), "FILE"))
    keep(spec, AuditResult(LINK, WHOLE, 8000, "passed"), AuditResult(LINK, "shop.orders", 8000, "not compared"))

    assert found[:2] == ("error", f"{LINK}, shop.orders")
    assert "3 wrong rows" in found[2]
    assert found[2].endswith("; since then an audit came to no result: w")
    assert f'penstock_audit_below_threshold{{pipeline="shop",audit="{LINK}",table="shop.orders"}} 1' in metrics
    assert said(spec) == []


def test_an_audit_that_failed_is_an_error_and_a_target_that_lagged_a_warning(spec: PipelineSpec) -> None:
    keep(
        spec, AuditResult(LINK, WHOLE, 5, "failed", why="h is away"), AuditResult(LINK, "shop.a", 5, "lagging", why="w")
    )

    assert said(spec) == [
        ("error", LINK, "its audit failed, so nobody knows whether it is right: h is away"),
        ("warning", f"{LINK}, shop.a", "its last audit came to no result: w"),
    ]


def test_columns_that_were_left_out_of_an_equal_table_are_told_in_the_terminal_on_the_page_and_to_monitors(
    spec: PipelineSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "x")
    why = "2 columns are not compared"
    equal = AuditResult(LINK, "shop.a", 5, "equal", 1, 1, 1, why=why, not_compared=2)
    keep(spec, AuditResult(LINK, WHOLE, 5, "passed", 1, 1, 1, not_compared=2), equal)
    overview, file = make_overview(spec, read_status(spec), "FILE"), str(tmp_path / "shop.yaml")

    terminal = CliRunner().invoke(app, ["status", file], env={"COLUMNS": "200"}).stdout
    told = json.loads(CliRunner().invoke(app, ["status", file, "--json"]).stdout)["audits"]

    assert why in terminal
    assert why in "".join(render_parts(overview).values())
    assert [(each["table"], each["not_compared"]) for each in told] == [("", 2), ("shop.a", 2)]
    labels = f'{{pipeline="shop",audit="{LINK}",table="shop.a"}}'
    assert f"penstock_audit_columns_not_compared{labels} 2" in describe_metrics(overview)
    assert said(spec) == []


def test_an_alert_that_nobody_took_is_a_warning(spec: PipelineSpec) -> None:
    keep(spec, AuditResult(LINK, WHOLE, 5, "passed", 1, 1, 1, why="the webhook did not take the alert"))

    assert said(spec) == [("warning", LINK, "the webhook did not take the alert")]


def test_audits_of_links_that_the_file_does_not_have_are_nobodys_concern(spec: PipelineSpec) -> None:
    keep(spec, replace(BELOW, audit="shopdb-to-elsewhere"))

    assert said(spec) == []


def test_status_metrics_and_page_show_score_bounds_and_what_to_type(
    spec: PipelineSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "x")
    keep(spec, replace(BELOW, table=WHOLE, state="below"), BELOW)
    file = str(tmp_path / "shop.yaml")
    overview = make_overview(spec, read_status(spec), file)

    table = CliRunner().invoke(app, ["status", file]).stdout
    told = json.loads(CliRunner().invoke(app, ["status", file, "--json"]).stdout)
    metrics, page = describe_metrics(overview), "".join(render_parts(overview).values())

    assert "0.25 to 0.75" in table
    assert f"penstock audit {file} --repair" in table
    assert [(each["table"], each["score"], each["is_below"]) for each in told["audits"]] == [
        ("", 0.5, True),
        ("shop.orders", 0.5, True),
    ]
    assert 'penstock_audit_score_lower{pipeline="shop",audit="shopdb-to-warehouse",table="shop.orders"} 0.25' in metrics
    assert "0.25 to 0.75" in page
    assert "<code>penstock audit FILE --repair</code>" in page

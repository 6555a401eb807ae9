"""`penstock status`, over a real state database and a real lock."""

from __future__ import annotations

import json
import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from penstock.adapters.lock.file import FileLock
from penstock.adapters.state.store import open_state
from penstock.cli.console import format_bytes, format_seconds
from penstock.cli.main import app
from penstock.config.load import load
from penstock.config.places import lock_file, state_url
from penstock.core.positions import BinlogPosition
from penstock.ports.state import LinkProgress

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """\
pipeline: shop
sources:
  - {name: shopdb, kind: mysql, host: h, user: cdc, password_env: SHOPDB_PASSWORD, tables: [shop.*]}
sinks:
  - {name: warehouse, kind: duckdb, path: w.duckdb}
links:
  - {from: shopdb, to: warehouse}
"""

SINK = "shopdb-to-warehouse"

HOUR = 3_600_000
"""In milliseconds."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A pipeline that was killed: captured to the end of the log, two days behind in the warehouse, one stopped."""
    file = tmp_path / "shop.yaml"
    file.write_text(CONFIG)
    spec = load(file)
    state = open_state(state_url(spec), spec.pipeline)
    now = now_ms()
    state.save_link(LinkProgress("shopdb", "bin.000007:42", "running", 0.0, 0, now - 5 * HOUR // 2, "", "", 0))
    late = LinkProgress(SINK, "b/0:9", "failed", 1.0, 4096, now - 99 * HOUR // 2, "no [room]", "make room")
    state.save_link(
        replace(late, behind_since_ms=now - 103 * HOUR // 2, lag_messages=3, moved_at_ms=now - 101 * HOUR // 2)
    )
    state.add_rows("shopdb", {"shop.orders": (12_345, 10_000), "shop.maps": (1, 5_000)})
    state.add_rows(SINK, {"shop.orders": (12_000, 7_500)})
    state.save_table_lags(SINK, {"shop.orders": now - 101 * HOUR // 2})
    state.stop_table("shopdb", "shop.maps", "geometry is not carried", "leave the table out", now - 151 * HOUR // 2)
    state.add_rows(SINK, {"shop.gone": (7, 7_000)})
    state.save_table_lags(SINK, {"shop.gone": 0})
    state.note_table(SINK, "shop.gone", "the source dropped [it]")
    state.close()
    return file


def test_status_shows_links_tables_problems_and_what_to_type(file: Path) -> None:
    shown = CliRunner().invoke(app, ["status", str(file)]).stdout

    lines = [line.split() for line in shown.splitlines()]
    assert "shop is not running; to start it: penstock run" in shown
    assert [SINK, "failed", "b/0:9", "2", "d", "3", "h", "4.0", "KiB", "1", "h", "0", "min"] in [
        line[:13] for line in lines
    ]
    by_table = [line for line in lines if line and line[0] in {"shop.maps", "shop.orders", "shop.gone"}]
    assert by_table == [
        ["shop.maps", "stopped", "1", "(stopped)"],
        ["shop.orders", "behind", "12,345", "12,000", "(2", "d", "2", "h)"],
        ["shop.gone", "up", "to", "date", "7"],
    ]
    what_to_do = f"  what to do: leave the table out; then type: penstock run {file}\n"
    assert f"shopdb, shop.maps: geometry is not carried\n{what_to_do}" in shown
    assert "shopdb-to-warehouse, shop.gone: the source dropped [it]\n" in shown
    assert f"{SINK}: no [room]\n  what to do: make room; then type: penstock run {file}\n" in shown
    assert f"sign of life is 2.5 hours old\n  what to do: nothing is lost; type: penstock run {file}\n" in shown


def test_status_says_what_it_could_not_ask(file: Path) -> None:
    shown = CliRunner().invoke(app, ["status", str(file)])

    assert (
        "shopdb: could not be asked how far its log reaches: the environment variable SHOPDB_PASSWORD" in shown.stdout
    )
    assert shown.exit_code == 0


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_script_is_told_by_the_exit_code_when_it_asks_for_that(file: Path, form: list[str]) -> None:
    shown = CliRunner().invoke(app, ["status", str(file), *form])
    told = CliRunner().invoke(app, ["status", str(file), *form, "--exit-code"])

    assert (shown.exit_code, told.exit_code) == (0, 1)
    assert [line.split()[:1] for line in told.stdout.splitlines()] == [
        line.split()[:1] for line in shown.stdout.splitlines()
    ]


def test_the_lag_of_a_capture_that_does_not_run_is_not_guessed_where_its_source_is_away(file: Path) -> None:
    spec = load(file)
    state = open_state(state_url(spec), spec.pipeline)
    state.save_position("shopdb", BinlogPosition("bin.000007", 42), 1, {}, {})
    state.close()

    told = json.loads(CliRunner().invoke(app, ["status", str(file), "--json"]).stdout)

    assert [told["links"][0][key] for key in ("lag_seconds", "lag_bytes", "stuck_seconds")] == [None] * 3
    assert told["sources"][0]["unanswered"]


def test_status_as_json_has_stable_keys(file: Path) -> None:
    told = json.loads(CliRunner().invoke(app, ["status", str(file), "--json"]).stdout)

    whole = "pipeline running holder now_ms healthy problems links tables snapshots sources audits police servers"
    assert list(told) == whole.split()
    link, orders, gone, maps = told["links"][1], told["tables"][3], told["tables"][2], told["tables"][0]
    assert link == {
        "link": SINK,
        "state": "failed",
        "position": "b/0:9",
        "lag_seconds": pytest.approx(51.5 * 3600, rel=0.01),
        "lag_bytes": 4096,
        "lag_messages": 3,
        "stuck_seconds": pytest.approx(3600, rel=0.01),
        "moved_at_ms": link["updated_at_ms"] - HOUR,
        "updated_at_ms": link["updated_at_ms"],
        "age_seconds": pytest.approx(49.5 * 3600, rel=0.01),
        "error": "no [room]",
        "hint": "make room",
        "failures": 0,
        "failed_at_ms": None,
        "failure": None,
        "dead_letters": None,
    }
    assert orders == {
        "link": SINK,
        "table": "shop.orders",
        "rows": 12_000,
        "newest_change_ms": 7_500,
        "lag_seconds": pytest.approx(50.5 * 3600, rel=0.01),
        "stopped": False,
        "stopped_at_ms": None,
        "paused": False,
        "dropped": False,
        "skipped": 0,
        "request": None,
        "updated_at_ms": orders["updated_at_ms"],
        "error": None,
        "hint": None,
    }
    assert (gone["table"], gone["lag_seconds"]) == ("shop.gone", 0)
    assert (maps["error"], maps["stopped"]) == ("geometry is not carried", True)
    assert maps["lag_seconds"] == pytest.approx(75.5 * 3600, rel=0.01)


def test_sources_and_problems_are_told_as_json_too(file: Path) -> None:
    told = json.loads(CliRunner().invoke(app, ["status", str(file), "--json"]).stdout)

    assert told["sources"] == [
        {
            "source": "shopdb",
            "position": None,
            "log_end": None,
            "lag_bytes": None,
            "oldest_ahead_ms": None,
            "retention": None,
            "unanswered": told["sources"][0]["unanswered"],
        }
    ]
    assert [(problem["level"], problem["subject"]) for problem in told["problems"]] == [
        ("error", "pipeline"),
        ("error", SINK),
        ("error", "shopdb, shop.maps"),
        ("warning", "shopdb"),
    ]
    assert told["healthy"] is False


def test_a_pipeline_that_ended_in_order_has_no_problem_and_is_not_healthy_for_nobody_runs_it(file: Path) -> None:
    spec = load(file)
    state = open_state(state_url(spec), spec.pipeline)
    for link in state.links():
        state.save_link(replace(link, state="stopped", error="", hint="", behind_since_ms=0))
    state.resume_table("shopdb", "shop.maps")
    state.close()

    told = json.loads(CliRunner().invoke(app, ["status", str(file), "--json"]).stdout)

    assert (told["healthy"], told["running"]) == (False, False)
    assert [problem["subject"] for problem in told["problems"]] == ["shopdb"]


def test_links_that_were_taken_out_of_the_file_are_told_no_more_with_their_tables_and_problems(file: Path) -> None:
    spec = load(file)
    with closing(open_state(state_url(spec), spec.pipeline)) as state:
        state.save_link(LinkProgress("old-link", "b/0:1", "failed", 1.0, 1, now_ms(), "no such host", "mend it", 0))
        state.stop_table("old-link", "shop.orders", "it is locked", "unlock it", 0)

    told = CliRunner().invoke(app, ["status", str(file), "--json"]).stdout
    shown = CliRunner().invoke(app, ["status", str(file)]).stdout

    assert "old-link" not in told + shown
    assert "it is locked" not in told + shown


@pytest.mark.parametrize(("seconds_ago", "running"), [(2, None), (40, False)])
def test_a_pipeline_whose_lock_may_be_on_another_machine_is_not_called_dead_while_it_gives_signs_of_life(
    tmp_path: Path, seconds_ago: int, running: object
) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(f"{CONFIG}state: {{url: 'sqlite:///{tmp_path}/shared.db'}}\n")
    with closing(open_state(f"sqlite:///{tmp_path}/shared.db", "shop")) as state:
        for name in ("shopdb", "objects", SINK):
            link = LinkProgress(name, "7", "running", 9.0, 9, now_ms() - 1000 * seconds_ago, "", "", now_ms() - 9000)
            state.save_link(link)
        state.stop_table("shopdb", "shop.maps", "geometry is not carried", "leave the table out", 1)

    told = json.loads(CliRunner().invoke(app, ["status", str(file), "--json"]).stdout)
    shown = CliRunner().invoke(app, ["status", str(file)]).stdout

    assert (told["running"], told["healthy"]) == (running, False)
    assert ("it was killed, or its machine went down" in shown) == (running is False)
    assert (f"; type: penstock run {file}" in shown) == (running is False)
    if running is None:
        assert "nobody holds its lock here, though it gave a sign of life" in shown
        assert f"leave the table out; then stop the pipeline and type: penstock run {file}" in shown
        assert "not running" not in shown


def test_status_says_who_runs_the_pipeline(file: Path) -> None:
    lock = FileLock(lock_file(load(file)))
    lock.acquire(0)

    told = json.loads(CliRunner().invoke(app, ["status", str(file), "--json"]).stdout)
    shown = CliRunner().invoke(app, ["status", str(file)]).stdout
    lock.release()

    assert told["running"] is True
    assert told["holder"].startswith("pid ")
    assert f"shop is running ({told['holder']})" in shown


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "?"),
        (0, "0.0 s"),
        (9.94, "9.9 s"),
        (59.4, "59 s"),
        (61, "1 min 1 s"),
        (7260, "2 h 1 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_a_duration_is_shown_in_its_two_largest_units(seconds: float | None, text: str) -> None:
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(("count", "text"), [(None, "?"), (0, "0 B"), (1536, "1.5 KiB"), (2**50, "1024.0 TiB")])
def test_a_size_is_shown_in_binary_units(count: int | None, text: str) -> None:
    assert format_bytes(count) == text

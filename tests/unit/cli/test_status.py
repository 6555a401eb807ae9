"""`penstock status`, over a real state database and a real lock."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from penstock.adapters.lock.file import FileLock
from penstock.adapters.state.store import open_state
from penstock.cli.console import format_bytes, format_seconds
from penstock.cli.main import app
from penstock.config.load import load
from penstock.config.places import lock_file, state_url
from penstock.ports.state import LinkProgress

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """\
pipeline: shop
sources:
  - {name: shopdb, kind: mysql, host: h, user: cdc, password_env: SHOPDB_PASSWORD, tables: [shop.*]}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A pipeline that has run: captured up to t=10 s, loaded up to t=7.5 s, one table stopped."""
    file = tmp_path / "shop.yaml"
    file.write_text(CONFIG)
    spec = load(file)
    state = open_state(state_url(spec), spec.pipeline)
    now_ms = time.time_ns() // 1_000_000
    state.save_link(LinkProgress("shopdb", "bin.000007:42", "live", 0.25, 4096, now_ms, "", ""))
    state.save_link(LinkProgress("warehouse", "", "waiting", None, None, now_ms - 90_000, "no [room]", "make room"))
    state.add_rows("shopdb", {"shop.orders": (12_345, 10_000), "shop.maps": (1, 5_000)})
    state.add_rows("warehouse", {"shop.orders": (12_000, 7_500)})
    state.stop_table("shopdb", "shop.maps", "geometry is not carried", "leave the table out")
    state.add_rows("warehouse", {"shop.gone": (7, 7_000)})
    state.note_table("warehouse", "shop.gone", "the source dropped [it]")
    state.close()
    return file


def test_status_shows_links_tables_errors_and_what_to_type(file: Path) -> None:
    shown = CliRunner().invoke(app, ["status", str(file)]).stdout

    lines = [line.split() for line in shown.splitlines()]
    assert "shop is not running; to start it: penstock run" in shown
    assert ["shopdb", "live", "bin.000007:42", "0.2", "s", "4.0", "KiB"] in [line[:7] for line in lines]
    assert ["warehouse", "waiting", "?", "?", "1", "min"] in [line[:6] for line in lines]
    assert any(line[:3] == ["shopdb", "shop.orders", "12,345"] and line[-2:] == ["0.0", "s"] for line in lines)
    assert any(line[:3] == ["warehouse", "shop.orders", "12,000"] and line[-2:] == ["2.5", "s"] for line in lines)
    assert any(line[:2] == ["shopdb", "shop.maps"] and line[-1] == "stopped" for line in lines)
    assert "shopdb, shop.maps: geometry is not carried\n  what to do: leave the table out\n" in shown
    assert any(line[:3] == ["warehouse", "shop.gone", "7"] and line[-2:] == ["see", "below"] for line in lines)
    assert "warehouse, shop.gone: the source dropped [it]\n" in shown
    assert "warehouse: no [room]\n  what to do: make room\n  then type: penstock run" in shown


def test_status_as_json_has_stable_keys(file: Path) -> None:
    told = json.loads(CliRunner().invoke(app, ["status", str(file), "--json"]).stdout)

    assert list(told) == ["pipeline", "running", "holder", "links", "tables"]
    assert told["links"][0] == {
        "link": "shopdb",
        "state": "live",
        "position": "bin.000007:42",
        "lag_seconds": 0.25,
        "lag_bytes": 4096,
        "updated_at_ms": told["links"][0]["updated_at_ms"],
        "error": None,
        "hint": None,
    }
    assert told["tables"][3] == {
        "link": "warehouse",
        "table": "shop.orders",
        "rows": 12_000,
        "newest_change_ms": 7_500,
        "lag_seconds": 2.5,
        "updated_at_ms": told["tables"][3]["updated_at_ms"],
        "error": None,
        "hint": None,
    }
    assert told["tables"][0]["error"] == "geometry is not carried"


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

"""The report of `penstock audit --html`: what an audit found is not lost where its file cannot be written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest
from typer.testing import CliRunner

from penstock.cli.main import app

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result


def audit(directory: Path, html: Path | str) -> Result:
    """Compare two tables that are equal."""
    for name in ("a", "b"):
        with duckdb.connect(directory / f"{name}.duckdb") as database:
            database.execute("CREATE SCHEMA IF NOT EXISTS shop")
            database.execute("CREATE OR REPLACE TABLE shop.orders AS SELECT 7 AS id, 'x' AS note")
    urls = ["--from", f"duckdb:///{directory}/a.duckdb", "--to", f"duckdb:///{directory}/b.duckdb"]
    return CliRunner().invoke(app, ["audit", *urls, "--table", "shop.orders", "--key", "id", "--html", str(html)])


def test_it_is_written_beside_what_is_printed(tmp_path: Path) -> None:
    ran = audit(tmp_path, tmp_path / "report.html")

    assert ran.exit_code == 0, ran.output
    assert "score 1 of 1 table(s)" in ran.stdout
    assert "shop.orders" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("place", ["nowhere/report.html", "a.duckdb/report.html", "."])
def test_a_place_without_room_for_it_is_refused_before_the_audit(tmp_path: Path, place: str) -> None:
    ran = audit(tmp_path, tmp_path / place)

    assert ran.exit_code == 2
    assert ran.stdout == ""
    assert "cannot be written" in ran.stderr
    assert "a folder that is there" in ran.stderr


def test_a_write_that_fails_after_the_audit_is_told_behind_what_was_found(tmp_path: Path) -> None:
    ran = audit(tmp_path, "/dev/full")

    assert ran.exit_code == 1
    assert "score 1 of 1 table(s)" in ran.stdout
    assert "the report /dev/full could not be written: No space left on device" in ran.stderr

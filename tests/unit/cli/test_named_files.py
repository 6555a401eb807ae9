"""Commands in messages name the pipeline's file, wherever it is known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import structlog
from tests.unit.web.shop import CONFIG
from typer.testing import CliRunner

from penstock.cli.logs import open_logs
from penstock.cli.main import app
from penstock.core.commands import has_command, name_file


def test_a_command_gets_its_file_and_table_and_other_words_stay() -> None:
    hint = "type: penstock snapshot FILE TABLE --full-refresh, or penstock joinery rebuild FILE x; give tls: {ca: FILE}"

    assert name_file(hint, "a b.yaml", "shop.orders") == (
        "type: penstock snapshot 'a b.yaml' shop.orders --full-refresh, or penstock joinery rebuild 'a b.yaml' x; "
        "give tls: {ca: FILE}"
    )
    assert "penstock snapshot p.yaml TABLE" in name_file(hint, "p.yaml")
    assert has_command(hint)
    assert not has_command("give tls: {ca: FILE}")


@pytest.mark.parametrize(
    "command",
    [["sql", "SELECT 1"], ["table", "shop.orders", "pause"], ["snapshot", "shop.orders"]],
)
def test_errors_of_commands_name_the_file(tmp_path: Path, command: list[str]) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(CONFIG)
    name, *rest = command
    ran = CliRunner().invoke(app, [name, str(file), *rest])

    assert ran.exit_code != 0
    assert f" {file}" in ran.stderr
    assert " FILE" not in ran.stderr


def test_a_run_names_it_in_its_log(tmp_path: Path) -> None:
    log = open_logs(tmp_path, console=False, pipeline_file=Path("shop.yaml"))
    structlog.get_logger("penstock").warning("table stopped", hint="type: penstock snapshot FILE shop.orders")

    assert json.loads(log.read_text())["hint"] == "type: penstock snapshot shop.yaml shop.orders"


def test_pages_of_the_documentation_are_at_hand() -> None:
    listed, page = (CliRunner().invoke(app, ["docs", *name]).stdout for name in ([], ["docs/Run.md"]))
    strange = CliRunner().invoke(app, ["docs", "nothing"])

    assert "Running a pipeline" in listed
    assert page.startswith("# Running a pipeline")
    assert strange.exit_code == 2
    assert "penstock docs" in strange.stderr

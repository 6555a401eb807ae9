"""`penstock table`: who asks, and what it prints where."""

from __future__ import annotations

import io
import json
import os
import pwd
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.unit.web.shop import CONFIG

from penstock.cli.main import app
from penstock.config.load import load
from penstock.wiring.open import open_pipeline_state

if TYPE_CHECKING:
    from pathlib import Path

TABLE, LINK = "shop.orders", "shopdb-to-warehouse"


class Terminal(io.StringIO):
    """Somebody sits there, and types what it is made with."""

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return True


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A pipeline that has run, and has the table."""
    file = tmp_path / "shop.yaml"
    file.write_text(CONFIG)
    with closing(open_pipeline_state(load(file))) as state:
        state.add_rows(LINK, {TABLE: (1, 1)})
    return file


def nobody(_uid: int) -> None:
    raise KeyError


def test_a_user_without_a_name_asks_by_its_number(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    # As in a container that runs with a number that /etc/passwd does not have.
    monkeypatch.setattr(pwd, "getpwuid", nobody)

    app(["table", str(file), TABLE, "pause", "--json"], standalone_mode=False)

    (request,) = json.loads(capsys.readouterr().out)["requests"]
    assert request["asked_by"] == f"uid {os.getuid()}"


def test_a_question_is_asked_beside_what_is_printed_for_programs(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))

    app(["table", str(file), TABLE, "drop", "--json"], standalone_mode=False)

    out, err = capsys.readouterr()
    assert json.loads(out)["requests"][0]["action"] == "drop"
    assert "Drop it?" in err

"""Logs: JSON in a file, lines for people on the console."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from penstock.cli.logs import open_logs
from penstock.core.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
import logging, sys, warnings
from pathlib import Path
import structlog
from penstock.cli.logs import open_logs, record_defect
early = structlog.get_logger("penstock.links")
file = open_logs(Path(sys.argv[1]), console=sys.argv[2] == "console")
early.info("batch", table="shop.orders", rows=3, story="once\\nupon a time")
structlog.get_logger("penstock.links").debug("too fine")
logging.getLogger("elsewhere").warning("watch %s", "out")
logging.getLogger("elsewhere").info("chatter")
warnings.warn("old ways")
try:
    password = "hunter2"
    1 / 0
except ZeroDivisionError as error:
    assert record_defect(error) == file
"""


def log(directory: Path, where: str) -> tuple[list[dict[str, object]], str]:
    """The events in the file, and what was on standard error."""
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(directory), where], capture_output=True, text=True, check=True, timeout=60
    )
    assert result.stdout == ""
    return [json.loads(line) for line in (directory / "penstock.log").read_text().splitlines()], result.stderr


def test_events_are_json_lines_in_the_file(tmp_path: Path) -> None:
    events, _ = log(tmp_path / "home" / "logs", "file only")

    batch = events[0]
    assert {key: batch[key] for key in ("event", "level", "logger", "table", "rows", "story")} == {
        "event": "batch",
        "level": "info",
        "logger": "penstock.links",
        "table": "shop.orders",
        "rows": 3,
        "story": "once\nupon a time",
    }
    assert str(batch["timestamp"]).endswith("Z")
    assert [event["event"] for event in events[1:2]] == ["watch out"]
    assert "old ways" in str(events[2]["event"])
    assert "ZeroDivisionError: division by zero" in str(events[3]["exception"])
    assert len(events) == 4


def test_a_live_view_keeps_the_console_to_itself(tmp_path: Path) -> None:
    _, told = log(tmp_path, "file only")

    assert told == ""


def test_without_a_live_view_people_read_along(tmp_path: Path) -> None:
    _, told = log(tmp_path, "console")

    assert "batch" in told
    assert "table=shop.orders" in told
    assert "rows=3" in told
    assert "upon a time" not in told


def test_a_traceback_is_for_the_file_alone_and_no_variable_is_told(tmp_path: Path) -> None:
    _, told = log(tmp_path, "console")

    assert "ZeroDivisionError: division by zero" in told
    assert "Traceback" not in told
    assert "hunter2" not in told + (tmp_path / "penstock.log").read_text()


def test_a_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file where a directory should be")
    handlers = list(logging.getLogger().handlers)

    with pytest.raises(UsageError, match="cannot write the log"):
        open_logs(tmp_path / "logs", console=False)

    assert logging.getLogger().handlers == handlers

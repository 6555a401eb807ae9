"""Files of large messages are not looked for more often than they need be."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from structlog.testing import capture_logs
from tests.unit.web.shop import CONFIG

from penstock.config.load import load
from penstock.wiring.large_files import LargeSweeps

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def sweeps_of(tmp_path: Path, text: str) -> LargeSweeps:
    """Of a pipeline whose files cannot be listed, so that each time they are looked for is told."""
    (tmp_path / "file").write_text("")
    file = tmp_path / "shop.yaml"
    file.write_text(f"{CONFIG}objects: {{url: 'file://{tmp_path}/file/below'{text}}}\n")
    return LargeSweeps(load(file))


def test_they_are_looked_for_once_in_six_hours_and_trouble_there_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweeps, began = sweeps_of(tmp_path, ", keep_hours: 1"), time.monotonic()

    told = []
    for hours in (0, 0.1, 5.9, 6.1, 6.2, 12.3):
        monkeypatch.setattr(time, "monotonic", lambda at=began + hours * 3600: at)
        with capture_logs() as logged:
            sweeps.sweep()
        told.append([each["event"] for each in logged])

    wait = ["old files of large messages wait"]
    assert told == [wait, [], [], wait, [], wait]


def test_none_is_looked_for_where_files_are_kept_for_ever(tmp_path: Path) -> None:
    with capture_logs() as logged:
        sweeps_of(tmp_path, ", keep_hours: forever").sweep()

    assert logged == []

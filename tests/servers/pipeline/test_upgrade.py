"""A pipeline that an earlier state of Penstock made goes on with this one: its home, its topics, its warehouse."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.pipeline.user_pipeline import UserPipeline

_CHECKOUT = Path(__file__).resolve().parents[3]
_BEFORE = "004655f9a937a72a889676ae9c3abcb3ebe4bc92"
"""Of 25 November 2026: before its records, keys of the file and folders got the names that they have now."""
_RUN_SECONDS = 300


@pytest.fixture
def before(tmp_path: Path) -> Iterator[Path]:
    """Give the sources of the earlier state, from this repository's own history."""
    tree = tmp_path / "before"
    _git("worktree", "add", "--detach", str(tree), _BEFORE)
    try:
        yield tree / "src"
    finally:
        _git("worktree", "remove", "--force", str(tree))


def _git(*arguments: str) -> None:
    subprocess.run(["git", "-C", str(_CHECKOUT), *arguments], check=True, capture_output=True, timeout=120)  # noqa: S607 - the one of the PATH


def _run_once(pipeline: UserPipeline, sources: Path) -> None:
    command = [sys.executable, "-m", "penstock", "run", str(pipeline.file), "--once"]
    environment = {**os.environ, "PYTHONPATH": str(sources)}
    told = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_RUN_SECONDS, check=False)
    assert told.returncode == 0, told.stdout + told.stderr


@pytest.mark.nightly
def test_a_pipeline_of_before_goes_on_without_loss(user_pipeline: UserPipeline, before: Path) -> None:
    pipeline = user_pipeline
    pipeline.file.write_text(
        # Keys of that time, which have other names now.
        pipeline.file.read_text().replace("start: snapshot", "start: copy")
    )
    pipeline.execute(
        "CREATE TABLE counters (id INT PRIMARY KEY, version INT)",
        "CREATE TABLE notes (id BIGINT UNSIGNED PRIMARY KEY, text LONGTEXT, at DATETIME(6), price DECIMAL(10,2))",
        "INSERT INTO counters SELECT seq, 0 FROM seq_1_to_1000",
        "INSERT INTO notes VALUES (1, 'copied', '2026-01-02 03:04:05.678901', 1.25)",
    )
    _run_once(pipeline, before)
    pipeline.execute(
        "UPDATE counters SET version = 1 WHERE id <= 500",
        "ALTER TABLE notes ADD COLUMN stars INT NOT NULL DEFAULT 3",
        "INSERT INTO notes VALUES (2, 'captured', NULL, -1.25, 5)",
    )
    _run_once(pipeline, before)
    assert pipeline.differences() == {"counters": 0, "notes": 0}

    pipeline.execute(
        "UPDATE counters SET version = 2 WHERE id BETWEEN 400 AND 600",
        "DELETE FROM counters WHERE id > 990",
        "ALTER TABLE notes ADD COLUMN more VARCHAR(20)",
        "UPDATE notes SET more = 'of now', stars = 4 WHERE id = 1",
        "CREATE TABLE fresh (id INT PRIMARY KEY)",
        "INSERT INTO fresh VALUES (7)",
    )
    _run_once(pipeline, _CHECKOUT / "src")

    assert pipeline.differences() == {"counters": 0, "fresh": 0, "notes": 0}
    changed = pipeline.changes()
    assert len(changed) == 1000 + 500 + 201 + 10, "each change is in the topic once"

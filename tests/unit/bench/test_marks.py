"""A measured program says what it did when, and the bench hears it, or hears why not."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import pytest

from penstock.bench.marks import await_mark, read_marks
from penstock.core.errors import PenstockError, UnavailableError
from penstock.embedded.processes import start_child

if TYPE_CHECKING:
    from pathlib import Path

_MARKS = "from penstock.bench.marks import write_mark; write_mark('begin'); write_mark('rows', 7)"


def test_marks_are_moments_of_the_clock_that_all_processes_share(tmp_path: Path) -> None:
    before = time.monotonic()
    child = start_child("a program", [sys.executable, "-c", _MARKS], tmp_path / "log")

    rows, begin = (await_mark(child, name, 60) for name in ("rows", "begin"))

    assert rows == 7
    assert before <= begin <= time.monotonic()
    child.kill()


def test_a_program_that_ends_without_its_mark_is_reported_with_its_last_words(tmp_path: Path) -> None:
    child = start_child("a program", [sys.executable, "-c", "print('no luck')"], tmp_path / "log")

    with pytest.raises(PenstockError, match="no luck"):
        await_mark(child, "rows", 60)


def test_a_program_that_takes_too_long_is_reported(tmp_path: Path) -> None:
    child = start_child("a program", [sys.executable, "-c", "import time; time.sleep(600)"], tmp_path / "log")

    with pytest.raises(UnavailableError, match="rows"):
        await_mark(child, "rows", 0.1)
    child.kill()


def test_other_lines_of_a_log_are_no_marks(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("mark\nmark begin 1.5\nremark begin 2.5\nmark begin 3.5 4.5\n")

    assert read_marks(log) == {"begin": 1.5}

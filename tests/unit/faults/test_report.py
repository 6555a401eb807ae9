"""The table of a fault suite's run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from penstock.core.errors import PenstockError, UsageError
from penstock.faults.report import marks, render, write_into
from penstock.faults.trials import Trial, TrialFile, require_clean

if TYPE_CHECKING:
    from pathlib import Path

_BEGIN, _END = marks("postgres")
_MACHINE: dict[str, str | float] = {"processor": "A", "cores": 2, "memory_gib": 24.0, "load_before": 0.5}


def test_every_kind_of_fault_has_a_line_and_all_have_one() -> None:
    trials = [
        *(Trial("b", seconds, changes=100, elapsed_seconds=60) for seconds in (3.0, 1.0, 9.0)),
        Trial("a", 5.0, lost=2, doubled=1, differences=7, changes=12045),
    ]

    text = render(trials, 7, _MACHINE, "2026-01-02")

    assert "4 faults, seed 7, 2026-01-02, 3 minutes, 12,345 changes" in text
    assert text.splitlines()[-3:] == [
        "| a | 1 | 2 | 1 | 7 | 5.0 | 5.0 |",
        "| b | 3 | 0 | 0 | 0 | 3.0 | 9.0 |",
        "| **all** | 4 | 2 | 1 | 7 | 4.0 | 9.0 |",
    ]
    assert "| **all** | 0 |" in render([], 7, _MACHINE, "2026-01-02")


@pytest.mark.parametrize("wrong", [Trial("a", 1.0, lost=1), Trial("a", 1.0, doubled=1), Trial("a", 1.0, differences=1)])
def test_a_trial_is_clean_only_without_anything_wrong(wrong: Trial) -> None:
    assert Trial("a", 1.0, changes=5).is_clean
    assert not wrong.is_clean
    require_clean([Trial("a", 1.0)], "look")
    with pytest.raises(PenstockError, match=f"a: {wrong.says}"):
        require_clean([Trial("b", 1.0), wrong], "look")


def test_a_run_is_gone_on_with(tmp_path: Path) -> None:
    file = tmp_path / "trials.jsonl"
    trials = [Trial("a", 1.5, examples=("x",)), Trial("b", 2.0, lost=1, changes=3, elapsed_seconds=9.5)]
    first = TrialFile(file, None, "mysql")
    for trial in trials:
        first.add(trial)

    again = TrialFile(file, None, "mysql")

    assert [replace(trial, examples=tuple(trial.examples)) for trial in again.trials] == trials
    assert again.seed == TrialFile(file, first.seed, "mysql").seed == first.seed
    with pytest.raises(UsageError, match=f"seed {first.seed}, not of -1"):
        TrialFile(file, -1, "mysql")


@pytest.mark.parametrize("text", ["a: 1", '{"seed": "x"}', '{"seed": 1}\n{"fault": "a"}', '{"seed": 1}\n[]', "[]"])
def test_a_file_of_something_else_is_left_alone(tmp_path: Path, text: str) -> None:
    file = tmp_path / "trials.jsonl"
    file.write_text(text)
    with pytest.raises(UsageError, match="does not have the trials"):
        TrialFile(file, 1, "mysql")
    assert file.read_text() == text


@pytest.mark.parametrize("head", ['{"seed": 1}', '{"seed": 1, "source": "mysql"}'])
def test_a_file_of_another_kind_of_source_is_refused(tmp_path: Path, head: str) -> None:
    file = tmp_path / "trials.jsonl"
    file.write_text(head)

    with pytest.raises(UsageError, match="of mysql, not of postgres"):
        TrialFile(file, 1, "postgres")

    assert TrialFile(file, 1, "mysql").trials == []


def test_a_new_file_remembers_its_kind_of_source(tmp_path: Path) -> None:
    file = tmp_path / "trials.jsonl"
    TrialFile(file, 1, "postgres")

    assert TrialFile(file, None, "postgres").seed == 1
    with pytest.raises(UsageError, match="of postgres, not of mysql"):
        TrialFile(file, None, "mysql")


def test_the_table_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"above\n{_BEGIN}\nold\n{_END}\nbelow\n")

    write_into(page, "new", "postgres")
    write_into(page, "newer", "postgres")

    assert page.read_text() == f"above\n{_BEGIN}\nnewer\n{_END}\nbelow\n"


@pytest.mark.parametrize("text", ["", _BEGIN, _END, "\n".join(marks("mysql")), f"{_END}{_BEGIN}"])
def test_a_page_without_its_marks_is_left_alone(tmp_path: Path, text: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(UsageError, match="has no place"):
        write_into(page, "new", "postgres")
    assert page.read_text() == text

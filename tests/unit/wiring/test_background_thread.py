"""A thread beside the links: what fails is told and tried again, and its end is not waited for in vain."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import structlog

from penstock.core.errors import PenstockError, UnavailableError
from penstock.wiring.background_thread import BackgroundThread

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest


class Script(BackgroundThread):
    """Does what a list says: a text is the failure of a turn, "" a turn that succeeds."""

    waits = "it waits"
    pause_seconds = 0.0

    def __init__(self, turns: list[str]) -> None:
        super().__init__("penstock-test")
        self.turns: Iterator[str] = iter(turns)
        self.told: list[tuple[str, int]] = []
        self.is_through = threading.Event()

    def work(self) -> float:
        failure = next(self.turns, None)
        if failure is None:
            self.is_through.set()
            return 600.0
        if failure == "a mistake":
            raise ZeroDivisionError(failure)
        if failure:
            raise UnavailableError(failure, "start it")
        return 0.0

    def tell_failure(self, error: PenstockError, failures: int) -> None:
        self.told.append((error.message, failures))


def test_a_failure_is_told_once_for_as_long_as_it_stays_the_same_and_tried_again() -> None:
    script = Script(["away", "away", "full", "", "full"])

    with script:
        assert script.is_through.wait(10)

    assert script.told == [("away", 1), ("full", 3), ("full", 1)]


def test_a_mistake_of_ours_is_logged_once_with_its_traceback_and_the_thread_goes_on() -> None:
    script = Script(["away", "a mistake", "a mistake", "away"])

    with structlog.testing.capture_logs() as logged, script:
        assert script.is_through.wait(10)

    assert script.told == [("away", 1), ("away", 4)]
    assert [(each["event"], repr(each["exc_info"])) for each in logged] == [
        ("it waits", "ZeroDivisionError('a mistake')")
    ]


def test_work_that_went_well_for_long_has_its_next_failure_told_even_if_it_is_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter(range(0, 10_000, 100))
    monkeypatch.setattr("penstock.wiring.background_thread.time.monotonic", lambda: float(next(clock)))
    script = Script(["away", "away"])

    script._work_once()
    script._work_once()

    assert script.told == [("away", 1), ("away", 1)]


def test_the_end_interrupts_a_pause_and_a_thread_that_never_began_ends_too() -> None:
    script = Script([])

    with script:
        assert script.is_through.wait(10)

    assert not script._thread.is_alive()
    Script([]).__exit__(None, None, None)

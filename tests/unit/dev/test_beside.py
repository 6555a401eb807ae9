"""What is made beside other things is taken once, and never left behind."""

from __future__ import annotations

import threading

import pytest

from penstock.core.errors import UnavailableError
from penstock.embedded.beside import Beside

_SECONDS = 30


def test_it_is_made_at_once_and_whoever_takes_it_owns_it() -> None:
    ended: list[str] = []
    began = threading.Event()

    def make() -> str:
        began.set()
        return "server"

    beside = Beside(make, ended.append)

    assert began.wait(_SECONDS)
    assert beside.take() == "server"
    beside.give_up()
    assert ended == []


def test_what_made_it_fail_is_raised_where_it_is_taken() -> None:
    def make() -> str:
        message = "the disk is full"
        raise UnavailableError(message, "free space")

    with pytest.raises(UnavailableError, match="the disk is full"):
        Beside(make, lambda _: None).take()


def test_what_nobody_takes_is_ended_whether_it_is_there_already_or_comes_later() -> None:
    ended: list[str] = []
    may_go_on, gone = threading.Event(), threading.Event()

    def make() -> str:
        assert may_go_on.wait(_SECONDS)
        return "late"

    def end(made: str) -> None:
        ended.append(made)
        gone.set()

    late = Beside(make, end)
    late.give_up()
    assert ended == []
    may_go_on.set()
    assert gone.wait(_SECONDS)
    assert ended == ["late"]

    early = Beside(lambda: "early", end)
    early._thread.join(_SECONDS)
    early.give_up()
    assert ended == ["late", "early"]

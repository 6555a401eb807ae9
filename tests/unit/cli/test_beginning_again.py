"""How often a run begins again after the loss of Spark's JVM."""

from __future__ import annotations

import pytest

from penstock.cli.beginning_again import begin_again, plan_pause, recent_losses
from penstock.core.errors import SparkLostError


def test_pauses_grow_and_end_after_five_losses() -> None:
    pauses = [plan_pause([0.0] * count) for count in range(1, 7)]

    assert pauses == [1.0, 2.0, 5.0, 15.0, 30.0, None]


def test_a_loss_is_forgotten_after_a_quarter_of_an_hour_and_so_is_one_before_the_machine_started() -> None:
    assert recent_losses("100,950,1800,2000", now=1850.0) == [950.0, 1800.0]
    assert recent_losses("", now=1.0) == []


def test_who_lost_spark_too_often_is_told_once_how_often_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 500.0)
    error = SparkLostError("Spark's JVM is gone (SIGKILL)", "see whether memory ran out")

    with pytest.raises(SparkLostError, match="6th time within 15 minutes") as raised:
        begin_again(error, {"PENSTOCK_SPARK_LOST_AT": "1,2,3,4,5"})

    assert raised.value.hint == error.hint

"""What `penstock run` does when Spark's JVM is lost: this very process begins again, some times, with pauses."""

from __future__ import annotations

import os
import sys
import time
import traceback
from typing import TYPE_CHECKING, NoReturn

import structlog

from penstock.core.errors import SparkLostError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_log = structlog.get_logger()

_PAUSES_SECONDS = (1.0, 2.0, 5.0, 15.0, 30.0)
"""Before each beginning of those that follow each other; so many there are."""
_TOGETHER_SECONDS = 900.0
"""A loss is of no account any more after so long."""
_LOSSES = "PENSTOCK_SPARK_LOST_AT"
"""The variable by which a process hands on when Spark was lost, by the machine's monotonic clock."""


def begin_again(error: SparkLostError, environment: Mapping[str, str]) -> NoReturn:
    """Become a new process with the same arguments and `environment`, after a pause.

    Whatever this one holds must have been let go. Nothing of PySpark's outlives
    it, whose state is the interpreter's. Raises SparkLostError where Spark was
    lost too often.
    """
    now = time.monotonic()
    losses = [*recent_losses(environment.get(_LOSSES, ""), now), now]
    pause = plan_pause(losses)
    if pause is None:
        message = f"{error.message}, for the {len(losses)}th time within {_TOGETHER_SECONDS / 60:.0f} minutes"
        raise SparkLostError(message, error.hint) from error
    tried = f"{len(losses)} of {len(_PAUSES_SECONDS)}"
    story = "".join(traceback.format_exception(error))
    _log.warning("Spark is lost; the run begins again", why=error.message, in_seconds=pause, time=tried, story=story)
    time.sleep(pause)
    sys.stdout.flush()
    sys.stderr.flush()
    told = {**environment, _LOSSES: ",".join(f"{loss:.0f}" for loss in losses)}
    os.execve(sys.executable, sys.orig_argv, told)  # noqa: S606 - our own command line, once more


def may_begin_again(environment: Mapping[str, str]) -> bool:
    """Whether a loss now is not one too many."""
    now = time.monotonic()
    return plan_pause([*recent_losses(environment.get(_LOSSES, ""), now), now]) is not None


def losses_before(environment: Mapping[str, str]) -> int:
    """Return how often Spark was lost lately, in the processes before this one."""
    return len(recent_losses(environment.get(_LOSSES, ""), time.monotonic()))


def recent_losses(written: str, now: float) -> Sequence[float]:
    """Return those of the losses `written` by processes before this one that are of account at `now`."""
    losses = [float(loss) for loss in written.split(",") if loss]
    return [loss for loss in losses if now - _TOGETHER_SECONDS <= loss <= now]


def plan_pause(losses: Sequence[float]) -> float | None:
    """Return the seconds to wait after the last of `losses`; None if that was one too many."""
    return _PAUSES_SECONDS[len(losses) - 1] if len(losses) <= len(_PAUSES_SECONDS) else None

"""Runs a link's driver side for each micro-batch.

What a driver side raises ends its query. Spark gets a line of it only: when a
query is stopped, Spark searches the text of what its micro-batch raised for signs
of an interruption, with a regular expression that needs stack for every letter,
and dies of a few thousand of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from penstock.core.errors import PenstockError
from penstock.spark.loss import is_of_lost_worker, shows_loss

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

_log = structlog.get_logger()

_LETTERS_MAX = 300

# What Spark's own work ends with when its query is stopped: the first where a job ran, else one of the others.
_INTERRUPTIONS = (
    "[SPARK_JOB_CANCELLED]",
    "java.lang.InterruptedException",
    "java.io.InterruptedIOException",
    "java.nio.channels.ClosedByInterruptException",
)

# Source: Spark's StreamExecution.isInterruptionException; without this, Spark prints a stopped query as a failed one.
_INTERRUPTED = "py4j.protocol.Py4JJavaError: An error occurred while calling Spark: java.lang.InterruptedException: "


@dataclass(slots=True)
class Finisher:
    """Runs a link's driver side for each micro-batch and keeps the error that ended it.

    That may be Spark's word for an interruption: of no interest to who stopped the
    query, and a failure to everybody else.
    """

    take: Callable[[DataFrame], None]
    error: BaseException | None = None

    def __call__(self, frame: DataFrame, _batch: int) -> None:
        """Take one micro-batch. Raises RuntimeError, of one line, for whatever goes wrong."""
        try:
            self.take(frame)
        except BaseException as error:  # noqa: BLE001 - it is kept, and told
            self.error = error
            raise RuntimeError(note_of(error)) from None


def note_of(error: BaseException) -> str:
    """Return the line for Spark; what nobody foresaw is logged with where it comes from, which Spark cannot print."""
    lines = str(error).splitlines() or [""]
    line = f"{type(error).__name__}: {lines[0]}"[:_LETTERS_MAX]
    if _is_interruption(error):
        return _INTERRUPTED + line
    is_told_elsewhere = isinstance(error, PenstockError) or is_of_lost_worker(str(error)) or shows_loss(error)
    if not is_told_elsewhere:
        _log.error("a micro-batch failed on the driver", exc_info=error)
    return line


def _is_interruption(error: BaseException | None) -> bool:
    """Whether `error`, or one that it comes from, is Spark's word for an interruption."""
    while error is not None:
        if isinstance(error, (Py4JJavaError, PySparkException)) and _names_interruption(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def _names_interruption(printed: str) -> bool:
    return any(name in printed for name in _INTERRUPTIONS)

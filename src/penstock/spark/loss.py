"""The loss of Spark's JVM: what makes one error of whatever it breaks, and keeps what it breaks from being printed."""

from __future__ import annotations

import logging
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING

from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from penstock.core.errors import FencedError, LockLostError, SparkLostError

if TYPE_CHECKING:
    from collections.abc import Iterator

_END_SECONDS = 3.0
"""A process that was killed closes its connections some moments before it is seen to have ended."""
_HINT = (
    "see whether memory ran out (`spark: {conf: {spark.driver.memory: 2g}}` gives it more) or who ended it, "
    "and run the pipeline again: it goes on where the targets stand"
)
_WORKER_IS_GONE = "Python worker exited unexpectedly"
_DID_NOT_START = "JAVA_GATEWAY_EXITED"


@contextmanager
def telling_loss() -> Iterator[None]:
    """Raise SparkLostError in place of whatever ends a block in which Spark's JVM was lost.

    Who no longer leads, or was overtaken by another instance, is told that instead.
    """
    try:
        yield
    except (FencedError, LockLostError):
        raise
    except Exception as error:
        if isinstance(error, PySparkException) and error.getCondition() == _DID_NOT_START:
            message = "Spark's JVM ended while it started"
            raise SparkLostError(message, _HINT) from error
        if (code := exit_code(_END_SECONDS)) is not None:
            message = f"Spark's JVM is gone ({_told(code)})"
            raise SparkLostError(message, _HINT) from error
        raise


def exit_code(wait_seconds: float = 0.0) -> int | None:
    """Return how the JVM of this process ended, None while it runs, or there is none; waits for its end for so long."""
    gateway = SparkContext._gateway  # noqa: SLF001 - PySpark has no other way to its JVM's process
    if gateway is None:
        return None
    with suppress(subprocess.TimeoutExpired):
        return int(gateway.proc.wait(wait_seconds))
    return None


def shows_loss(error: BaseException) -> bool:
    """Whether `error` is what calls of a JVM raise that is gone, which is told once, by whoever runs links."""
    return isinstance(error, OSError | Py4JNetworkError) and exit_code(_END_SECONDS) is not None


def is_of_lost_worker(printed: str) -> bool:
    """Whether what Spark prints is that a Python process of a task ended in the middle of its work."""
    return _WORKER_IS_GONE in printed


def keep_losses_quiet(context: SparkContext) -> None:
    """Let Py4J's and PySpark's threads say nothing where they lose the JVM: who runs links tells of it, once.

    Nor what ends a micro-batch on the driver side, an orderly stop too: its link keeps it and tells it in words.
    """
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    # Some it logs to the root logger itself, whose filters do not concern what others pass on to it.
    logging.getLogger().addFilter(_is_not_of_py4j)
    context._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]  # noqa: SLF001


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


def _told(code: int) -> str:
    return Signals(-code).name if code < 0 else f"exit code {code}"

"""Work that does nothing, so that the first that does something finds all warm.

The first query of a session takes seconds more than later ones: Spark loads its
classes and starts the process from which Python workers are forked. An instance
that stands by has that behind it when its turn comes, and one that begins has the
process started while it opens what links need.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from penstock.spark.link_tasks import run_tasks
from penstock.spark.queries import QueryPlace, start_link_query

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession


_SECONDS_MAX = 60


@dataclass(frozen=True, slots=True)
class _Nothing:
    """A task without work."""

    def run(self) -> Iterator[object]:
        yield from ()


def start_workers(session: SparkSession) -> None:
    """Let Spark start what forks workers, which know the session's secrets then. Raises what Spark raises."""
    run_tasks(session, [_Nothing()])


def warm_up(session: SparkSession) -> None:
    """Run the query once through. What goes wrong is left for the first real query to tell."""

    def carry(_frame: DataFrame, _batch: int) -> None:
        start_workers(session)

    with suppress(PySparkException):
        query = start_link_query(QueryPlace(session, once=True), "warm-up", carry)
        query.awaitTermination(_SECONDS_MAX)
        query.stop()

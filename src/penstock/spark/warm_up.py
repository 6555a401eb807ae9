"""A query that does nothing, for an instance that stands by.

The first query of a session takes seconds more than later ones: Spark loads its
classes and starts the process from which Python workers are forked. An instance
that stands by has that behind it when its turn comes.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from penstock.spark.queries import QueryPlace, register_sources, start_link_query

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from penstock.jobs.link import Task

_SECONDS_MAX = 60


@dataclass(frozen=True, slots=True)
class _Nothing:
    """A task without work."""

    def run(self) -> Iterator[object]:
        yield from ()


class _OneBatch:
    """Plans one micro-batch of one task, and no more."""

    def __init__(self) -> None:
        self._planned = False

    def fix_end(self) -> None:
        """There is no log."""

    def has_work(self) -> bool:
        return not self._planned

    def plan(self) -> Sequence[Task]:
        self._planned = True
        return [_Nothing()]


def warm_up(session: SparkSession) -> None:
    """Run the query once through. What goes wrong is left for the first real query to tell."""
    register_sources(session)
    with tempfile.TemporaryDirectory(prefix="penstock-warm-up-") as directory, suppress(PySparkException):
        place = QueryPlace(session, Path(directory), once=True)
        query = start_link_query(place, "warm-up", "penstock.topics", _OneBatch, _take)
        query.awaitTermination(_SECONDS_MAX)
        query.stop()


def _take(frame: DataFrame, _batch: int) -> None:
    frame.toArrow()

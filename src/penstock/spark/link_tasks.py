"""Runs the tasks of a micro-batch on executors, and brings what they find out to the driver.

Each task is a partition of its own. What it yields comes back as pieces of (part,
more, body), where `body` is a pickled object: many encoded messages in one piece,
because whatever crosses between Python and the JVM is expensive. A large one comes
in pieces that follow each other. A task that fails in a way we can explain sends
its PenstockError as its last body, so that the driver sees the error itself and not
a printed stack.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from typing import TYPE_CHECKING, TypeAlias

from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from penstock.jobs.link import Task

Piece: TypeAlias = tuple[int, bool, bytes]

_PIECE_BYTES = 4 << 20
"""Of a body, in one piece: the JVM holds whole ones, several times over."""


def run_tasks(session: SparkSession, tasks: Sequence[Task]) -> list[Iterator[object]]:
    """Run `tasks`, each in a partition of its own; what they sent, by task, as `outcomes_by_part` says."""
    if not tasks:
        return []
    placed = session.sparkContext.parallelize(tasks, len(tasks))
    return outcomes_by_part(placed.mapPartitionsWithIndex(send_outcomes).collect())


def send_outcomes(part: int, tasks: Iterable[Task]) -> Iterator[Piece]:
    """Run the one task of a partition, on an executor."""
    for task in tasks:
        try:
            for outcome in task.run():
                yield from _pieces(part, outcome)
        except PenstockError as error:
            yield from _pieces(part, error)


def _pieces(part: int, outcome: object) -> Iterator[Piece]:
    body = pickle.dumps(outcome)
    for start in range(0, len(body), _PIECE_BYTES):
        end = start + _PIECE_BYTES
        yield part, end < len(body), body[start:end]


def outcomes_by_part(sent: Iterable[Piece]) -> list[Iterator[object]]:
    """Return what the tasks of one micro-batch sent, by task, in the order they sent it.

    An iterator raises the error of its task in the place where the task sent it.
    """
    by_part: dict[int, list[bytes]] = defaultdict(list)
    pieces: dict[int, list[bytes]] = defaultdict(list)
    for part, more, body in sent:
        pieces[part].append(body)
        if not more:
            by_part[part].append(b"".join(pieces.pop(part)))
    return [_replay(bodies) for _, bodies in sorted(by_part.items())]


def _replay(bodies: Sequence[bytes]) -> Iterator[object]:
    for body in bodies:
        outcome = pickle.loads(body)  # noqa: S301 - written by our own tasks, over Spark's own channel
        if isinstance(outcome, PenstockError):
            raise outcome
        yield outcome

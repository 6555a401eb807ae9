"""The Python data sources that links read from: `penstock.mysql` and `penstock.topics`.

Spark's offset is the number of the micro-batch, and nothing more. Where a link
stands is known by its target alone: each micro-batch is planned from the
target's committed position when it starts. A batch that Spark runs again after
a crash is therefore planned anew, and Spark's checkpoint can be thrown away.

What a task finds out comes back as rows of (part, sequence, more, body), where `body`
is a pickled object: many encoded messages in one row, because rows that cross
between Python and the JVM are expensive. A large one comes in pieces, as rows
that follow each other. A task that fails in a way we can explain sends its
PenstockError as its last body, so that the driver sees the error itself and not a
printed stack.

Spark starts a process to look at the data source, another to look at its reader
and a third to plan with it, before there are workers. Each imports this module
and unpickles the reader, so what only one of them needs is imported there.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from penstock.jobs.link import Planner, PlannerFactory, Task

SCHEMA = "part int, sequence int, more boolean, body binary"
_PIECE_BYTES = 4 << 20
"""Of a body, in one row: the JVM holds whole rows, several times over."""


@dataclass
class TaskPartition(InputPartition):
    """One task of a micro-batch."""

    part: int
    task: Task


@dataclass(frozen=True, slots=True)
class _Failing:
    """Stands in for a plan that could not be made, so that its error reaches the driver as it is."""

    error: PenstockError

    def run(self) -> Iterator[object]:
        yield self.error


class LinkReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Counts micro-batches for Spark and leaves the rest to a planner and its tasks."""

    def __init__(self, planning: bytes) -> None:
        """Make the planner with a pickled `PlannerFactory` when it is first asked: this object travels to executors."""
        self._planning = planning
        self._planner: Planner | None = None
        self._broken: PenstockError | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Count from 0."""
        return {"batch": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Remember the end of the log; if it cannot be known, the first batch says why."""
        try:
            self._open_planner().fix_end()
        except PenstockError as error:
            self._broken = error

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002, N802 - Spark's
        """Count one on if there is work. A planner that fails has work: to say so."""
        try:
            has_work = self._open_planner().has_work()
        except PenstockError:
            has_work = True
        return {"batch": start["batch"] + 1} if has_work else start

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Plan the batch."""
        if start == end:
            return []
        try:
            tasks = self._open_planner().plan()
        except PenstockError as error:
            tasks = [_Failing(error)]
        return [TaskPartition(part, task) for part, task in enumerate(tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Run one task on an executor."""
        if not isinstance(partition, TaskPartition):
            raise TypeError(partition)
        outcomes = partition.task.run()
        sequence = 0
        while True:
            try:
                outcome: object = next(outcomes)
            except StopIteration:
                return
            except PenstockError as error:
                yield from _rows(partition.part, sequence, error)
                return
            for row in _rows(partition.part, sequence, outcome):
                yield row
                sequence += 1

    def __getstate__(self) -> dict[str, object]:
        """Leave the planner's connections where they are."""
        return {"_planning": self._planning, "_planner": None, "_broken": None}

    def _open_planner(self) -> Planner:
        if self._broken is not None:
            raise self._broken
        if self._planner is None:
            make_planner: PlannerFactory = pickle.loads(self._planning)  # noqa: S301 - written by our own driver
            self._planner = make_planner()
        return self._planner


def _rows(part: int, sequence: int, outcome: object) -> Iterator[pa.RecordBatch]:
    """The rows of one outcome, the first of them with the number `sequence`."""
    import pyarrow as pa  # noqa: PLC0415 - see the module's docstring

    columns: dict[str, pa.DataType] = {
        "part": pa.int32(),
        "sequence": pa.int32(),
        "more": pa.bool_(),
        "body": pa.binary(),
    }
    body = pickle.dumps(outcome)
    for number, start in enumerate(range(0, len(body), _PIECE_BYTES)):
        end = start + _PIECE_BYTES
        row = {"part": part, "sequence": sequence + number, "more": end < len(body), "body": body[start:end]}
        yield pa.RecordBatch.from_pylist([row], schema=pa.schema(columns))


def outcomes_by_part(rows: pa.Table) -> list[Iterator[object]]:
    """Return what the tasks of one micro-batch sent, by task, in the order they sent it.

    An iterator raises the error of its task in the place where the task sent it.
    """
    ordered = rows.sort_by([("part", "ascending"), ("sequence", "ascending")])
    by_part: dict[int, list[bytes]] = defaultdict(list)
    pieces: list[bytes] = []
    for row in ordered.to_pylist():
        pieces.append(row["body"])
        if not row["more"]:
            by_part[row["part"]].append(b"".join(pieces))
            pieces = []
    return [_replay(bodies) for _, bodies in sorted(by_part.items())]


def _replay(bodies: Sequence[bytes]) -> Iterator[object]:
    for body in bodies:
        outcome = pickle.loads(body)  # noqa: S301 - written by our own tasks, over Spark's own channel
        if isinstance(outcome, PenstockError):
            raise outcome
        yield outcome


class LinkDataSource(DataSource):
    """A data source whose planner comes, pickled, in the option `planner`."""

    def schema(self) -> str:
        """Rows as this module's docstring says."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> LinkReader:  # noqa: ARG002, N802 - Spark's
        """Make the reader."""
        return LinkReader(bytes.fromhex(self.options["planner"]))


class MysqlDataSource(LinkDataSource):
    """`penstock.mysql`: the binlog of a MySQL or MariaDB server."""

    @classmethod
    def name(cls) -> str:
        """Spark's name of the format."""
        return "penstock.mysql"


class TopicsDataSource(LinkDataSource):
    """`penstock.topics`: the topics of a pipeline's tables."""

    @classmethod
    def name(cls) -> str:
        """Spark's name of the format."""
        return "penstock.topics"

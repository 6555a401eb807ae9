"""Reads the state of a join from its checkpoint, while the join runs or not; it changes nothing there."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from penstock.core.errors import PositionError, UsageError
from penstock.core.joins.blocks import unpack_differences
from penstock.core.joins.rows import decode_stored
from penstock.spark.join_kernel import kernel_of, run_blocks, stateful_session
from penstock.wiring.join_states import committed_batches

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from penstock.core.joins.plan import JoinPlan

_ROWS_VARIABLE, _KEYS_VARIABLE = "rows", "keys"


@dataclass(frozen=True, slots=True)
class KeyRows:
    """How many rows a join key has in an input, and their bytes; the key as `core.joins.keys` writes it."""

    join_key: bytes
    input: int
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class InputState:
    """What the state holds of one input: rows, their bytes, and under how many join keys they are."""

    rows: int
    size_bytes: int
    join_keys: int


@dataclass(frozen=True, slots=True)
class JoinContents:
    """What the state of a join holds.

    `remembered` counts the rows whose join keys are remembered beside them,
    `disk_bytes` is the size of all files of the checkpoint.
    """

    inputs: tuple[InputState, ...]
    hottest: tuple[KeyRows, ...]
    remembered: int
    disk_bytes: int


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A row of the input called so by number: its key, as `core.joins.keys` writes it, and the values that are kept."""

    input: int
    row_key: bytes
    values: Mapping[str, object]


class JoinStateReader:
    """Reads one checkpoint as it is at the end of a micro-batch."""

    def __init__(self, session: SparkSession, checkpoint: Path, batch: int | None = None) -> None:
        """Read `batch`, or else the newest one that Spark has committed. Raises UsageError where there is none."""
        batches = committed_batches(checkpoint)
        if batch is None and not batches:
            message = f"there is no state in {checkpoint}"
            raise UsageError(message, "run the pipeline first: penstock run FILE")
        self.batch = max(batches) if batch is None else batch
        self._session = stateful_session(session)
        # Stores of state report to a part of Spark that comes with its manager of queries.
        self._streams = self._session.streams
        self._checkpoint = checkpoint
        # Spark's readers of states find no path with a blank, or whatever else a URL writes with %.
        folder = tempfile.mkdtemp(prefix="penstock-state-")
        weakref.finalize(self, shutil.rmtree, folder)
        self._linked = Path(folder) / "checkpoint"
        self._linked.symlink_to(checkpoint.absolute())

    def contents(self, inputs: int, hottest: int) -> JoinContents:
        """What all of it comes to. Raises PositionError for files that are not as Spark writes them."""
        try:
            sizes = self._kernel("sizes", self._blobs(_ROWS_VARIABLE)).persist()
            sums = sizes.groupBy("input").agg(f.sum("rows"), f.sum("bytes"), f.count("*")).collect()
            top = sizes.orderBy(f.desc("rows"), "join_key", "input").limit(hottest).collect()
            sizes.unpersist()
            remembered = self._blobs(_KEYS_VARIABLE).filter("length(k) > 0").count() if self._has(_KEYS_VARIABLE) else 0
        except PySparkException as error:
            raise self._unread(error) from error
        found = {row[0]: InputState(row[1], row[2], row[3]) for row in sums}
        return JoinContents(
            tuple(found.get(index, InputState(0, 0, 0)) for index in range(inputs)),
            tuple(KeyRows(bytes(row[0]), row[1], row[2], row[3]) for row in top),
            remembered,
            sum(file.stat().st_size for file in self._checkpoint.rglob("*") if file.is_file()),
        )

    def rows(self, plan: JoinPlan, join_key: bytes, rows_max: int) -> Sequence[StoredRow]:
        """The rows of one join key, `rows_max` at most. Raises as `contents`."""
        try:
            found = self._kernel("rows", self._blobs(_ROWS_VARIABLE), bytearray(join_key)).limit(rows_max).collect()
        except PySparkException as error:
            raise self._unread(error) from error
        rows = []
        for number, row_key, row in sorted((row[0], bytes(row[1]), bytes(row[2])) for row in found):
            given = plan.inputs[number]
            columns = decode_stored(given, pa.array([row], pa.binary()))
            names = [column.name for column in given.stored.columns]
            values = {name: column[0].as_py() for name, column in zip(names, columns, strict=True)}
            rows.append(StoredRow(number, row_key, values))
        return rows

    def result(self, plan: JoinPlan, folder: Path) -> Sequence[pa.Table]:
        """All joined rows, as differences from nothing, by way of files below `folder`. Raises as `contents`."""
        try:
            blocks = self._kernel("result", self._blobs(_ROWS_VARIABLE), len(plan.inputs), plan.optional)
            return unpack_differences(run_blocks(blocks, folder), len(plan.inputs))
        except PySparkException as error:
            raise self._unread(error) from error

    def _blobs(self, variable: str) -> DataFrame:
        """The keys and values of a variable of the state: columns k and v."""
        reader = self._session.read.format("statestore").option("stateVarName", variable)
        reader = reader.option("operatorId", self._operators()[variable]).option("batchId", self.batch)
        return reader.load(str(self._linked)).selectExpr("user_map_key.value AS k", "user_map_value.value AS v")

    def _has(self, variable: str) -> bool:
        return variable in self._operators()

    def _operators(self) -> Mapping[str, int]:
        """The number of the operator that has each variable."""
        described = self._session.read.format("state-metadata").load(str(self._linked))
        found: dict[str, int] = {}
        for operator, properties in described.select("operatorId", "operatorProperties").distinct().collect():
            found |= {name: operator for name in (_ROWS_VARIABLE, _KEYS_VARIABLE) if f'"{name}"' in str(properties)}
        return found

    def _kernel(self, function: str, blobs: DataFrame, *arguments: bytearray | int) -> DataFrame:
        found = getattr(kernel_of(self._session), function)(blobs._jdf, *arguments)  # noqa: SLF001 - PySpark has no other way to Java
        return DataFrame(found.toDF(), self._session)

    def _unread(self, error: PySparkException) -> PositionError:
        message = f"the state of {self._checkpoint} at micro-batch {self.batch} cannot be read: {error}"
        return PositionError(message, "try again: files of older micro-batches go while a join runs")

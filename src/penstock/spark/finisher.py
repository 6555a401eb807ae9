"""Runs a link's driver side for each micro-batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class TakeRows(Protocol):
    """What a link does with the rows of a micro-batch."""

    def __call__(self, rows: pa.Table) -> None:
        """Take them, on the driver."""
        ...


@dataclass(slots=True)
class Finisher:
    """Runs a link's driver side for each micro-batch and keeps the error that ended it."""

    take: TakeRows
    error: BaseException | None = None

    def __call__(self, frame: DataFrame, _batch: int) -> None:
        """Take the rows of one micro-batch."""
        try:
            self.take(frame.toArrow())
        except BaseException as error:
            self.error = error
            raise

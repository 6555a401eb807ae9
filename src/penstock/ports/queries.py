"""What a query of a target may cost, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Where a result is cut, and when a statement is ended."""

    rows_max: int = 100_000
    bytes_max: int = 64 << 20
    seconds_max: float = 60.0


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The rows of a result; `truncated` says that there were more."""

    rows: pa.Table
    truncated: bool

"""What is remembered of a pipeline's audits, for people, monitors and the schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NOT_REACHED: Final = "not reached"
"""The state of a table that an audit had no time for."""

NO_RESULT: Final = frozenset({"lagging", "failed", NOT_REACHED})
"""The states of a table of which an audit could tell nothing, though it was to."""

RESULTS_MAX: Final = 100
"""How many results of each table, and of each audit as a whole, are kept."""

WHOLE: Final = ""
"""The name under which an audit as a whole is kept: no table has it."""


@dataclass(frozen=True, slots=True)
class AuditResult:
    """What one run of an audit found of a table, or of all of them together (`WHOLE`).

    `state` is a table's as its report says it; of the whole "passed", "below" (the
    threshold), "unknown", "unfinished" (its time was over) or "failed". A table of which
    a stage before the target differs is below, too. The score is None where nobody knows.
    All results of one run have the same `began_at_ms`. `why` says what there is to say,
    "" for nothing.
    `not_compared` counts the columns that were left out though nobody wanted them to be.
    """

    audit: str
    table: str
    began_at_ms: int
    state: str
    score: float | None = None
    lower: float | None = None
    upper: float | None = None
    threshold: float = 1.0
    is_below: bool = False
    partitions: int = 0
    unequal: int = 0
    rows: int = 0
    wrong_rows: int = 0
    seconds: float = 0.0
    why: str = ""
    not_compared: int = 0


class AuditResults(Protocol):
    """One pipeline's results. Nothing that moves data reads them."""

    def add(self, results: Sequence[AuditResult]) -> None:
        """Keep the results of a run, in one step; one of the same run is replaced, those that are too old are dropped.

        Raises UnavailableError.
        """
        ...

    def newest(self) -> Sequence[AuditResult]:
        """The newest result of each audit, and those of its tables in the last run that had any; sorted by both.

        A table that was below the threshold stays so until a run says otherwise: where the last one came to no
        result, its newest score is told with what the last one says.
        """
        ...

    def last_reached(self, audit: str) -> Mapping[str, int]:
        """When the newest run that reached it began, in ms since 1970, by table."""
        ...

    def history(self, audit: str, table: str) -> Sequence[AuditResult]:
        """All results that are kept, the newest first."""
        ...

    def close(self) -> None:
        """Drop the connections. Safe to call twice."""
        ...

"""A table on both sides of an audit."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.core.audit.suspects import HashedRows
from penstock.links.audit.ask import at_once
from penstock.links.audit.pace import Pace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.core.audit.side import AuditSide
    from penstock.ports.audited import AuditedDatabase

Rows: TypeAlias = "Sequence[Sequence[Any]]"


@dataclass(slots=True)
class Spent:
    """How many seconds the source's queries took, but for those of rows."""

    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Pair:
    """A table on both sides, the databases that it is in, and how fast they may be read.

    Both sides are asked at once: each is a server or a file of its own, and in a snapshot of its own. To ask raises
    what the databases' `fetch` does, and UnavailableError when the time is over.

    `release` has the source let go of its snapshot, where nothing is read of it any more but after a `renew`.
    """

    source: AuditedDatabase
    target: AuditedDatabase
    source_side: AuditSide
    target_side: AuditSide
    pace: Pace = field(default_factory=Pace)
    spent: Spent = field(default_factory=Spent, compare=False)
    release: Callable[[], None] = lambda: None

    def fetch(self, query: Callable[[AuditSide], str]) -> tuple[Rows, Rows]:
        """Return the rows of a query on both sides."""
        self.pace.require_time()
        mine, theirs = query(self.source_side), query(self.target_side)
        return at_once(partial(self._fetch_timed, mine), partial(self.target.fetch, theirs))

    def fetch_hashes(self, query: Callable[[AuditSide], str]) -> tuple[HashedRows, HashedRows]:
        """Return what `rows_query` gives on both sides."""
        self.pace.require_time()
        mine, theirs = query(self.source_side), query(self.target_side)
        found = at_once(partial(self.source.fetch_texts, mine), partial(self.target.fetch_texts, theirs))
        source, target = (HashedRows.read(texts, len(self.source_side.key)) for texts in found)
        return source, target

    def _fetch_timed(self, query: str) -> Rows:
        began = time.monotonic()
        found = self.source.fetch(query)
        self.spent.seconds += time.monotonic() - began
        return found

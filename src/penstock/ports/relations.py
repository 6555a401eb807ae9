"""PostgreSQL's catalog, asked about what its log names by numbers alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from penstock.core.positions import Position
    from penstock.core.postgres.catalog import CatalogTable
    from penstock.core.postgres.messages import Relation
    from penstock.core.postgres.types import TypeInfo


class Gone(NamedTuple):
    """Numbers that no table has any more: the log has no rows of these behind `high`, which its readers come past."""

    numbers: frozenset[int]
    high: Position


class UnseenCommits(Protocol):
    """The newest transactions that the log has told of, and that nobody was found to see yet. Threads share them.

    Their numbers have 32 bits, and are given again: one that is kept for ever is taken for one that is yet to come.
    """

    def saw_commits(self, xids: Iterable[int]) -> None:
        """Take note of transactions that the log has told of, or soon does."""
        ...

    def committed(self) -> Sequence[int]:
        """All of them: others may not see their rows."""
        ...

    def forget(self, xids: Collection[int]) -> None:
        """Leave out those that a snapshot sees, for every later one does so, too."""
        ...


class RelationCatalog(Protocol):
    """Answers as the catalog is now, which may be later than the place of the log that was reached."""

    def table(self, oid: int, xid: int) -> CatalogTable | None:
        """The table with this OID, None if it is gone, as it is behind the transaction `xid` (0: whatever there is).

        Raises UnavailableError, also where others do not see yet what that transaction has committed.
        """
        ...

    def types(self, relation: Relation) -> Mapping[int, TypeInfo]:
        """Types by OID, those of the columns of `relation` among them. Raises UnavailableError."""
        ...

    def close(self) -> None:
        """Drop the connection. Safe to call twice."""
        ...

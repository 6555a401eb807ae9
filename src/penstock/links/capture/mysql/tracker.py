"""The schema tracker: a server on which the statements of a MySQL log are replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.core.mysql.statements.touched import EVERYTHING
from penstock.ports.tracker import SchemaCatalog

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from penstock.core.mysql.statements.foreign_keys import Cascade
    from penstock.core.mysql.statements.sql_session import SqlSession
    from penstock.core.mysql.statements.touched import Touched
    from penstock.core.tables import TableId


class SchemaTracker(SchemaCatalog, Protocol):
    """A schema-only server on which the source's DDL is replayed.

    Nothing here is transactional: around every `apply` the caller keeps in the state
    database a dump of what the statement touches, and restores it when a crash came
    between. What was asked once is remembered, until `apply` or `restore` touch it:
    whoever changes the server beside us is seen by whoever opens it next.
    """

    @property
    def folds_names(self) -> bool:
        """Whether the source takes names of tables that differ in case alone for the same."""
        ...

    def take_over(self) -> None:
        """Become the only one who changes the tracker, before the first `apply` or `restore`.

        When it returns, nothing that anybody before us began is still being done, and
        nothing more is: they get FencedError. Whoever only asks need not call it.
        Raises UnavailableError.
        """
        ...

    def apply(self, sql: str, default_schema: str, session: SqlSession) -> None:
        """Run one DDL statement as in `session`, with `default_schema` selected ("" for none).

        Raises UnavailableError when the tracker is gone and PenstockError when it
        refuses the statement.
        """
        ...

    def tables(self) -> Sequence[TableId]:
        """Every base table there is, system schemas left out, sorted."""
        ...

    def cascades(self) -> Sequence[Cascade]:
        """Every foreign key by which the server changes rows itself."""
        ...

    def partitions(self, table: TableId) -> Collection[str]:
        """The names of its partitions, none of a table that has none or is not there."""
        ...

    def dump(self, touched: Touched = EVERYTHING) -> str:
        """What there is of `touched`, as one text that `restore` understands. It costs what is touched, not all."""
        ...

    def restore(self, dump: str) -> None:
        """Make the tracker hold exactly what `dump` says of what it is of, whatever was there before."""
        ...

    def fill(self, dump: str) -> Mapping[TableId, str]:
        """Do what `restore` does, but for the tables that the server refuses: return these, with its reasons."""
        ...

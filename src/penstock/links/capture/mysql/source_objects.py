"""What a source has besides tables, through which a statement writes to more of them than it names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock.core.mysql.statements.foreign_keys import KeysAbove
    from penstock.core.tables import TableId


class SourceObjects(Protocol):
    """The views, triggers and foreign keys of a source, as they are when it is asked.

    Nobody knows what they were when a statement was logged that is read later.
    """

    def had_before(self, table: TableId, when_ms: int) -> str:
        """Say what CREATE TABLE IF NOT EXISTS, logged at `when_ms`, may have found of the name `table`.

        IS_VIEW for a view, "" for nothing, else words for a table that may have been
        there. Raises UnavailableError when the source is away.
        """
        ...

    def why_more(self, written: Collection[TableId], named: Collection[TableId]) -> str:
        """Say why a write to `written` by a statement with the names `named` may change other tables, too.

        "" if it surely does not. What cannot be told is a reason. Of `named` only
        views count. Raises UnavailableError when the source is away.
        """
        ...

    def keys_above(self, tables: Collection[TableId]) -> KeysAbove:
        """Say by which foreign keys rows of `tables`, which no log told of, change with those of others.

        Raises UnavailableError when the source is away.
        """
        ...

    def local_seconds(self, time_zone: str, seconds: int) -> int:
        """What a clock of the source in `time_zone`, named as its statements name it, showed at `seconds` since 1970.

        As seconds since 1970, too. Raises UnavailableError when the source is away, UnfitServerError where it does
        not know the zone any more.
        """
        ...

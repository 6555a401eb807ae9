"""Which transactions were executed before our place in the log, as far as that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.mysql.events.gtid_sets import MysqlGtids, parse_gtids
from penstock.core.mysql.types.bytes_reader import MalformedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.core.mysql.events.gtid_sets import GtidSet, MariadbGtids


class Executed:
    """A set of GTIDs and its `text`, which is "" until the log tells what came before it."""

    __slots__ = ("_gtids", "_text")

    def __init__(self, text: str) -> None:
        """Begin with the set of a position; PositionError if it is none."""
        self._text: str | None = text
        self._gtids: GtidSet | None = parse_gtids(text)

    @property
    def text(self) -> str:
        """The set as it is printed, which is done when somebody asks."""
        if self._text is None:
            self._text = str(self._gtids)
        return self._text

    def replace(self, gtids: MariadbGtids) -> None:
        """Take what the log lists, which is everything."""
        self._gtids = gtids
        self._text = None

    def include(self, gtids: MysqlGtids) -> None:
        """Take what the log lists, beside what is known: MySQL leaves out what came by `SET GLOBAL gtid_purged`."""
        if isinstance(self._gtids, MysqlGtids):
            gtids.add_set(self._gtids)
        self._gtids = gtids
        self._text = None

    def add(self, gtid: str) -> None:
        """Count one more transaction; MalformedError if it is of the other kind of server than those before."""
        if self._gtids is not None:
            self._require_kind(gtid)
            self._gtids.add(gtid)
            self._text = None

    def add_all(self, stretches: Iterable[tuple[str, int, int]]) -> None:
        """Count many more, as `add` does: those from [first, last] of each origin, `domain-server-` or `uuid:`."""
        if self._gtids is not None:
            for origin, first, last in stretches:
                self._require_kind(origin)
                self._gtids.add_stretch(origin, first, last)
            self._text = None

    def takes(self, gtid: str) -> bool:
        """Whether transactions with this GTID, or origin, or with none at all, can be read together.

        The first GTIDs after nothing cannot: no position tells that nothing came before from not knowing.
        """
        if not gtid or self._gtids is None:
            return True
        return bool(self.text) and self._is_of_kind(gtid)

    def _is_of_kind(self, gtid: str) -> bool:
        # Only MySQL's have colons.
        return isinstance(self._gtids, MysqlGtids) == (":" in gtid)

    def _require_kind(self, gtid: str) -> None:
        if not self._is_of_kind(gtid):
            message = f"{gtid!r} is no GTID of the server that has {self.text or 'none'}"
            raise MalformedError(message)

"""Which transactions were executed before our place in the log, as far as that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.mysql.gtid_sets import parse_gtids

if TYPE_CHECKING:
    from penstock.core.mysql.gtid_columns import GtidColumn
    from penstock.core.mysql.gtid_sets import GtidSet


class Executed:
    """A set of GTIDs and its `text`, which is "" until the log tells what came before it."""

    __slots__ = ("_gtids", "text")

    def __init__(self, text: str) -> None:
        """Begin with the set of a position; PositionError if it is none."""
        self.text = text
        self._gtids: GtidSet | None = parse_gtids(text)

    @property
    def is_empty(self) -> bool:
        """Whether the log told that nothing came before it, which no position can tell from not knowing."""
        return self._gtids is not None and not self.text

    def replace(self, gtids: GtidSet) -> None:
        """Take what the log lists."""
        self._gtids = gtids
        self.text = str(gtids)

    def add(self, gtid: str) -> None:
        """Count one more transaction."""
        if self._gtids is not None:
            self._gtids.add(gtid)
            self.text = str(self._gtids)

    def add_all(self, gtids: GtidColumn) -> None:
        """Count many more."""
        if self._gtids is not None:
            for stretch in gtids.stretches():
                self._gtids.add_stretch(*stretch)
            self.text = str(self._gtids)

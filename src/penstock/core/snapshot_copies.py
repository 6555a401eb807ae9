"""Tables without rows into which a blackhole snapshot has the source copy rows of others, and those rows in the log."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.core.snapshots import SnapshotProgress

COPIES_SCHEMA: Final = "penstock"
_NAME: Final = re.compile(r"snapshot_([0-9a-f]{8})_([0-9a-f]{12})")


def copies_owner(pipeline: str, source: str) -> str:
    """What the names of a source's copies of one pipeline have in common: no other pipeline drops them."""
    return f"{zlib.crc32(f'{pipeline}/{source}'.encode()):08x}"


def copy_table(owner: str, snapshot_id: str) -> TableId:
    """The table into which a snapshot copies."""
    return TableId(COPIES_SCHEMA, f"snapshot_{owner}_{snapshot_id}")


def is_copy(table: TableId) -> bool:
    """Whether it is a copy, of whatever pipeline: no table that anybody carries."""
    return table.schema == COPIES_SCHEMA and _NAME.fullmatch(table.name) is not None


def snapshot_of(table: TableId, owner: str) -> str:
    """The id of the snapshot whose copy it is, "" for what is no copy of `owner`."""
    found = _NAME.fullmatch(table.name) if table.schema == COPIES_SCHEMA else None
    return found[2] if found is not None and found[1] == owner else ""


@dataclass(slots=True)
class CopiedRows:
    """Which rows of the log are copies, and of what; and up to where they were seen.

    `snapshots` are those under way: nobody waits for rows of others any more.
    """

    owner: str = ""
    snapshots: Mapping[str, SnapshotProgress] = field(default_factory=dict)
    _seen: dict[str, tuple[int, int]] = field(default_factory=dict)

    def original(self, table: TableId) -> TableId | None:
        """Whose rows those of `table` are copies of; None if nobody waits for them any more."""
        snapshot = self.snapshots.get(snapshot_of(table, self.owner))
        return None if snapshot is None else TableId.parse(snapshot.table)

    def saw(self, table: TableId, file_number: int, offset: int) -> None:
        """Rows of the copy `table` came at this place."""
        self._seen[snapshot_of(table, self.owner)] = (file_number, offset)

    def came_since(self, snapshot_id: str, file_number: int, offset: int) -> bool:
        """Whether rows of the snapshot's copy came behind this place."""
        return self._seen.get(snapshot_id, (-1, -1)) >= (file_number, offset)

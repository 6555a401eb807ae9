"""Since when tables that wait lack changes, written down for people: until they have caught up they are behind."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.core.tables import TableId
    from penstock.links.warehouse.set_aside import SetAside
    from penstock.ports.state import State


def note_lack(state: State, link: str, table: TableId | str) -> None:
    """Take back a table's error, if any; it lacks changes since then, or since the link fell behind, or from now on.

    `State.resume_table` takes it back when the table has caught up.
    """
    noted = {each.table: each.stopped_at_ms for each in state.tables() if each.link == link}
    behind = {each.link: each.behind_since_ms for each in state.links()}
    since_ms = noted.get(str(table)) or behind.get(link) or time.time_ns() // 1_000_000
    state.stop_table(link, str(table), "", "", since_ms)


def settle_lacks(state: State, link: str, aside: SetAside) -> None:
    """At the start of a link: tables that wait lack changes, of the others nothing stands written any more."""
    noted = {each.table for each in state.tables() if each.link == link and (each.error or each.stopped_at_ms)}
    offsets = {str(table): offset for table, offset in aside.offsets().items()}
    for table in noted - offsets.keys():
        state.resume_table(link, table)
    for table in {table for table, offset in offsets.items() if offset >= 0} - noted:
        note_lack(state, link, table)

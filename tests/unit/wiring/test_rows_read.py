"""Of which tables a capture of MySQL reads rows: the same wherever a place of its log is looked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.config.load import load
from penstock.core.snapshot_copies import copies_owner, copy_table
from penstock.core.tables import TableId
from penstock.links.capture.spec import CaptureSpec
from penstock.ports.tracker import AllLogged
from penstock.wiring.mysql_capture import rows_read

if TYPE_CHECKING:
    from pathlib import Path

_FILE = """
pipeline: p
sources:
  - {name: s, kind: mysql, host: h, user: u, password_env: P, tables: [shop.*], heartbeat: {table: penstock.beats}}
"""
ID = "0123456789ab"


class ParentsOutside(AllLogged):
    """Rows of one table, which is not carried, change those of others."""

    def watches(self, table: TableId) -> bool:
        return table == TableId("base", "parents")


def test_rows_are_read_of_carried_tables_their_parents_heartbeats_and_our_own_copies(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(_FILE)
    spec = CaptureSpec(load(tmp_path / "p.yaml"), "s", epoch=1)
    tables = [
        TableId("shop", "orders"),
        TableId("base", "parents"),
        TableId("base", "others"),
        TableId("penstock", "beats"),
        copy_table(copies_owner("p", "s"), ID),
        copy_table(copies_owner("q", "s"), ID),
    ]

    wanted = rows_read(spec, ParentsOutside())

    assert [wanted(each) for each in tables] == [True, True, False, True, True, False]
    assert not rows_read(spec, None)(TableId("base", "parents"))

"""A link that gets more tables, or fewer, when it starts again: a table is whole in its target, or waits to be."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.servers.test_unfilled_tables import Link as UnfilledLink
from tests.servers.test_unfilled_tables import MemoryFills, begins, new_link
from tests.servers.test_warehouse_loader import NEW, SHADOW, MemoryRegistry, rows_of

from penstock.adapters.state.store import open_state
from penstock.core.schema_changes import SchemaChangeKind
from penstock.links.objects.retention import ALL_KEPT
from penstock.links.warehouse.load import WarehouseLoader
from penstock.links.warehouse.set_aside import UNFILLED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.core.tables import TableId


class Link(UnfilledLink):
    """A link that is started with these tables, while all of them have begun in the source."""

    def start_with(self, *tables: TableId, files_are_gone: bool = False) -> None:
        self.close()
        lacks = UNFILLED if files_are_gone else 0
        self.fills = MemoryFills(0, (), has_begun={t: lacks if t in tables else None for t in (NEW, SHADOW)})
        state = open_state(f"sqlite:///{self.folder / 'state.db'}", "shop")
        wanted = lambda _, table: table in tables  # noqa: E731 - as short as it can be
        self.loader = WarehouseLoader("link", self.place.open(), MemoryRegistry(), state, wanted, self._read)
        self.start = self.loader.start(ALL_KEPT, None, self.fills)
        self.loader.load(self.topic[self.start :])


@pytest.fixture
def link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Link]:
    monkeypatch.setattr("penstock.links.warehouse.filling._PERIOD_SECONDS", 0.0)
    made = new_link(tmp_path)
    link = Link(made.folder, made.place, made.topic[:2], made.fills)
    yield link
    link.close()


def test_a_table_that_a_link_gets_later_is_read_from_its_files(link: Link) -> None:
    link.start_with(NEW)

    link.start_with(NEW, SHADOW)

    assert (link.rows(SHADOW), link.rows(), link.waiting()) == ([("a", 1)], [("a", 1)], {})


def test_a_table_that_a_link_gets_later_waits_for_a_snapshot_where_its_files_are_gone(link: Link) -> None:
    link.start_with(NEW)

    link.start_with(NEW, SHADOW, files_are_gone=True)
    link.load(rows_of(link.place, SHADOW, 1, 2, ("c", "b", 2)))
    lacking = link.waiting(), link.place.tables()
    link.load(begins(3, table=SHADOW), rows_of(link.place, SHADOW, 2, 4, ("r", "b", 2)))

    assert lacking == ({SHADOW: UNFILLED}, [str(NEW)])
    assert link.fills.asked == [SHADOW]
    assert (link.rows(SHADOW), link.rows(), link.waiting()) == ([("b", 2)], [("a", 1)], {})


@pytest.mark.parametrize("meanwhile", ["rows", "truncate", "nothing"])
def test_a_table_that_a_link_left_out_for_a_while_is_filled_again(link: Link, meanwhile: str) -> None:
    link.start_with(NEW, SHADOW)
    link.start_with(NEW)
    left_out = link.waiting()
    if meanwhile == "rows":
        link.load(rows_of(link.place, SHADOW, 1, 2, ("c", "b", 2)))
    if meanwhile == "truncate":
        link.load(replace(begins(2, "", SHADOW), kind=SchemaChangeKind.TRUNCATE))

    link.start_with(NEW, SHADOW)
    asked = list(link.fills.asked)
    link.load(begins(3, table=SHADOW), rows_of(link.place, SHADOW, 2, 4, ("r", "c", 3)))

    assert (left_out, asked) == ({SHADOW: UNFILLED}, [SHADOW])
    assert (link.rows(SHADOW), link.waiting()) == ([("c", 3)], {})


def test_a_table_that_waits_for_its_turn_is_left_out_and_filled_again(link: Link) -> None:
    link.start_with(NEW, SHADOW)
    assert link.loader is not None
    link.loader.pause_table(SHADOW)

    link.start_with(NEW)

    assert link.waiting() == {SHADOW: UNFILLED}


def test_a_start_with_the_same_tables_asks_for_nothing(link: Link) -> None:
    link.start_with(NEW, SHADOW)

    link.start_with(NEW, SHADOW, files_are_gone=True)

    assert (link.start, link.waiting(), link.fills.asked) == (2, {}, [])


def test_a_table_that_began_anew_while_it_was_left_out_stops_alone(link: Link) -> None:
    link.start_with(NEW, SHADOW)
    link.load(replace(begins(2, "", SHADOW), kind=SchemaChangeKind.DROP))

    link.load(rows_of(link.place, SHADOW, 1, 4, ("c", "b", 2)), rows_of(link.place, NEW, 1, 5, ("c", "b", 2)))

    assert "it ended at (1, 2, 0), and began anew while the link left it out" in link.told(SHADOW)[0]
    assert (link.rows(), link.rows(SHADOW)) == ([("a", 1), ("b", 2)], [("a", 1)])


def test_a_table_that_ended_and_began_anew_while_it_was_left_out_is_filled(link: Link) -> None:
    link.start_with(NEW, SHADOW)
    link.load(replace(begins(2, "", SHADOW), kind=SchemaChangeKind.DROP))
    link.close()

    link.start_with(NEW, SHADOW, files_are_gone=True)

    assert (link.waiting(), link.fills.asked) == ({SHADOW: UNFILLED}, [SHADOW])


def test_a_hole_stops_its_table_alone_and_a_snapshot_brings_it_back(link: Link) -> None:
    link.start_with(NEW, SHADOW)

    link.load(rows_of(link.place, SHADOW, 2, 3, ("c", "c", 3)), rows_of(link.place, NEW, 1, 4, ("c", "b", 2)))
    stopped = link.told(SHADOW)
    link.load(begins(5, table=SHADOW), rows_of(link.place, SHADOW, 3, 6, ("r", "c", 3)))

    assert "the target has everything before 1 only: the link left the table out for a while" in stopped[0]
    assert stopped[1].startswith("type: penstock snapshot FILE TABLE --full-refresh --link LINK")
    assert (link.rows(), link.rows(SHADOW), link.told(SHADOW)) == ([("a", 1), ("b", 2)], [("c", 3)], ("", ""))

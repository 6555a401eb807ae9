"""Tables that a statement renames together where one of them is refused, or begins anew behind it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.servers.test_tables_set_aside import begun_link
from tests.servers.test_warehouse_loader import IDS, NEW, OLD, SHADOW, SWAP, rows_of, told

from penstock.core.schema_changes import Move, SchemaChangeKind
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.servers.sink_case import Place
    from tests.servers.test_tables_set_aside import Link

    from penstock.core.batches import Batch


@pytest.fixture
def link(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Link]:
    with begun_link(place, tmp_path, monkeypatch) as link:
        yield link


def unreadable(place: Place) -> Batch:
    """A change of a table's row that no target can load."""
    return replace(rows_of(place, NEW, 1, 2, ("u", "a", 2)), path="nowhere.parquet")


def renamed(order: int, *moves: Move) -> list[Batch]:
    """What the batch topic says of a statement that renames tables."""
    origins, names = (
        {TableId.parse(name) for name in some} for some in zip(*(move[:2] for move in moves), strict=True)
    )
    ended = [replace(told(table, order), kind=SchemaChangeKind.DROP) for table in sorted(origins - names)]
    moved = [replace(told(table, order), kind=SchemaChangeKind.RENAME) for table in sorted(names)]
    return [replace(batch, moves=moves, file="bin.000001") for batch in (*ended, *moved)]


def begun(place: Place, table: TableId, order: int, start: int, row: str) -> list[Batch]:
    """A table that begins anew with a row."""
    return [
        replace(told(table, order), kind=SchemaChangeKind.CREATE, file="bin.000001"),
        rows_of(place, table, start, order + 1, ("c", row, order)),
    ]


AWAY = Move(str(NEW), str(OLD), IDS[OLD])


@pytest.mark.parametrize("then", ["go on", "killed"])
@pytest.mark.parametrize("moves", [[AWAY], SWAP], ids=["away", "swap"])
def test_a_table_that_began_anew_behind_a_rename_gives_its_older_rows_to_no_name(
    link: Link, moves: Sequence[Move], then: str
) -> None:
    link.load(unreadable(link.place), *renamed(5, *moves))
    assert "renamed together with shop.orders" in link.stopped()[str(OLD)]

    if then == "killed":
        end = len(link.topic)
        waiting = {**link.waiting(), NEW: end}
        link.close()
        anew = begun(link.place, NEW, 7, 2, "fresh")
        link.topic += [(end + n, batch.to_json()) for n, batch in enumerate(anew)]
        with closing(link.place.open()) as sink:
            sink.finish(len(link.topic), waiting, [NEW])
        link.open()
    else:
        link.load(*begun(link.place, NEW, 7, 2, "fresh"))

    assert "it got the rows of shop.orders, which are not in this target" in link.stopped()[str(OLD)]
    assert link.rows(NEW) == [("fresh", 7)]
    assert str(OLD) not in link.place.tables()
    link.load(*begun(link.place, OLD, 9, 1, "filled"))
    assert (link.rows(OLD), link.rows(NEW), link.waiting()) == ([("filled", 9)], [("fresh", 7)], {})


def test_tables_whose_rename_is_refused_go_on_where_each_that_lacks_its_rows_begins_anew(link: Link) -> None:
    link.place.do("DROP TABLE shop.orders")
    link.load(*renamed(5, *SWAP))
    assert set(link.waiting()) == {NEW, OLD, SHADOW}

    link.load(*begun(link.place, NEW, 7, 1, "new"))
    after_one = link.rows(NEW), set(link.stopped())
    link.load(*begun(link.place, OLD, 9, 0, "old"))

    assert after_one == ([("new", 7)], {str(OLD)})
    assert (link.rows(NEW), link.rows(OLD)) == ([("new", 7)], [("old", 9)])
    assert (link.waiting(), link.stopped()) == ({}, {})


def test_a_table_that_is_to_get_the_rows_of_a_refused_one_may_begin_anew_without_them(link: Link) -> None:
    link.load(unreadable(link.place), *renamed(5, AWAY))

    link.load(*begun(link.place, OLD, 7, 0, "filled"))

    assert (link.rows(OLD), link.waiting()) == ([("filled", 7)], {NEW: 3})
    link.close()
    link.topic[3] = (3, rows_of(link.place, NEW, 1, 2, ("u", "a", 2)).to_json())
    link.open()
    assert (link.rows(OLD), link.waiting(), link.stopped()) == ([("filled", 7)], {}, {})


def test_a_table_whose_rows_another_waits_for_keeps_them_when_it_is_made_again(link: Link) -> None:
    link.load(unreadable(link.place), *renamed(5, *SWAP))

    again = [*begun(link.place, SHADOW, 7, 1, "newer"), *begun(link.place, OLD, 9, 0, "sentry")]
    dropped = replace(told(OLD, 11), kind=SchemaChangeKind.DROP, file="bin.000001")
    link.load(*again, dropped, *renamed(13, *SWAP))
    link.close()
    link.topic[3] = (3, rows_of(link.place, NEW, 1, 2, ("u", "a", 2)).to_json())
    link.open()

    assert (link.rows(NEW), link.rows(OLD)) == ([("newer", 7)], [("a", 1)])
    assert (link.waiting(), link.stopped()) == ({}, {})

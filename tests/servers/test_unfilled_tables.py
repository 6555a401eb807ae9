"""A new target where files are gone: what it lacks begins with an event for its link, or for all, and never before."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
from tests.servers.forked import run_forked
from tests.servers.sink_case import DuckdbTarget, Place
from tests.servers.test_warehouse_loader import (
    IDS,
    NEW,
    OLD,
    SHADOW,
    MemoryRegistry,
    read_list,
    rows_of,
    told,
)

from penstock.adapters.objects.store import ObjectsSpec, open_objects
from penstock.adapters.state.store import open_state
from penstock.core.batches import Batch
from penstock.core.errors import PositionError, UnavailableError
from penstock.core.schema_changes import Move, SchemaChangeKind
from penstock.links.objects.retention import Kept
from penstock.links.warehouse.filling import Lack
from penstock.links.warehouse.load import WarehouseLoader
from penstock.links.warehouse.set_aside import UNFILLED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from penstock.core.batches import BatchMessages
    from penstock.core.tables import TableId
    from penstock.ports.warehouse import Value

WAITS = Lack("it lacks its rows, and waits for its snapshot")
FAILED = Lack("its snapshot failed", "mend it")


@dataclass
class MemoryFills:
    """Where a new target begins, and what was asked for: a `Fills` that asks for every table once."""

    end: int
    lacks: tuple[TableId, ...]
    lack: Lack = WAITS
    asked: list[TableId] = field(default_factory=list)
    left_out: frozenset[TableId] = frozenset()
    are_taken: bool = True
    has_begun: Mapping[TableId, int | None] = field(default_factory=dict)

    def beginning(self) -> tuple[int, Mapping[TableId, int]]:
        return self.end, {**dict.fromkeys(self.lacks, UNFILLED), OLD: 0}

    def begun(self, loaded_to: int) -> Mapping[TableId, int | None]:
        assert loaded_to
        return self.has_begun

    def files_from(self, table: TableId) -> int:
        return 0 if table == OLD else self.end

    def ask(self, tables: Collection[TableId], loaded_to: int) -> Mapping[TableId, Lack]:
        assert loaded_to >= self.end
        carried = set(tables) - self.left_out
        self.asked += sorted(carried - set(self.asked))
        return dict.fromkeys(carried, self.lack)


@dataclass
class Link:
    """A link into a target that comes when the files before `files_from` are gone."""

    folder: Path
    place: Place
    topic: list[tuple[int, bytes]]
    fills: MemoryFills
    files_from: int = 3
    batches_from: int = 0
    start: int = 0
    unread_from: int | None = None
    loader: WarehouseLoader | None = None

    def open(self) -> None:
        """Start, and load what there is."""
        state = open_state(f"sqlite:///{self.folder / 'state.db'}", "shop")
        wanted = lambda _, table: table in IDS  # noqa: E731 - as short as it can be
        self.loader = WarehouseLoader("link", self.place.open(), MemoryRegistry(), state, wanted, self._read)
        self.start = self.loader.start(Kept(self.files_from, self.batches_from), None, self.fills)
        self.loader.load(self.topic[self.start :])

    def _read(self, start: int, end: int) -> Iterator[BatchMessages]:
        if start == self.unread_from:
            _is_away()
        return read_list(self.topic, start, end)

    def close(self) -> None:
        if self.loader is not None:
            self.loader.close()
        self.loader = None

    def load(self, *batches: Batch) -> None:
        assert self.loader is not None
        more = [(len(self.topic) + n, batch.to_json()) for n, batch in enumerate(batches)]
        self.topic += more
        self.loader.load(more)

    def waiting(self) -> dict[TableId, int]:
        return self.place.open().waiting()

    def rows(self, table: TableId = NEW) -> list[tuple[Value, ...]]:
        return self.place.ask(f"SELECT id, qty FROM {table} ORDER BY id")

    def told(self, table: TableId = NEW) -> tuple[str, str]:
        """The error and the hint that `status` shows of a table."""
        with closing(open_state(f"sqlite:///{self.folder / 'state.db'}", "shop")) as state:
            return next(((each.error, each.hint) for each in state.tables() if each.table == str(table)), ("", ""))


def new_link(folder: Path) -> Link:
    place = Place(DuckdbTarget(folder / "shop.duckdb"), open_objects(ObjectsSpec((folder / "objects").as_uri())))
    batches = [rows_of(place, table, 0, 1, ("c", "a", 1)) for table in (NEW, SHADOW, OLD)]
    topic = [(n, batch.to_json()) for n, batch in enumerate(batches)]
    return Link(folder, place, topic, MemoryFills(3, (NEW, SHADOW)))


@pytest.fixture
def link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Link]:
    monkeypatch.setattr("penstock.links.warehouse.filling._PERIOD_SECONDS", 0.0)
    link = new_link(tmp_path)
    yield link
    link.close()


def begins(order: int, link: str = "link", table: TableId = NEW) -> Batch:
    return replace(told(table, order), begins_for=link)


def pause_a_part(link: Link) -> WarehouseLoader:
    """Let a table wait before it is found to be a part, and the others go on."""
    link.files_from = 0
    link.open()
    assert link.loader is not None
    link.loader.pause_table(NEW)
    link.load(replace(told(SHADOW, 2), kind=SchemaChangeKind.DROP))
    link.load(rows_of(link.place, NEW, 1, 3, ("c", "b", 2)), replace(told(NEW, 4), ends_for="link"))
    return link.loader


def test_a_new_target_begins_at_the_end_and_a_table_with_the_event_for_its_link(link: Link) -> None:
    link.open()
    at_first = link.waiting()
    link.load(rows_of(link.place, NEW, 1, 2, ("u", "a", 2)), begins(3, "another"))
    link.load(rows_of(link.place, NEW, 2, 4, ("u", "a", 3)))
    lacking = link.waiting(), link.told(), link.place.tables()
    link.load(begins(5), rows_of(link.place, NEW, 3, 6, ("r", "a", 3)), rows_of(link.place, NEW, 4, 7, ("c", "b", 4)))

    assert at_first == {NEW: UNFILLED, SHADOW: UNFILLED}
    assert lacking == ({NEW: UNFILLED, SHADOW: UNFILLED}, ("", WAITS.why), [str(OLD)])
    assert (link.rows(), link.waiting(), link.told()) == ([("a", 3), ("b", 4)], {SHADOW: UNFILLED}, ("", ""))
    assert (link.rows(OLD), link.fills.asked) == ([("a", 1)], [SHADOW, NEW])


def test_a_table_that_others_have_is_emptied_by_no_event_of_another_link(link: Link) -> None:
    link.files_from = 0
    link.open()

    link.load(begins(2, "another"), rows_of(link.place, NEW, 1, 3, ("r", "b", 2)))

    assert link.rows() == [("a", 1), ("b", 2)]


def test_a_table_that_the_target_refuses_goes_on_with_an_event_for_its_link(link: Link) -> None:
    link.files_from = 0
    link.open()
    link.place.do("CREATE UNIQUE INDEX one ON shop.orders (qty)")
    link.load(rows_of(link.place, NEW, 1, 2, ("c", "b", 1)))
    refused = link.told()[0]

    link.load(begins(3), rows_of(link.place, NEW, 2, 4, ("r", "c", 3)))

    assert refused
    assert (link.rows(), link.told(), link.waiting()) == ([("c", 3)], ("", ""), {})


@pytest.mark.parametrize("restarts", [False, True])
def test_a_table_whose_snapshot_ended_early_waits_for_another_one(link: Link, restarts: bool) -> None:  # noqa: FBT001
    link.open()
    link.load(begins(2), rows_of(link.place, NEW, 1, 3, ("r", "a", 1)))
    link.load(replace(told(NEW, 4), ends_for="another"))
    begun = link.waiting()
    link.fills.lack = FAILED
    link.load(replace(told(NEW, 5), ends_for="link"), rows_of(link.place, NEW, 2, 6, ("c", "b", 2)))
    if restarts:
        link.close()
        link.open()
    link.load(rows_of(link.place, NEW, 3, 7, ("c", "c", 3)))
    left = link.waiting(), link.told(), link.rows()
    link.load(
        begins(8),
        rows_of(
            link.place,
            NEW,
            4,
            9,
            ("r", "a", 1),
        ),
    )

    assert begun == {SHADOW: UNFILLED}
    assert left == ({NEW: UNFILLED, SHADOW: UNFILLED}, (FAILED.why, FAILED.hint), [("a", 1)])
    assert (link.rows(), link.waiting()) == ([("a", 1)], {SHADOW: UNFILLED})


def test_what_a_table_lacks_follows_its_rows_to_another_name_and_goes_when_the_source_drops_it(link: Link) -> None:
    link.open()
    move = Move(str(SHADOW), str(OLD), IDS[OLD])
    link.load(replace(told(OLD, 2), kind=SchemaChangeKind.RENAME, moves=(move,)))
    moved = link.waiting()
    link.load(replace(told(OLD, 3), kind=SchemaChangeKind.DROP))

    assert moved == {NEW: UNFILLED, OLD: UNFILLED}
    assert link.waiting() == {NEW: UNFILLED}
    assert link.told(OLD)[1].startswith("the source dropped this table")


def test_a_table_that_got_the_rows_of_a_part_is_a_part(link: Link) -> None:
    link.open()
    link.load(begins(2, table=SHADOW), rows_of(link.place, SHADOW, 1, 3, ("r", "a", 1)))
    move = Move(str(SHADOW), str(NEW), IDS[NEW])

    link.load(replace(told(NEW, 4), kind=SchemaChangeKind.RENAME, moves=(move,), ends_for="link"))

    assert link.waiting() == {NEW: UNFILLED}


def test_a_target_that_has_loaded_something_and_lacks_files_stops(link: Link) -> None:
    link.files_from = 0
    link.open()
    link.close()
    link.files_from = 4

    with pytest.raises(PositionError, match="files of batches before 4 were deleted") as raised:
        link.open()

    assert "restore a backup of the target from after batch 4" in raised.value.hint
    assert link.fills.asked == []


def test_a_link_of_which_no_message_is_gone_begins_where_the_topic_does(link: Link) -> None:
    link.files_from, link.batches_from = 0, 2
    old = link.topic.pop()[1]
    link.open()
    with closing(open_state(f"sqlite:///{link.folder / 'state.db'}", "shop")) as state:
        begun = link.start, state.place("link")
    # It holds up nothing that goes behind that, though no message comes.
    remembered = link.place.open().batch_offset()
    link.load(Batch.from_json(old))

    assert (begun, remembered) == ((2, 2), 2)
    assert (link.rows(OLD), link.place.tables()) == ([("a", 1)], [str(OLD)])


def test_a_table_that_waits_has_no_message_read_that_is_gone(link: Link) -> None:
    with closing(link.place.open()) as sink:
        sink.finish(2, {OLD: 0})
    link.files_from, link.batches_from = 0, 2
    link.open()

    assert link.start == 2
    assert (link.rows(OLD), link.waiting()) == ([("a", 1)], {})


def test_nothing_is_told_of_a_table_that_the_link_leaves_out_now_and_it_lacks_its_rows_still(link: Link) -> None:
    link.open()
    link.close()
    before = link.told()
    link.fills.left_out = frozenset({NEW})

    link.open()

    assert (before, link.told()) == (("", WAITS.why), ("", ""))
    assert link.waiting() == {NEW: UNFILLED, SHADOW: UNFILLED}


def test_what_could_not_be_told_is_told_the_next_time(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    link.open()
    link.fills.lack = FAILED
    with monkeypatch.context() as patched:
        patched.setattr("penstock.adapters.state.store.upsert", _is_away)
        link.load()
    away = link.told()

    link.load()

    assert (away, link.told()) == (("", WAITS.why), (FAILED.why, FAILED.hint))


def _is_away(*_: object, **__: object) -> None:
    message = "the state database is away"
    raise UnavailableError(message, "start it")


@pytest.mark.parametrize(
    ("kind", "left", "rows"),
    [
        (SchemaChangeKind.SCHEMA, {}, [("c", 3)]),
        (SchemaChangeKind.DROP, {}, None),
        (SchemaChangeKind.RENAME, {SHADOW: UNFILLED}, None),
    ],
)
def test_what_a_table_meets_while_it_waits_counts_when_it_is_found_to_be_a_part(
    kind: SchemaChangeKind, left: dict[TableId, int], rows: list[tuple[Value, ...]] | None, link: Link
) -> None:
    loader = pause_a_part(link)
    move = Move(str(NEW), str(SHADOW), IDS[SHADOW])
    met = {
        SchemaChangeKind.SCHEMA: begins(5),
        SchemaChangeKind.DROP: replace(told(NEW, 5), kind=kind),
        SchemaChangeKind.RENAME: replace(told(SHADOW, 5), kind=kind, moves=(move,)),
    }
    link.load(met[kind])
    if rows:
        link.load(rows_of(link.place, NEW, 2, 6, ("r", "c", 3)))

    loader.release_table(NEW)
    link.load()

    assert link.waiting() == left
    assert rows is None or link.rows() == rows


def test_a_part_whose_other_name_could_not_be_read_of_is_found_again(link: Link) -> None:
    loader = pause_a_part(link)
    move = Move(str(NEW), str(SHADOW), IDS[SHADOW])
    link.load(replace(told(SHADOW, 5), kind=SchemaChangeKind.RENAME, moves=(move,)))
    ended_at, link.unread_from = len(link.topic) - 2, len(link.topic) - 1

    loader.release_table(NEW)
    with pytest.raises(UnavailableError):
        link.load()
    found = link.waiting()
    link.unread_from = None
    link.close()
    link.open()

    assert (found, link.waiting()) == ({NEW: ended_at, SHADOW: ended_at + 1}, {SHADOW: UNFILLED})


def test_without_snapshots_a_new_target_begins_nowhere(link: Link) -> None:
    link.fills.are_taken = False

    with pytest.raises(PositionError, match="files of batches before 3 were deleted") as raised:
        link.open()

    assert "start a new pipeline" in raised.value.hint


@pytest.mark.nightly
def test_killed_before_it_has_asked_the_next_start_asks_and_begins_nowhere_else(link: Link) -> None:
    code = run_forked(_start, str(link.folder), crash_at="fill.remembered")
    remembered = link.waiting()
    link.topic.append((3, rows_of(link.place, NEW, 1, 2, ("c", "b", 2)).to_json()))

    link.open()

    assert (code, remembered) == (-9, {NEW: UNFILLED, SHADOW: UNFILLED, OLD: 0})
    assert (link.fills.asked, link.waiting()) == ([SHADOW, NEW], {NEW: UNFILLED, SHADOW: UNFILLED})


def _start(folder: str) -> None:
    from pathlib import Path  # noqa: PLC0415 - in the process that is killed

    link = new_link(Path(folder))
    link.open()

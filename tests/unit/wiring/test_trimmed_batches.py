"""The batch topic begins later: nobody misses a message that is gone, and a new target learns what it learnt before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs
from tests.unit.wiring.trimmed_world import CREATE, DROP, JOINED, RENAME, SCHEMA, TRUNCATE, Tail, World

from penstock.config.load import load
from penstock.core.errors import FencedError, PositionError, SinkError, UnavailableError
from penstock.core.tables import TableId
from penstock.jobs.link import MessageWork
from penstock.jobs.message_following import follow_messages, read_messages
from penstock.links.warehouse.set_aside import UNFILLED
from penstock.wiring.files import batch_reader, sweep_files
from penstock.wiring.fills import deleted_topics
from penstock.wiring.restored_files import open_restoring_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.core.batches import Batch
    from penstock.core.schema_changes import SchemaChangeKind


_FILE = """
pipeline: p
home: ./home
sources:
- {name: s, kind: mysql, host: h, user: u, password_env: P, tables: [shop.*]}
- {name: t, kind: mysql, host: h2, user: u, password_env: P, tables: [shop.*]}
sinks: [{name: a, kind: duckdb, path: a.duckdb}, {name: b, kind: duckdb, path: b.duckdb}]
links: [{from: s, to: a}, {from: t, to: b}]
"""
NAMES = ("orders", "users", "log", "letters")
OTHERS = ("t_orders", "t_users")


@dataclass(frozen=True, slots=True)
class Step:
    """Statements that captures tell, then a round of the S3 spolt, then a sweep.

    A statement is (kind, tables, whether the first of them has a key): RENAME gives the rows of the last table to
    the first, and with two more names swaps both. Tables of another source have other names. `behind` are tables
    that are not read to their ends; others get a file of their rows. Everything but the last `kept` messages is old
    and loaded.
    """

    statements: Sequence[tuple[SchemaChangeKind, tuple[str, str], bool]]
    behind: frozenset[str]
    kept: int


names = st.sampled_from(NAMES)
pairs = st.sampled_from([NAMES, NAMES, OTHERS]).flatmap(
    lambda of_source: st.lists(st.sampled_from(of_source), min_size=2, max_size=2, unique=True).map(tuple)
)
kinds = st.sampled_from([CREATE, DROP, RENAME, RENAME, SCHEMA, TRUNCATE])
histories = st.lists(
    st.builds(
        Step,
        st.lists(st.tuples(kinds, pairs, st.sampled_from([True, True, True, False])), max_size=4),
        st.frozensets(names, max_size=2),
        st.integers(0, 6),
    ),
    min_size=1,
    max_size=12,
)


@pytest.fixture(scope="module")
def make_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], World]]:
    """Make a world, which fills read from then on."""
    file = tmp_path_factory.mktemp("trimmed") / "p.yaml"
    file.write_text(_FILE)
    spec = load(file)
    worlds: list[World] = []

    def make() -> World:
        worlds[:] = [World(spec)]
        return worlds[0]

    with pytest.MonkeyPatch.context() as patch:
        for module in ("wiring.files", "wiring.fills", "jobs.message_following"):
            patch.setattr(f"penstock.{module}.open_topic_log", lambda _: worlds[0].log)
        patch.setattr("penstock.jobs.message_following.open_topic_tail", lambda _, starts: Tail(worlds[0].log, starts))
        patch.setattr("penstock.wiring.fills.committed_end", lambda _, log, __, topic: len(log.values[topic, 0]))
        patch.setattr("penstock.wiring.fills.settled_end", lambda log, topic: len(log.values[topic, 0]))
        yield make


def begun(messages: Sequence[Batch]) -> set[TableId]:
    """Which tables of the source have begun, by every message that there was."""
    tables: set[TableId] = set()
    for batch in messages:
        if batch.rows or batch.source != "s":
            continue
        moves: Any = [(TableId.parse(move.origin), TableId.parse(move.table)) for move in batch.moves]
        tables = (tables | {batch.table}) - ({origin for origin, _ in moves} - {name for _, name in moves})
        tables -= {batch.table} if batch.kind is DROP else set()
    return tables


def lost(messages: Sequence[Batch]) -> set[TableId]:
    """Tables of which files are gone, if those of `messages` are, by every message that there was."""
    told = [batch for batch in messages if not batch.rows and batch.source == "s"]
    moved = {TableId.parse(move.table) for batch in told for move in batch.moves}
    return moved | {batch.table for batch in told if batch.topic.endswith("True")}


@given(histories, st.booleans())
def test_what_a_new_target_learns_is_what_all_messages_say(
    make_world: Callable[[], World],
    history: list[Step],
    has_join: bool,  # noqa: FBT001 - drawn
) -> None:
    world = make_world()

    for number, step in enumerate(history):
        for kind, tables, has_key in step.statements:
            world.tell(kind, tables, has_key=has_key, source=tables[0][0] if tables[0] in OTHERS else "s")
        if has_join and number == len(history) // 2:
            world.tell(CREATE, (JOINED, JOINED), has_key=True, source=JOINED)
        older = world.fills()
        world.pass_on(step.behind)

        # Its record is older than the end at which a target begins.
        assert set(older.beginning()[1]) == begun(world.messages())
        for loaded_to in range(max(1, world.begin), world.end + 1):
            assert set(world.fills().begun(loaded_to)) == begun(world.messages()[:loaded_to])
        old = max(world.publisher.record.deleted_to, world.end - step.kept)
        world.sweep(old, old)
        assert_nothing_is_missed(world)


def assert_nothing_is_missed(world: World) -> None:
    """Hold what fills learn, and what is gone, against all messages that there were."""
    messages, record, fills = world.messages(), world.publisher.record, world.fills()
    end, waiting = fills.beginning()
    first = record.batches_from
    trimmed, deleted = messages[:first], messages[: record.files_from]

    assert (end, set(waiting)) == (len(messages), begun(messages))
    assert first <= record.deleted_to
    assert all(batch.topic in deleted_topics(world.spec, world.log, world.publisher.record) for batch in trimmed)
    whole = {table for table, at in waiting.items() if at != UNFILLED}
    assert all(waiting[table] == first for table in whole)
    assert not {batch.table for batch in trimmed if batch.source == "s"} & whole
    for table in {batch.table for batch in deleted if batch.source == "s"}:
        assert (fills.files_from(table) == record.files_from) == (table in lost(deleted))


@pytest.fixture
def world(make_world: Callable[[], World]) -> World:
    """A table with a key: a message that announces it, and one of a file."""
    world = make_world()
    world.tell(CREATE, ("orders", "users"), has_key=True)
    world.pass_on(())
    return world


def test_messages_go_as_far_as_files_do_and_as_far_as_every_target_is(world: World) -> None:
    world.pass_on(())
    world.pass_on(())
    begins = []
    for deleted_to, loaded in ((0, 3), (1, 0), (1, 3), (3, 2), (3, 3), (3, 4)):
        world.sweep(deleted_to, loaded)
        begins.append(world.begin)

    # What is announced goes with the first file behind it. A link of a table that waits begins with a message that
    # its target has.
    assert begins == [0, 0, 0, 0, 2, 3]


@pytest.mark.parametrize(("source", "has_key"), [("s", False), (JOINED, True)])
def test_the_topic_begins_with_the_first_message_of_a_table_that_no_snapshot_brings_back(
    world: World,
    source: str,
    has_key: bool,  # noqa: FBT001 - a parameter
) -> None:
    world.tell(CREATE, ("log", "users"), has_key=has_key, source=source)
    world.pass_on(())
    world.pass_on(())
    kept = next(at for at, batch in enumerate(world.messages()) if batch.table.name == "log")

    world.sweep(world.end, world.end)

    assert world.begin == kept
    assert world.publisher.record.batches_from == kept > 0


def test_what_a_crash_has_left_goes_with_the_next_sweep_and_many_go_some_at_a_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.links.objects.trimming._BATCHES_AT_ONCE", 2)
    for _ in range(4):
        world.pass_on(())
    world.publisher.forget_batches(1)

    has_more = [world.sweep(5, 6) for _ in range(3)]

    assert (has_more, world.begin) == ([True, True, False], 5)


def test_more_announcements_than_are_looked_at_hold_nothing_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.links.objects.trimming._BATCHES_AT_ONCE", 2)
    for _ in range(3):
        world.tell(SCHEMA, ("orders", "users"), has_key=True)
    world.pass_on(())

    begins = [(world.sweep(5, 5), world.begin)[1] for _ in range(3)]

    assert [batch.rows for batch in world.messages()] == [0, 1, 0, 0, 0, 1]
    assert begins == [2, 4, 4]


def test_who_reads_what_went_meanwhile_is_to_begin_anew(world: World) -> None:
    world.pass_on(())
    fills, read = world.fills(), batch_reader(world.spec, world.publisher.record.batches_from)
    taken: list[tuple[int, bytes]] = []
    work = MessageWork(0, taken.extend, lambda _: None)
    world.sweep(world.end, world.end)

    with pytest.raises(UnavailableError, match="begins at 2 by now; it was to be read from 0"):
        fills.beginning()
    with pytest.raises(UnavailableError, match="begins at 2 by now; it was to be read from 1"):
        list(read(1, world.end))
    with pytest.raises(UnavailableError, match="begins at 2 by now"):
        read_messages(world.spec, work, lambda _: False)
    with pytest.raises(UnavailableError, match="begins at 2 by now"):
        follow_messages(world.spec, work, 0, lambda _: bool(taken))
    assert taken == []


def test_who_reads_what_somebody_else_threw_away_stops(world: World) -> None:
    world.log.first[world.batches, 0] = 1

    with pytest.raises(PositionError, match="was thrown away"):
        world.fills().beginning()


def test_nothing_is_learnt_from_a_schemas_topic_that_ends_before_what_was_passed_on(world: World) -> None:
    world.pass_on(())
    world.sweep(world.end, world.end)
    world.told.clear()

    with pytest.raises(UnavailableError, match="ends at 0, and was read up to 1"):
        world.fills().beginning()
    with pytest.raises(UnavailableError, match="ends at 0, and was read up to 1"):
        world.trim(world.end)


def test_what_was_passed_on_ahead_of_others_was_read_too(world: World) -> None:
    record = replace(world.publisher.record, schemas_offset=0, passed=(2, 4))

    assert record.told_to == 5


def test_a_file_that_is_gone_is_looked_for_in_the_messages_that_there_are(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.wiring.restored_files.open_topic_log", lambda _: world.log)
    monkeypatch.setattr("penstock.wiring.restored_files.open_registry", lambda _: world.log)
    world.pass_on(())
    world.sweep(world.end, world.end)

    with pytest.raises(SinkError) as caught:
        open_restoring_store(world.spec).get("nobody's")

    assert "nor can it be written again" not in caught.value.message


def test_a_table_that_waits_before_the_topics_beginning_has_what_there_is_read(world: World) -> None:
    world.pass_on(())
    world.sweep(world.end, world.end)
    first = world.publisher.record.batches_from

    (messages,) = batch_reader(world.spec, first)(0, world.end)

    assert [offset for offset, _ in messages] == [first] == [2]


def test_brokers_that_throw_nothing_away_keep_no_files_and_are_said_to(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> str:
        message = "the brokers are away"
        raise UnavailableError(message, "start them")

    monkeypatch.setattr("penstock.wiring.files.throw_away_before", fails)
    monkeypatch.setattr("penstock.wiring.files.sink_offsets", lambda _: {"to-a": world.end})
    world.pass_on(())
    with capture_logs() as logs:
        sweep_files(world.spec, world.publisher)

    told = [(log["event"], log.get("files", log.get("error"))) for log in logs]
    assert told == [("old files deleted", 2), ("batch messages of deleted files wait", "the brokers are away")]
    assert (world.publisher.record.deleted_to, world.publisher.record.batches_from) == (3, 2)


def test_a_replaced_instance_throws_nothing_away(world: World) -> None:
    world.pass_on(())
    world.publisher.forget_files(world.end, world.end)
    world.kafka.is_replaced = True

    with pytest.raises(FencedError):
        world.trim(world.end)

    assert world.begin == 0

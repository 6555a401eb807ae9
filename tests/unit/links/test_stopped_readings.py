"""Tables whose topics cannot be read on: they stop, those that get their rows stop, and a new beginning ends it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.core.schema_changes import Move, SchemaChange, SchemaChangeKind
from penstock.core.tables import TableId
from penstock.core.topic_fingerprints import foreign_message
from penstock.links.objects.plan import TopicRange
from penstock.links.objects.record import ObjectsRecord
from penstock.links.objects.stopping import stop_and_resume
from penstock.links.objects.write import RangeWritten

_READ = {("t", 0): (5, 7), ("t", 1): (20, 30), ("u", 0): (1, 1)}
_FOREIGN = foreign_message("t", 0, 7, "x", "shop.t")
_STOPPED = stop_and_resume(
    ObjectsRecord(places=_READ),
    [
        RangeWritten(TopicRange("db", "shop.t", "t", 0, 5, 5, 9, ()), 7, (), 0, _FOREIGN),
        RangeWritten(TopicRange("db", "shop.u", "u", 0, 1, 1, 1, ()), 1, ()),
    ],
    [],
)


def event(table: str, topic: str, kind: SchemaChangeKind, *moves: Move, begins: tuple[int, ...] = ()) -> SchemaChange:
    name = TableId("shop", table)
    return SchemaChange("db", name, topic, "", 1, 2, 2, (1, 1, 0), kind, moves=moves, begins=begins)


def stopped(record: ObjectsRecord) -> list[str]:
    return sorted(table for _, table in record.stopped_tables())


def test_a_table_stops_at_a_message_and_its_record_is_read_back() -> None:
    assert stopped(_STOPPED) == ["shop.t"]
    assert ObjectsRecord.from_mapping(_STOPPED.to_mapping()) == _STOPPED
    assert "stopped" not in ObjectsRecord().to_mapping()


def test_it_goes_on_where_it_begins_anew_in_all_of_its_partitions() -> None:
    anew = stop_and_resume(_STOPPED, [], [event("t", "t", SchemaChangeKind.CREATE, begins=(12, 25))])

    assert stopped(anew) == []
    assert anew.places == {("t", 0): (5, 12), ("t", 1): (20, 30), ("u", 0): (1, 1)}
    assert anew.left == ()


def test_a_joined_table_begins_anew_where_it_is_emptied_behind_all_that_its_topic_had() -> None:
    anew = stop_and_resume(_STOPPED, [], [event("t", "t", SchemaChangeKind.TRUNCATE, begins=(12, 25))])

    assert stopped(anew) == []
    assert anew.places == {("t", 0): (5, 12), ("t", 1): (20, 30), ("u", 0): (1, 1)}


def test_a_partition_that_was_never_read_begins_there_too() -> None:
    anew = stop_and_resume(_STOPPED, [], [event("t", "t", SchemaChangeKind.CREATE, begins=(12, 25, 4))])

    assert anew.places["t", 2] == (0, 4)


def test_a_topic_that_the_table_had_before_is_read_no_more() -> None:
    anew = stop_and_resume(_STOPPED, [], [event("t", "t2", SchemaChangeKind.CREATE, begins=(0, 0))])

    assert (stopped(anew), anew.left) == ([], ("t",))
    assert ObjectsRecord.from_mapping(anew.to_mapping()) == anew


@pytest.mark.parametrize("kind", [SchemaChangeKind.CREATE, SchemaChangeKind.SCHEMA, SchemaChangeKind.TRUNCATE])
def test_no_other_event_of_it_lets_it_go_on(kind: SchemaChangeKind) -> None:
    assert stop_and_resume(_STOPPED, [], [event("t", "t", kind)]) == _STOPPED


def test_a_table_that_was_not_stopped_is_read_as_ever_where_it_begins_anew() -> None:
    record = replace(_STOPPED, stopped={})

    assert stop_and_resume(record, [], [event("t", "t", SchemaChangeKind.CREATE, begins=(12, 25))]) == record


def test_a_table_that_gets_the_rows_of_a_stopped_one_stops_until_it_begins_anew() -> None:
    moves = (Move("shop.t", "shop.u", 2), Move("shop.u", "shop.v", 2))
    renamed = stop_and_resume(
        _STOPPED, [], [event(table, table, SchemaChangeKind.RENAME, *moves) for table in ("u", "v")]
    )

    assert stopped(renamed) == ["shop.t", "shop.u"]
    assert (renamed.stopped["t", 0].is_gone, "leave it out" in renamed.stopped["t", 0].hint) == (True, True)
    assert "it got the rows of shop.t" in renamed.stopped["u", 0].error
    assert "penstock snapshot FILE shop.u --full-refresh" in renamed.stopped["u", 0].hint
    anew = stop_and_resume(renamed, [], [event("u", "u", SchemaChangeKind.CREATE, begins=(9, 9))])
    assert (stopped(anew), anew.places["u", 0]) == (["shop.t"], (1, 9))


def test_a_stopped_table_that_is_dropped_is_told_as_such_until_one_of_its_name_begins() -> None:
    dropped = stop_and_resume(_STOPPED, [], [event("t", "t", SchemaChangeKind.DROP)])

    assert (dropped.stopped["t", 0].is_gone, "leave it out" in dropped.stopped["t", 0].hint) == (True, True)
    anew = stop_and_resume(dropped, [], [event("t", "t", SchemaChangeKind.CREATE, begins=(12, 25))])
    assert stopped(anew) == []


def test_stopped_tables_that_change_names_both_stop() -> None:
    moves = (Move("shop.t", "shop.u", 2), Move("shop.u", "shop.t", 2))
    swapped = stop_and_resume(
        _STOPPED, [], [event(table, table, SchemaChangeKind.RENAME, *moves) for table in ("u", "t")]
    )

    assert stopped(swapped) == ["shop.t", "shop.u"]
    assert swapped.stopped["t", 0] == _STOPPED.stopped["t", 0]


def test_a_table_that_gets_the_name_of_one_that_went_stays_stopped_and_can_be_brought_back() -> None:
    dropped = stop_and_resume(_STOPPED, [], [event("t", "t", SchemaChangeKind.DROP)])
    renamed = stop_and_resume(dropped, [], [event("t", "t", SchemaChangeKind.RENAME, Move("shop.c", "shop.t", 2))])

    assert renamed == _STOPPED


def test_a_beginning_from_before_the_message_lets_nothing_go_on() -> None:
    began = event("t", "t", SchemaChangeKind.CREATE)
    stop = RangeWritten(TopicRange("db", "shop.t", "t", 0, 5, 5, 9, ()), 7, (), 0, _FOREIGN)

    assert stop_and_resume(ObjectsRecord(places=_READ), [stop], [began]) == _STOPPED
    assert stop_and_resume(_STOPPED, [], [replace(began, begins=(7, 25))]) == _STOPPED


def test_nothing_of_a_stopped_table_or_of_a_topic_that_was_left_is_read() -> None:
    anew = stop_and_resume(_STOPPED, [], [event("t", "t2", SchemaChangeKind.CREATE)])

    assert [_STOPPED.reads("db", table, topic) for table, topic in (("shop.t", "t"), ("shop.u", "u"))] == [False, True]
    assert [anew.reads("db", "shop.t", topic) for topic in ("t", "t2")] == [False, True]

"""Rows that lack columns are joined whole, with what they were before; nothing is made up of rows that nobody knows."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.unit.joins.joined_notes import NOTE, OUTPUT, SAID, SHOP, WHOLE, Joined

from penstock.core.avro.schemas import value_schema
from penstock.core.changes import Op
from penstock.core.errors import PenstockError
from penstock.core.joins.cells import lacks_cells, merge_cells
from penstock.core.joins.completing import Orphan
from penstock.core.joins.described import Described
from penstock.core.joins.events import truncate_event
from penstock.core.joins.inputs import JoinInput
from penstock.core.joins.plan import plan_join
from penstock.core.tables import BytesType, Column
from penstock.links.joins.decode import UNREADABLE_MAX, sort_out, to_join
from penstock.links.joins.kept_job import job_from_mapping, job_to_mapping


def test_an_update_keeps_what_it_does_not_say_also_under_another_join_key() -> None:
    joined = Joined()
    joined.take(0, Op.READ, WHOLE)

    joined.take(0, Op.UPDATE, {"id": 1, "shop": 8, "state": "done"}, ("text",))

    assert joined.rows == {1: {"id": 1, "shop": 8, "state": "done", "text": "long", "city": "Bonn"}}


def test_a_join_key_that_an_update_does_not_say_is_the_one_of_before() -> None:
    joined = Joined()
    joined.take(0, Op.READ, WHOLE)

    joined.take(0, Op.UPDATE, {"id": 1, "text": None}, ("shop", "state"))

    assert joined.rows == {1: {**WHOLE, "text": None, "city": "Ulm"}}


def test_a_row_that_the_condition_left_out_is_whole_when_it_comes_in() -> None:
    joined = Joined(where="state = 'open'")
    joined.take(0, Op.CREATE, {**WHOLE, "state": "new"})
    assert joined.rows == {}

    joined.take(0, Op.UPDATE, {"id": 1, "shop": 7, "state": "open"}, ("text",))
    assert joined.rows == {1: {**WHOLE, "city": "Ulm"}}

    joined.take(0, Op.UPDATE, {"id": 1, "shop": 8}, ("state", "text"))
    assert joined.rows == {1: {**WHOLE, "shop": 8, "city": "Bonn"}}


def test_a_row_that_had_no_join_key_is_whole_when_it_gets_one() -> None:
    joined = Joined()
    joined.take(0, Op.CREATE, {**WHOLE, "shop": None})

    joined.take(0, Op.UPDATE, {"id": 1, "shop": 7, "state": "open"}, ("text",))

    assert joined.rows == {1: {**WHOLE, "city": "Ulm"}}


def test_a_deleted_row_says_its_key_alone() -> None:
    joined = Joined()
    joined.take(0, Op.READ, WHOLE)

    joined.take(0, Op.DELETE, {"id": 1, "state": ""}, ("shop", "state", "text"))
    joined.take(0, Op.DELETE, {"id": 2, "state": ""}, ("shop", "state", "text"))

    assert joined.rows == {}
    assert joined.letters == []


def test_a_created_row_has_the_defaults_of_what_it_does_not_say() -> None:
    joined = Joined()

    joined.take(0, Op.CREATE, {"id": 1, "shop": 7}, ("state", "text"))

    assert joined.rows == {1: {"id": 1, "shop": 7, "state": "new", "text": None, "city": "Ulm"}}


def test_a_change_of_a_row_that_is_not_known_is_a_dead_letter_until_the_row_comes_whole() -> None:
    joined = Joined()

    joined.take(0, Op.UPDATE, {"id": 1, "shop": 7, "state": "open"}, ("text",))

    (letter,) = joined.letters
    assert (letter.topic, letter.partition, letter.offset, letter.lacks) == ("db.shop.t0", 0, 3, True)
    assert letter.value is not None
    assert letter.value[:1] == b"\0"
    assert letter.reason.startswith("it lacks text, which it left as it was")
    assert letter.reason.endswith("penstock snapshot FILE shop.t0")
    assert joined.rows == {}
    joined.take(0, Op.READ, WHOLE)
    assert joined.rows == {1: {**WHOLE, "city": "Ulm"}}


def test_what_is_deleted_completes_nothing() -> None:
    joined = Joined()
    joined.take(0, Op.READ, WHOLE)
    joined.take(0, Op.DELETE, {"id": 1, "state": ""}, ("shop", "state", "text"))

    joined.take(0, Op.UPDATE, {"id": 1, "shop": 7, "state": "open"}, ("text",))

    assert [each.lacks for each in joined.letters] == [True]
    assert joined.rows == {}


def test_a_row_goes_with_a_truncate_that_is_told_late_if_a_value_in_it_is_older() -> None:
    joined = Joined()
    joined.take(0, Op.READ, WHOLE)
    joined.take(0, Op.UPDATE, {"id": 1, "shop": 8, "state": "open"}, ("text",))

    joined.apply([truncate_event(0, 0, (1, joined.place, 0))])

    assert joined.rows == {}
    joined.take(0, Op.UPDATE, {"id": 1, "shop": 8, "state": "open"}, ("text",))
    assert [each.lacks for each in joined.letters] == [True]


def test_a_micro_batch_that_is_begun_again_is_completed_once() -> None:
    joined = Joined()
    events = joined.decoded(0, Op.READ, WHOLE, ())
    events += joined.decoded(0, Op.UPDATE, {"id": 1, "shop": 8, "state": "open"}, ("text",))

    joined.apply(events)
    joined.apply(events)

    assert joined.rows == {1: {**WHOLE, "shop": 8, "city": "Bonn"}}
    assert joined.letters == []


def test_many_changes_of_a_row_are_one_whole_row() -> None:
    joined, large = Joined(), "x" * 2000
    joined.take(0, Op.READ, {**WHOLE, "text": large})
    events = [joined.decoded(0, Op.UPDATE, {"id": 1, "shop": 7, "state": str(n)}, ("text",))[0] for n in range(100)]

    passed = joined.completer.take(events)

    assert sum(each.nbytes for each in passed if not isinstance(each, Orphan)) < 2 * len(large)


def test_changes_that_nobody_can_make_whole_are_all_told_whatever_became_of_their_row() -> None:
    joined, said = Joined(), {"id": 1, "shop": 7, "state": "open"}
    events = joined.decoded(0, Op.UPDATE, said, ("text",))
    events += joined.decoded(0, Op.UPDATE, said, ("text",))
    events += joined.decoded(0, Op.READ, WHOLE, ())
    events += joined.decoded(0, Op.DELETE, {"id": 1, "state": ""}, ("shop", "state", "text"))
    events += joined.decoded(0, Op.UPDATE, said, ("text",))

    joined.apply(events)

    assert [letter.offset for letter in joined.letters] == [3, 4, 7]
    assert joined.rows == {}


def test_a_join_that_was_begun_with_whole_rows_stops_at_one_that_lacks_a_column() -> None:
    joined = Joined(note=replace(NOTE, partial_rows=False))
    joined.take(0, Op.READ, WHOLE)

    with pytest.raises(
        PenstockError, match=r"was begun with whole rows of db.shop.t0, and some lack columns"
    ) as stopped:
        joined.take(0, Op.UPDATE, {"id": 1, "shop": 8, "state": "open"}, ("text",))

    assert stopped.value.hint == "they lack text; have the join made again: penstock joinery rebuild FILE JOIN"


def test_a_join_of_whole_rows_does_not_stop_for_lack_of_what_it_does_not_read() -> None:
    joined = Joined(note=replace(NOTE, partial_rows=False), exclude=("text",))
    joined.take(0, Op.READ, WHOLE)

    joined.take(0, Op.UPDATE, SAID, ("text",))

    assert joined.rows == {1: {**SAID, "city": "Bonn"}}


def test_a_default_that_only_the_source_knows_stops_a_join_unless_the_column_is_excluded() -> None:
    raw = Column("raw", BytesType(16, fixed=True), nullable=False, default="0x00ff")
    note = replace(NOTE, columns=(*NOTE.columns, raw))
    reads, excludes = Joined(note=note), Joined(note=note, exclude=("raw",))

    with pytest.raises(PenstockError, match=r"a row of shop.t0 was inserted without raw, and ") as stopped:
        reads.take(0, Op.CREATE, WHOLE, ("raw",))
    excludes.take(0, Op.CREATE, WHOLE, ("raw",))

    assert stopped.value.hint.startswith("put the column into exclude_fields, and have a join that has begun made")
    assert excludes.rows == {1: {**WHOLE, "city": "Ulm"}}


def test_a_join_that_is_made_again_has_no_values_of_a_column_that_was_dropped_and_added_again() -> None:
    joined = Joined()
    joined.schemas[2] = value_schema(replace(NOTE, columns=NOTE.columns[:3]))
    notes, shops = joined.job.streams
    described = (Described((0, 0, 0), 0), Described((1, 10, 0), 2), Described((1, 15, 0), 0))
    joined.job = replace(joined.job, streams=(replace(notes, described=described), shops))
    joined.take(0, Op.READ, WHOLE)
    joined.place = 19

    joined.take(0, Op.UPDATE, SAID, ("text",))

    assert joined.rows == {1: {**SAID, "text": None, "city": "Bonn"}}


def test_an_update_that_lacks_nothing_that_the_join_reads_is_whole() -> None:
    joined = Joined()
    cells, patch = joined.cells(Op.CREATE, WHOLE), joined.cells(Op.UPDATE, SAID, ("text",))

    assert (lacks_cells(cells), lacks_cells(patch), lacks_cells(merge_cells(cells, patch))) == (False, True, False)
    excluded = plan_join(
        [
            JoinInput("db.shop.t0", NOTE, ("shop",), exclude=("text",)),
            JoinInput("db.shop.t1", SHOP, ("id",), aliases=(("id", "shop"),)),
        ],
        OUTPUT,
    )
    assert [column.name for column in excluded.inputs[0].needed] == ["id", "shop", "state"]
    joined.job = replace(joined.job, plan=excluded)
    assert not lacks_cells(joined.cells(Op.UPDATE, SAID, ("text",)))


def test_changes_of_rows_that_are_not_known_stop_nothing_however_many_they_are() -> None:
    job = Joined().job
    orphans = [Orphan(0, 0, number, b"", ("text",)) for number in range(UNREADABLE_MAX + 1)]

    assert len(sort_out(to_join(job, orphans))[1]) == UNREADABLE_MAX + 1


def test_what_an_older_release_kept_of_a_join_is_one_of_whole_rows() -> None:
    job = Joined(note=replace(NOTE, partial_rows=False)).job
    said = json.loads(json.dumps(job_to_mapping(job)))
    for given in said["inputs"]:
        del given["needed"]

    assert job_from_mapping(said).plan.digest == job.plan.digest
    assert job_from_mapping(said).plan.partial == 0

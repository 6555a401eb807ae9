"""Tables that wait are tried again after growing pauses, and with those that they are tied to."""

from __future__ import annotations

from penstock.core.tables import TableId
from penstock.links.warehouse.set_aside import DROPPED, UNFILLED, SetAside

A, B, C = (TableId("shop", name) for name in "abc")


def test_pauses_double_while_a_table_comes_no_further_and_begin_anew_when_it_does() -> None:
    aside = SetAside()

    pauses = [aside.put(A, 3, 0.0) for _ in range(8)]
    aside.advance([A], 9)

    assert pauses == [5, 10, 20, 40, 80, 160, 300, 300]
    assert aside.put(A, 9, 0.0) == 5


def test_a_table_is_due_when_its_pause_is_over_and_one_that_stopped_never() -> None:
    aside = SetAside()
    aside.put(A, 3, 100.0)
    aside.put(B, 4, None)

    assert (aside.due(104.9), aside.due(105.0)) == (set(), {A})


def test_what_is_tied_goes_with_what_it_waits_for_however_many_ties_there_are_between() -> None:
    aside = SetAside()
    aside.put(A, 3, 100.0)
    aside.put(B, 5, None, {A})
    aside.put(C, 7, None, {B})

    assert (aside.due(0.0), aside.due(105.0)) == (set(), {A, B, C})


def test_what_is_tied_goes_when_nothing_that_it_waits_for_waits_any_more() -> None:
    aside = SetAside()
    aside.put(B, 5, None, {A})

    assert aside.due(0.0) == {B}


def test_a_table_begins_anew_where_it_is_refused_unless_another_one_needs_the_rows_that_it_has() -> None:
    aside = SetAside()
    aside.put(A, 3, None)
    aside.put(B, 3, None, {A})
    aside.put(C, 3, 0.0)

    assert [aside.is_refused(table) for table in (A, B, C)] == [True, True, False]
    aside.keep([B])
    assert not aside.is_refused(B)
    aside.skip(B, 3)
    aside.put(B, 3, None, {A})
    assert aside.is_refused(B)


def test_a_table_is_released_where_the_others_are_and_not_before() -> None:
    aside = SetAside({A: 3})
    aside.advance([A], 8)

    assert (aside.release(9), aside.offsets()) == (set(), {A: 8})
    aside.advance([A], 9)
    assert (aside.release(9), aside.offsets()) == ({A}, {})


def test_what_waits_for_its_snapshot_follows_its_rows_from_name_to_name() -> None:
    aside = SetAside({A: UNFILLED, C: 4})

    moved = aside.move_unfilled(aside.forgotten(UNFILLED), [(A, B)])
    swapped = aside.move_unfilled(aside.forgotten(UNFILLED), [(B, C), (C, B)])

    assert (moved, swapped) == ({B}, {C})
    assert aside.offsets() == {B: UNFILLED, C: UNFILLED}


def test_a_table_that_its_source_drops_waits_for_no_snapshot_and_one_that_people_dropped_stays_so() -> None:
    aside = SetAside({A: UNFILLED, B: DROPPED})

    assert (aside.end_unfilled(A), aside.end_unfilled(B)) == (True, False)
    assert (aside.offsets(), aside.forgotten(UNFILLED)) == ({B: DROPPED}, set())

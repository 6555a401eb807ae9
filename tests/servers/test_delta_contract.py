"""Delta tables meet the contract that every kind of target meets; what they do otherwise is said here."""

from __future__ import annotations

import datetime as dt
import os
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.servers.sink_case import SCHEMAS, TABLE, announcement, rows_in, write_batch
from tests.servers.test_sink_borders import (
    test_a_change_log_says_where_it_was_emptied_and_adds_up_as_the_page_says,
    test_a_dropped_table_is_kept_or_dropped_and_said_so_until_it_begins_anew,
    test_a_name_that_another_table_had_is_taken_only_if_that_was_ours,
    test_a_statement_that_comes_again_takes_no_rows_that_came_behind_it,
    test_columns_swap_names_with_all_their_values_once,
    test_tables_swap_names_with_all_their_rows_once,
)
from tests.servers.test_sink_columns import (
    test_a_column_that_gets_another_name_is_treated_as_before,
    test_a_hashed_key_keeps_its_rows_apart_and_finds_them_again,
    test_a_key_is_neither_dropped_nor_masked_and_nothing_is_loaded,
    test_a_mask_may_become_another_mask,
    test_a_misspelled_column_stops_its_table_and_no_other,
    test_a_table_that_begins_anew_is_treated_by_its_own_names,
    test_a_table_that_gets_another_name_is_treated_as_before,
    test_a_table_without_a_key_is_treated_row_by_row,
    test_columns_are_dropped_hashed_and_masked_and_null_stays_null,
    test_columns_that_come_and_go_are_treated_and_older_rows_take_the_treated_default,
    test_rows_that_lack_columns_are_made_whole_from_what_was_treated,
    test_rules_that_change_stop_the_table_before_anything_mixes,
    test_the_shadow_of_a_table_that_is_copied_to_be_altered_is_treated_like_the_table,
)
from tests.servers.test_sink_contract import (
    test_a_default_that_only_the_source_knows_stops_the_table,
    test_a_file_that_is_not_what_its_batch_says_is_refused_whole,
    test_a_hole_is_refused_and_leaves_everything_as_it_was,
    test_a_later_topic_takes_over_and_an_older_one_that_comes_late_undoes_nothing,
    test_a_table_of_the_same_name_that_is_not_ours_is_left_alone,
    test_a_table_that_somebody_dropped_is_not_begun_anew_unasked,
    test_a_thousand_files_are_one_load,
    test_an_announcement_makes_the_table_and_an_empty_table_can_become_any_other,
    test_into_however_many_files_changes_are_cut_they_make_the_same_rows,
    test_keys_that_differ_in_case_accents_or_spaces_are_different_rows,
    test_loading_again_changes_nothing,
    test_progress_is_kept_per_pipeline_and_source_and_survives,
    test_rows_older_than_a_column_take_the_default_it_came_with_however_late_they_are,
    test_the_newest_change_of_each_key_counts_and_deleting_nothing_is_fine,
)
from tests.servers.test_sink_policies import (
    test_a_table_gets_soft_deletes_later_and_loses_them_once_no_row_is_marked,
    test_digits_that_a_target_does_not_hold_are_counted_and_let_go,
    test_soft_deletes_keep_the_row_and_say_when_and_a_new_row_revives_it,
    test_soft_deletes_survive_a_change_of_the_table,
    test_truncate_marks_every_row_with_soft_deletes,
)
from tests.servers.test_sink_types import CASES, load, of_types

from penstock.core.announcements import Kind
from penstock.core.errors import TableStoppedError
from penstock.core.tables import DecimalType, FloatType
from penstock.links.warehouse.sink import LoadRules

if TYPE_CHECKING:
    from tests.servers.delta_case import DeltaPlace
    from tests.servers.sink_case import Place

__all__ = [
    "test_a_change_log_says_where_it_was_emptied_and_adds_up_as_the_page_says",
    "test_a_column_that_gets_another_name_is_treated_as_before",
    "test_a_default_that_only_the_source_knows_stops_the_table",
    "test_a_dropped_table_is_kept_or_dropped_and_said_so_until_it_begins_anew",
    "test_a_file_that_is_not_what_its_batch_says_is_refused_whole",
    "test_a_hashed_key_keeps_its_rows_apart_and_finds_them_again",
    "test_a_hole_is_refused_and_leaves_everything_as_it_was",
    "test_a_key_is_neither_dropped_nor_masked_and_nothing_is_loaded",
    "test_a_later_topic_takes_over_and_an_older_one_that_comes_late_undoes_nothing",
    "test_a_mask_may_become_another_mask",
    "test_a_misspelled_column_stops_its_table_and_no_other",
    "test_a_name_that_another_table_had_is_taken_only_if_that_was_ours",
    "test_a_statement_that_comes_again_takes_no_rows_that_came_behind_it",
    "test_a_table_gets_soft_deletes_later_and_loses_them_once_no_row_is_marked",
    "test_a_table_of_the_same_name_that_is_not_ours_is_left_alone",
    "test_a_table_that_begins_anew_is_treated_by_its_own_names",
    "test_a_table_that_gets_another_name_is_treated_as_before",
    "test_a_table_that_somebody_dropped_is_not_begun_anew_unasked",
    "test_a_table_without_a_key_is_treated_row_by_row",
    "test_a_thousand_files_are_one_load",
    "test_an_announcement_makes_the_table_and_an_empty_table_can_become_any_other",
    "test_columns_are_dropped_hashed_and_masked_and_null_stays_null",
    "test_columns_swap_names_with_all_their_values_once",
    "test_columns_that_come_and_go_are_treated_and_older_rows_take_the_treated_default",
    "test_digits_that_a_target_does_not_hold_are_counted_and_let_go",
    "test_into_however_many_files_changes_are_cut_they_make_the_same_rows",
    "test_keys_that_differ_in_case_accents_or_spaces_are_different_rows",
    "test_loading_again_changes_nothing",
    "test_progress_is_kept_per_pipeline_and_source_and_survives",
    "test_rows_older_than_a_column_take_the_default_it_came_with_however_late_they_are",
    "test_rows_that_lack_columns_are_made_whole_from_what_was_treated",
    "test_rules_that_change_stop_the_table_before_anything_mixes",
    "test_soft_deletes_keep_the_row_and_say_when_and_a_new_row_revives_it",
    "test_soft_deletes_survive_a_change_of_the_table",
    "test_tables_swap_names_with_all_their_rows_once",
    "test_the_newest_change_of_each_key_counts_and_deleting_nothing_is_fine",
    "test_the_shadow_of_a_table_that_is_copied_to_be_altered_is_treated_like_the_table",
    "test_truncate_marks_every_row_with_soft_deletes",
]


_AT_ONCE = {
    "test_digits_that_a_target_does_not_hold_are_counted_and_let_go",
    "test_a_hole_is_refused_and_leaves_everything_as_it_was",
    "test_a_table_of_the_same_name_that_is_not_ours_is_left_alone",
    "test_columns_are_dropped_hashed_and_masked_and_null_stays_null",
    "test_soft_deletes_keep_the_row_and_say_when_and_a_new_row_revives_it",
    "test_the_newest_change_of_each_key_counts_and_deleting_nothing_is_fine",
    "test_values_arrive_as_they_are",
}
"""A statement costs Spark seconds on a table of two rows: the other tests wait for those who ask for them."""


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Place:
    """What the tests of every kind of target are given: here a lake."""
    if request.node.originalname not in _AT_ONCE and "PENSTOCK_TEST_LAKE" not in os.environ:
        pytest.skip("it takes Spark a minute: PENSTOCK_TEST_LAKE=all runs it")
    place: DeltaPlace = request.getfixturevalue("lake_place")
    return place


def test_values_arrive_as_they_are(place: Place) -> None:
    schema = of_types([type_ for type_, _ in CASES])
    longest = max(len(values) for _, values in CASES)
    rows = [[values[n] if n < len(values) else None for _, values in CASES] for n in range(longest)]

    load(place, schema, rows)

    listed = ", ".join(column.name for column in schema.columns[1:])
    found = place.ask(f"SELECT {listed} FROM {TABLE} ORDER BY id")
    for number, (type_, _) in enumerate(CASES):
        expected = [_in_a_lake(row[number]) for row in rows]
        values: list[object] = [row[number] for row in found]
        if type_ == FloatType(32):
            values = [value if value is None else float(np.float32(value)) for value in values]  # type: ignore[arg-type]
        assert values == expected, type_


def _in_a_lake(value: object) -> object:
    """Spans of time are microseconds there."""
    return value // dt.timedelta(microseconds=1) if isinstance(value, dt.timedelta) else value


def test_a_decimal_of_39_digits_stops_its_table(place: Place) -> None:
    with pytest.raises(TableStoppedError, match="delta holds 38 decimal digits"):
        load(place, of_types([DecimalType(39, 0)]), [[Decimal(10**38)]])


def test_misfits_on_both_sides_of_a_new_beginning_are_counted(place: Place) -> None:
    wide = of_types([DecimalType(39, 0)])
    digits = Decimal("9" * 39)
    created = replace(announcement(1, 1), kind=Kind.CREATE, first_order=(2, 0, 0), last_order=(2, 0, 0))
    behind = replace(write_batch(place, wide, 1, 1, [(2, digits, "c")]), first_order=(2, 1, 0), last_order=(2, 1, 0))

    loaded = place.open(rules=LoadRules(overflow="null")).load(
        TABLE, [write_batch(place, wide, 1, 0, [(1, digits, "c")]), created, behind], {1: wide}
    )

    assert loaded.misfits == 2
    assert place.ask("SELECT id FROM shop.orders") == [(2,)]


def test_what_comes_before_a_change_that_cannot_be_followed_is_in(place: Place) -> None:
    sink = place.open()
    sink.load(TABLE, [place.batch(0, [("c", "a", 1)])], SCHEMAS)
    behind = [place.batch(1, [("u", "a", 2)]), announcement(3, 2)]

    for _ in range(2):
        with pytest.raises(TableStoppedError, match="qty went and title came in one step"):
            sink.load(TABLE, behind, SCHEMAS)

    assert rows_in(sink) == [("a", 2)]

"""Delta tables meet the rest of the contract that every kind of target meets: what test_delta_contract leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.servers.test_sink_barriers import (
    test_a_change_log_says_where_it_was_emptied_and_adds_up_as_the_page_says,
    test_a_dropped_table_is_kept_or_dropped_and_said_so_until_it_begins_anew,
    test_a_name_that_another_table_had_is_taken_only_if_that_was_ours,
    test_a_statement_that_comes_again_takes_no_rows_that_came_behind_it,
    test_columns_swap_names_with_all_their_values_once,
    test_tables_swap_names_with_all_their_rows_once,
)
from tests.servers.test_sink_columns import (
    test_a_changed_row_whose_snapshot_is_yet_to_come_waits_for_it_and_an_old_one_does_not,
    test_a_column_that_gets_another_name_is_treated_as_before,
    test_a_column_that_got_another_name_is_hidden_in_a_table_that_begins_anew,
    test_a_column_that_got_another_name_is_hidden_in_shadows_and_in_the_table_that_they_become,
    test_a_column_that_got_another_name_is_hidden_in_what_takes_the_name_of_its_table,
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
    test_a_column_that_goes_as_another_comes_takes_its_values_along,
    test_a_default_that_only_the_source_knows_stops_the_table,
    test_a_file_that_is_not_what_its_batch_says_is_refused_whole,
    test_a_hole_is_refused_and_leaves_everything_as_it_was,
    test_a_later_topic_takes_over_and_an_older_one_that_comes_late_undoes_nothing,
    test_a_schema_change_makes_the_table_and_an_empty_table_can_become_any_other,
    test_a_table_of_the_same_name_that_is_not_ours_is_left_alone,
    test_a_table_that_somebody_dropped_is_not_begun_anew_unasked,
    test_a_target_knows_which_tables_it_has,
    test_a_thousand_files_are_one_load,
    test_files_in_messages_are_loaded_among_those_of_the_store,
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

if TYPE_CHECKING:
    from tests.servers.delta_case import DeltaPlace
    from tests.servers.sink_case import Place

__all__ = [
    "test_a_change_log_says_where_it_was_emptied_and_adds_up_as_the_page_says",
    "test_a_changed_row_whose_snapshot_is_yet_to_come_waits_for_it_and_an_old_one_does_not",
    "test_a_column_that_gets_another_name_is_treated_as_before",
    "test_a_column_that_goes_as_another_comes_takes_its_values_along",
    "test_a_column_that_got_another_name_is_hidden_in_a_table_that_begins_anew",
    "test_a_column_that_got_another_name_is_hidden_in_shadows_and_in_the_table_that_they_become",
    "test_a_column_that_got_another_name_is_hidden_in_what_takes_the_name_of_its_table",
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
    "test_a_schema_change_makes_the_table_and_an_empty_table_can_become_any_other",
    "test_a_statement_that_comes_again_takes_no_rows_that_came_behind_it",
    "test_a_table_gets_soft_deletes_later_and_loses_them_once_no_row_is_marked",
    "test_a_table_of_the_same_name_that_is_not_ours_is_left_alone",
    "test_a_table_that_begins_anew_is_treated_by_its_own_names",
    "test_a_table_that_gets_another_name_is_treated_as_before",
    "test_a_table_that_somebody_dropped_is_not_begun_anew_unasked",
    "test_a_table_without_a_key_is_treated_row_by_row",
    "test_a_target_knows_which_tables_it_has",
    "test_a_thousand_files_are_one_load",
    "test_columns_are_dropped_hashed_and_masked_and_null_stays_null",
    "test_columns_swap_names_with_all_their_values_once",
    "test_columns_that_come_and_go_are_treated_and_older_rows_take_the_treated_default",
    "test_digits_that_a_target_does_not_hold_are_counted_and_let_go",
    "test_files_in_messages_are_loaded_among_those_of_the_store",
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

pytestmark = pytest.mark.nightly


@pytest.fixture
def place(lake_place: DeltaPlace) -> Place:
    """What the tests of every kind of target are given: here a lake."""
    return lake_place

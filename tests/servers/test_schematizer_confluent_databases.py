"""What Confluent's clients see is the same on every kind of database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.servers.kinds import STATE_DATABASES
from tests.unit.schematizer import test_associations as associations
from tests.unit.schematizer import test_confluent_references as references
from tests.unit.schematizer import test_confluent_subjects as subjects
from tests.unit.schematizer import test_confluent_types as types
from tests.unit.schematizer import test_shortcuts as shortcuts
from tests.unit.schematizer import test_turns as turns
from tests.unit.schematizer.served import served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import httpx


@pytest.fixture
def registry(state_url: str) -> Iterator[httpx.Client]:
    """A client of an empty registry."""
    with served(state_url) as client:
        yield client


# On SQLite they are tests of their own.
CASES = (
    subjects.test_a_deleted_version_is_gone_until_it_is_asked_for,
    subjects.test_a_version_that_comes_back_gets_its_id_and_a_new_number,
    subjects.test_deletion_for_ever_comes_after_deletion,
    subjects.test_metadata_and_rules_are_kept_found_and_handed_on,
    subjects.test_imports_keep_ids_and_versions,
    subjects.test_an_import_brings_a_softly_deleted_version_back_and_puts_no_other_in_its_place,
    subjects.test_contexts_keep_subjects_apart_and_may_stand_in_front,
    references.test_references_are_resolved_however_deep_and_returned_as_they_were_meant,
    references.test_what_is_used_is_not_deleted,
    types.test_a_schema_is_answered_in_the_format_that_was_sent_or_asked_for,
    associations.test_a_shared_subject_is_found_by_every_topic_that_has_it,
    associations.test_the_same_again_is_answered_and_anything_else_is_a_change,
    associations.test_a_try_changes_nothing,
    associations.test_a_deletion_leaves_the_subject_unless_it_cascades,
    shortcuts.test_a_version_that_comes_back_is_answered_with_its_new_number,
    shortcuts.test_a_compatible_change_does_not_make_the_shape_before_unknown,
    turns.test_a_crowd_of_a_hundred_is_answered_or_told_when_to_come_again,
)
DAILY = (
    subjects.test_imports_keep_ids_and_versions,
    subjects.test_metadata_and_rules_are_kept_found_and_handed_on,
    references.test_what_is_used_is_not_deleted,
    associations.test_a_deletion_leaves_the_subject_unless_it_cascades,
)


@pytest.mark.parametrize(
    ("state_url", "case"),
    [
        pytest.param(
            database,
            case,
            id=f"{database}-{case.__name__}",
            marks=() if database == "postgres" and case in DAILY else pytest.mark.nightly,
        )
        for database in STATE_DATABASES
        for case in CASES
    ],
    indirect=["state_url"],
)
def test_a_database_makes_no_difference(registry: httpx.Client, case: Callable[[httpx.Client], None]) -> None:
    case(registry)

"""A join that is made again stands still for the last round alone, and that one comes for certain."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.unit.joins.test_kept_job import job_of

from penstock.core.errors import FencedError, PenstockError, UnavailableError, UsageError
from penstock.jobs.link import JoinWork, RebuildWork
from penstock.spark.join_query import OFFSETS_MAX
from penstock.spark.rebuild_query import Round, is_last, next_round

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MANY = 10 * OFFSETS_MAX


def test_the_join_goes_on_until_one_micro_batch_is_left() -> None:
    first = Round(read=0, behind=7)
    later = Round(read=MANY, behind=OFFSETS_MAX + 1)
    last = Round(read=MANY, behind=OFFSETS_MAX)

    assert [is_last(each, None) for each in (first, later, last)] == [False, False, True]


def test_a_join_that_is_never_reached_stands_still_once_a_whole_round_has_gained_nothing() -> None:
    before = Round(read=0, behind=MANY)
    broken_off = Round(read=MANY // 2, behind=MANY)
    nearer = Round(read=MANY, behind=MANY - 1)
    no_nearer = Round(read=MANY, behind=MANY)

    assert [is_last(each, before) for each in (broken_off, nearer, no_nearer)] == [False, False, True]


def work(checkpoint: Path, reaches: Mapping[tuple[str, int], int]) -> RebuildWork:
    return RebuildWork(
        job=job_of(1),
        checkpoint=checkpoint,
        reaches=reaches,
        standing=None,
        going_on=None,
        set_aside=lambda _: None,
        switch=lambda *_: None,
        refuse=lambda _: None,
    )


@pytest.mark.parametrize(
    ("error", "goes_on", "refuses"),
    [
        (UsageError("its rows lack a column", "hint"), True, True),
        (UsageError("its rows lack a column", "hint"), False, False),
        (UnavailableError("away", "hint"), True, False),
        (FencedError("another", "hint"), True, False),
        (ValueError("unforeseen"), True, False),
    ],
)
def test_what_keeps_a_state_from_being_made_ends_nothing_where_the_join_goes_on(
    tmp_path: Path, error: Exception, *, goes_on: bool, refuses: bool
) -> None:
    refused: list[PenstockError] = []
    going_on = JoinWork(job_of(1), tmp_path, {}, 0, lambda _: False, lambda *_: None) if goes_on else None

    found = replace(work(tmp_path, {}), going_on=going_on, refuse=refused.append).without_it(error)

    assert refused == ([error] if refuses else [])
    assert (found is error) is not refuses
    assert isinstance(found, UnavailableError) or not refuses


def test_a_state_has_come_as_far_as_it_must_with_a_micro_batch_that_is_done(tmp_path: Path) -> None:
    reaches = {("a", 0): 7, ("b", 0): 3}
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()

    begun = next_round(work(tmp_path, reaches))
    (tmp_path / "offsets" / "0").write_text('v1\n{}\n{"a": {"0": 9}, "b": {"0": 1}}')
    planned = next_round(work(tmp_path, reaches))
    (tmp_path / "commits" / "0").write_text("v1\n{}")
    behind = next_round(work(tmp_path, reaches))
    (tmp_path / "offsets" / "1").write_text('v1\n{}\n{"a": {"0": 9}, "b": {"0": 3}}')
    (tmp_path / "commits" / "1").write_text("v1\n{}")

    assert begun == planned == Round(read=0, behind=10)
    assert behind == Round(read=10, behind=2)
    assert next_round(work(tmp_path, reaches)) is None

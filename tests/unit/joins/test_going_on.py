"""A join that goes on as it was while it is made again: which errors it stands still for, and which end the link."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.joins.test_kept_job import job_of

from penstock.core.errors import FencedError, PenstockError, SinkError, UnavailableError
from penstock.jobs.link import JoinWork


def _work() -> JoinWork:
    return JoinWork(job_of(1), Path("checkpoint"), {}, -1, lambda _: False, lambda *_: None)


@pytest.mark.parametrize(
    ("error", "gives_up"),
    [
        (SinkError("refused", "mend it"), True),
        (UnavailableError("away", "wait"), False),
        (FencedError("another instance goes on", "stop one"), False),
        (ValueError("a defect"), False),
    ],
)
def test_it_stands_still_for_what_will_not_pass_and_leaves_the_rest_to_others(
    error: Exception, *, gives_up: bool
) -> None:
    told: list[PenstockError] = []

    assert replace(_work(), stand_still=told.append).gives_up(error) is gives_up
    assert told == ([error] if gives_up else [])


def test_a_join_without_a_next_state_never_stands_still() -> None:
    assert not _work().gives_up(SinkError("refused", "mend it"))

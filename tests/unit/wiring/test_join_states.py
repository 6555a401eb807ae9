"""States of joins: which one is that of the record, and who asks for another one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.unit.config.test_joins import PIPELINE

from penstock.config.load import parse
from penstock.core.errors import UnavailableError, UsageError
from penstock.links.joins.record import JoinRecord
from penstock.wiring.join_states import (
    checkpoint_of,
    flush_state,
    forget_other_states,
    has_state,
    is_ahead,
    remove_states,
    states_of,
)
from penstock.wiring.rebuild_marks import (
    RebuildMark,
    StandingStill,
    ask_for_rebuild,
    read_mark,
    take_back_rebuild,
    write_mark,
)
from penstock.wiring.step_waits import waits_for_step

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.config.specs import PipelineSpec

STEP, LAST = "owners_step1", "owners"
JOIN = """\
join:
  - {topic: shop.user_review, join_keys: [biz_id]}
  - {topic: shop.business, join_keys: [business_id], aliases: [{from: business_id, to: biz_id}]}
  - {topic: shop.owner, join_keys: [id], left_keys: [owner_id], aliases: [{from: id, to: owner_id}]}
output: {namespace: example, source: owners, pkey: [review_id]}
"""


@pytest.fixture
def spec(tmp_path: Path) -> PipelineSpec:
    (tmp_path / "business_review.yaml").write_text(JOIN)
    return parse(PIPELINE + f"home: {tmp_path / 'home'}\n", "shop.yaml", tmp_path)


def is_asked_for(spec: PipelineSpec) -> list[bool]:
    """Whether the step, and what reads it, are to be made again."""
    return [(states_of(spec, name) / "rebuild.json").is_file() for name in (STEP, LAST)]


def test_a_state_that_ends_elsewhere_is_not_that_of_the_record(spec: PipelineSpec) -> None:
    record = JoinRecord(1, 2, 41, "digest", (), {("reviews", 0): 70, ("shops", 1): 5})
    offsets = checkpoint_of(spec, LAST, 2) / "offsets"
    offsets.mkdir(parents=True)

    assert not has_state(spec, LAST, record)
    (offsets / "41").write_text("v1\n{}\n" + json.dumps({"reviews": {"0": 70}, "shops": {"1": 5}}))
    assert has_state(spec, LAST, record)
    (offsets / "41").write_text("v1\n{}\n" + json.dumps({"reviews": {"0": 70}, "shops": {"1": 6}}))
    assert not has_state(spec, LAST, record)
    # What a machine that went down has left.
    (offsets / "41").write_text("")
    assert not has_state(spec, LAST, record)


@pytest.mark.parametrize(
    ("begun", "done", "ahead"),
    [
        ([40, 41], [40], False),
        ([41, 42], [40, 41], False),
        ([41, 42], [41, 42], True),
        ([42, 43], [41], True),
        ([], [], False),
    ],
    ids=["published", "the next one begun", "one more done", "two more begun", "lost"],
)
def test_a_state_that_went_on_behind_its_record_is_ahead(
    spec: PipelineSpec, begun: list[int], done: list[int], *, ahead: bool
) -> None:
    for folder, batches in (("offsets", begun), ("commits", done)):
        (checkpoint_of(spec, LAST, 2) / folder).mkdir(parents=True)
        for batch in batches:
            (checkpoint_of(spec, LAST, 2) / folder / str(batch)).write_text("v1")

    assert is_ahead(spec, LAST, JoinRecord(1, 2, 41, "digest", ())) is ahead


def test_a_state_that_cannot_be_brought_to_its_disk_says_so(spec: PipelineSpec) -> None:
    checkpoint = checkpoint_of(spec, LAST, 2)
    with pytest.raises(UnavailableError, match="cannot be brought to its disk: No such file"):
        flush_state(checkpoint)

    checkpoint.mkdir(parents=True)
    flush_state(checkpoint)


def test_only_the_state_of_the_record_stays(spec: PipelineSpec) -> None:
    for generation in (1, 2, 3):
        checkpoint_of(spec, LAST, generation).mkdir(parents=True)
        (states_of(spec, LAST) / "differences" / str(generation)).mkdir(parents=True)

    forget_other_states(spec, LAST, 2)

    assert sorted(each.name for each in states_of(spec, LAST).iterdir()) == ["2", "differences"]
    assert [each.name for each in (states_of(spec, LAST) / "differences").iterdir()] == ["2"]


def test_a_rebuild_that_is_asked_for_halfway_is_of_the_last_step(spec: PipelineSpec) -> None:
    states_of(spec, STEP).parent.mkdir(parents=True)
    states_of(spec, STEP).write_text("in the way")

    with pytest.raises(FileExistsError):
        ask_for_rebuild(spec, STEP)

    assert is_asked_for(spec) == [False, True]


def test_a_mark_is_read_as_it_was_written(spec: PipelineSpec) -> None:
    mark = RebuildMark(
        4, "digest", {"reviews": 7}, {("tags", 1): 9}, StandingStill(3, "its state is lost"), {("t", 0): 2}
    )

    write_mark(spec, LAST, mark)

    assert read_mark(spec, LAST) == mark


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ('{"replaces": 4, "digest": "digest", "schema_ids": {"reviews": 7}}', RebuildMark(4, "digest", {"reviews": 7})),
        ("{}", RebuildMark()),
        ("", RebuildMark()),
        ("[]", RebuildMark()),
    ],
    ids=["of an older release", "just asked for", "what a machine that went down has left", "something else"],
)
def test_a_mark_without_what_was_begun_has_it_begun_anew(spec: PipelineSpec, text: str, mark: RebuildMark) -> None:
    ask_for_rebuild(spec, LAST)
    (states_of(spec, LAST) / "rebuild.json").write_text(text)

    assert read_mark(spec, LAST) == mark


def test_a_join_waits_for_a_step_until_its_state_has_come_to_where_its_inputs_ended(spec: PipelineSpec) -> None:
    ends, elsewhere = {("reviews", 0): 70, ("shops", 1): 5}, {("owners", 0): 9}
    ask_for_rebuild(spec, LAST)
    waits = [waits_for_step(spec, LAST)]

    write_mark(spec, LAST, RebuildMark(step_ends={**ends, **elsewhere}))
    waits.append(waits_for_step(spec, LAST))
    for batch, places in enumerate(
        [{"reviews": {"0": 70}, "shops": {"1": 4}}, {"reviews": {"0": 71}, "shops": {"1": 5}}]
    ):
        for folder, text in (("offsets", "v1\n{}\n" + json.dumps(places)), ("commits", "v1")):
            file = checkpoint_of(spec, STEP, 1) / folder / str(batch)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        waits.append(waits_for_step(spec, LAST))
    ask_for_rebuild(spec, STEP)
    waits.append(waits_for_step(spec, LAST))

    assert waits == [False, True, True, False, True]


def test_a_step_is_not_taken_back_without_the_one_that_it_reads(spec: PipelineSpec) -> None:
    ask_for_rebuild(spec, STEP)

    with pytest.raises(UsageError, match=f"{LAST} reads {STEP}, which is made again"):
        take_back_rebuild(spec, LAST)

    assert is_asked_for(spec) == [True, True]
    take_back_rebuild(spec, STEP)
    assert is_asked_for(spec) == [False, False]


def test_states_that_are_removed_leave_nothing(spec: PipelineSpec) -> None:
    for name in (STEP, LAST):
        (checkpoint_of(spec, name, 1) / "offsets").mkdir(parents=True)
    # What was left when this was done before.
    (spec.home / "joins" / f".{STEP}.removed" / "1").mkdir(parents=True)

    remove_states(spec, STEP)
    remove_states(spec, STEP)

    assert list((spec.home / "joins").iterdir()) == []


def test_what_cannot_be_removed_is_told_and_is_no_state_any_more(spec: PipelineSpec) -> None:
    (checkpoint_of(spec, STEP, 1) / "offsets").mkdir(parents=True)
    # Of other users' folders root can remove all, and of this nobody can.
    states_of(spec, LAST).write_text("no folder")

    with pytest.raises(UnavailableError, match=r"owners.removed, which is no state .* cannot be removed: ") as told:
        remove_states(spec, STEP)

    assert told.value.hint.startswith("let the user who runs Penstock write there")
    assert not states_of(spec, LAST).exists()
    assert states_of(spec, STEP).is_dir()

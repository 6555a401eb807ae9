"""The join's topic, folded by the fault suite: each change fits the one before it; a new generation begins empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.faults.joined import JoinedOutput, await_micro_batch, lose_states

if TYPE_CHECKING:
    from pathlib import Path


def change(op: str, before: int | None, after: int | None, *, id_: int = 1, generation: int = 1) -> dict[str, object]:
    def row(version: int | None) -> object:
        return None if version is None else {"id": id_, "version": version, "note": "n", "last_version": None}

    return {"op": op, "before": row(before), "after": row(after), "source": {"file": f"join.{generation:06}"}}


def folded(*changes: dict[str, object], follows: int = 0) -> tuple[JoinedOutput, list[str]]:
    """The output after changes, whose second generation follows so many others; and what is wrong with them."""
    output = JoinedOutput()
    for each in changes:
        output.take(each)
    output.take_record({"generation": 1, "follows": 0})
    output.take_record({"generation": 2, "follows": follows})
    return output, output.fold()


def test_changes_that_fit_leave_the_newest_row_of_each_key() -> None:
    output, wrong = folded(
        change("c", None, 0), change("u", 0, 1), change("c", None, 5, id_=2), change("d", 5, None, id_=2)
    )

    assert wrong == []
    assert output.rows() == {(1, 1, "n", None)}


@pytest.mark.parametrize(
    "wrong",
    [change("c", None, 0), change("u", 1, 2), change("d", 1, None), change("c", None, 0, id_=1, generation=0)],
    ids=["came again", "other before", "deleted other", "older generation"],
)
def test_a_change_that_does_not_fit_is_named(wrong: dict[str, object]) -> None:
    _, (said,) = folded(change("c", None, 0), wrong)

    assert "came behind" in said


def test_a_state_that_was_lost_begins_with_no_rows() -> None:
    output, wrong = folded(change("c", None, 0), change("c", None, 0, id_=2), change("c", None, 7, generation=2))

    assert wrong == []
    assert output.rows() == {(1, 7, "n", None)}


def test_a_state_that_takes_over_stands_on_the_rows_of_the_one_before() -> None:
    first = [change("c", None, 0), change("c", None, 0, id_=2), change("c", None, 0, id_=3)]
    switch = [change("r", None, 7, generation=2), change("d", 0, None, id_=2, generation=2)]
    output, wrong = folded(*first, *switch, change("u", 0, 1, id_=3, generation=2), follows=1)
    _, again = folded(*first, *switch, *switch, follows=1)

    assert wrong == []
    assert output.rows() == {(1, 7, "n", None), (3, 1, "n", None)}
    assert len(again) == len(switch)


def test_a_micro_batch_is_waited_for_and_a_state_is_lost_once(tmp_path: Path) -> None:
    state = tmp_path / "joins" / "accounts_joined" / "1"
    for folder, newest in (("offsets", 10), ("commits", 9)):
        (state / folder).mkdir(parents=True)
        for batch in range(newest + 1):
            (state / folder / str(batch)).touch()

    await_micro_batch(tmp_path)

    assert lose_states(tmp_path)
    assert not lose_states(tmp_path)

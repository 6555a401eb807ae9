"""What tasks find out reaches the driver as it is, and in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from penstock.core.errors import UnavailableError
from penstock.spark.link_tasks import outcomes_by_part, send_outcomes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.spark.link_tasks import Piece


@dataclass(frozen=True, slots=True)
class _Telling:
    """A task that yields `outcomes`, and fails afterwards if it is to."""

    outcomes: tuple[object, ...]
    fails: bool = False

    def run(self) -> Iterator[object]:
        yield from self.outcomes
        if self.fails:
            message = "the source is away"
            raise UnavailableError(message, "wait")


def test_outcomes_come_by_task_in_the_order_they_were_sent() -> None:
    sent = _run(_Telling(("one", 2)), _Telling(({"three": 3},)))

    # Tasks run side by side; what one of them sends stays in order.
    mixed = [sent[2], *sent[:2]]

    assert [list(outcomes) for outcomes in outcomes_by_part(mixed)] == [["one", 2], [{"three": 3}]]


def test_a_large_outcome_comes_in_pieces_of_4_mib_and_is_whole_again_on_the_driver() -> None:
    large = bytes(range(256)) * (9 << 12)

    sent = _run(_Telling(("small", large)), _Telling((large, "last")))

    assert max(len(body) for _, _, body in sent) == 4 << 20
    assert len(sent) == 2 * (1 + 3)
    assert [list(outcomes) for outcomes in outcomes_by_part(sent)] == [["small", large], [large, "last"]]


def test_a_tasks_error_is_raised_in_its_place() -> None:
    (outcomes,) = outcomes_by_part(_run(_Telling(("before",), fails=True)))

    assert next(outcomes) == "before"
    with pytest.raises(UnavailableError, match="the source is away"):
        next(outcomes)


def test_a_task_that_sends_nothing_is_none_of_those_that_did() -> None:
    assert [list(outcomes) for outcomes in outcomes_by_part(_run(_Telling(()), _Telling(("some",))))] == [["some"]]


def _run(*tasks: _Telling) -> list[Piece]:
    return [piece for part, task in enumerate(tasks) for piece in send_outcomes(part, [task])]

"""How large a state will be is told from a sample, whatever changes are in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.joins.joined_notes import SAID, WHOLE, Joined

from penstock.core.changes import Op
from penstock.links.joins.estimate import estimate_state

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from penstock.links.joins.estimate import InputEstimate, Place

NOTES = ("db.shop.t0", 0)


def notes_of(joined: Joined, messages: Sequence[pa.BinaryArray]) -> InputEstimate:
    """What is told of a topic of notes that has these messages."""

    def scan(
        ranges: Mapping[Place, tuple[int, int]],
    ) -> Iterator[tuple[Place, int, bytes | None, bytes | None]]:
        for place, (begin, end) in ranges.items():
            yield from ((place, offset, None, messages[offset][0].as_py()) for offset in range(begin, end))

    ends = {NOTES: len(messages)}
    return estimate_state(joined.job, scan, {NOTES: 0}, ends, joined.schemas.__getitem__)[0]


def test_deletes_that_say_their_key_alone_have_no_size() -> None:
    joined = Joined()
    whole = joined.message(0, Op.READ, WHOLE)
    said = joined.message(0, Op.UPDATE, SAID, ("text",))
    deleted = joined.message(0, Op.DELETE, {"id": 1}, ("shop", "state", "text"))

    alone, found = notes_of(joined, [whole]), notes_of(joined, [whole, said, whole, deleted])

    assert found.row_bytes == pytest.approx(alone.row_bytes)
    assert (found.messages, found.sampled, found.rows) == (4, 4, 1)

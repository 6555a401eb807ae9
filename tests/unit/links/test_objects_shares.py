"""Ranges are shared out among tasks in pieces, and what came of the pieces is joined again."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.batches import Batch
from penstock.core.tables import TableId
from penstock.links.objects.plan import ObjectsPlan, TopicRange
from penstock.links.objects.publish import BatchPublisher
from penstock.links.objects.record import ObjectsRecord
from penstock.links.objects.shares import UNKNOWN_BYTES, join, read_in_parts, share_out
from penstock.links.objects.write import PARTS_BYTES_FACTOR, RangeWritten

if TYPE_CHECKING:
    from tests.unit.links.conftest import MemoryPublisher

NOTHING = ObjectsPlan(0, (), ())
MEBIBYTE = 1 << 20


def planned(topic: str, start: int, end: int, batched: int | None = None) -> TopicRange:
    """A range whose messages lie behind place 7 in the log."""
    begin = start if batched is None else batched
    return TopicRange("db", "s.t", topic, 0, begin, start, end, (), after=(1, 7, 0))


def written(piece: TopicRange, first: int, *, read_to: int | None = None, rows: bool = True) -> RangeWritten:
    """A piece in one file, whose changes are from `first` on in the log, one after the other."""
    end = piece.end if read_to is None else read_to
    fields = ("db", TableId("s", "t"), piece.topic, 0, piece.batch_start, end, end - piece.start, "path", 1, "parquet")
    batch = Batch(*fields, 1, (1, first, 0), (1, first + end - piece.start - 1, 0), 7)
    return RangeWritten(piece, end, (batch,), 100) if rows else RangeWritten(piece, end, ())


AHEAD, BEHIND = planned("t", 0, 4), replace(planned("t", 4, 8), after=None)


@given(
    st.lists(st.integers(1, 100_000), min_size=1, max_size=30),
    st.integers(1, 8),
    st.integers(1, 50_000),
    st.integers(0, 40),
)
def test_sharing_out_goes_on_without_a_hole_and_makes_no_idle_task(
    sizes: list[int], tasks: int, per_task: int, message_bytes: int
) -> None:
    ranges = {f"t{n}": planned(f"t{n}", 5, 5 + size, 3) for n, size in enumerate(sizes)}

    shares = share_out(list(ranges.values()), tasks, per_task, MEBIBYTE, dict.fromkeys(ranges, message_bytes))

    assert 1 <= len(shares) <= tasks
    assert all(shares)
    by_topic: dict[str, list[TopicRange]] = defaultdict(list)
    for share in shares:
        assert len({r.topic for r in share}) == len(share)
        for piece in share:
            by_topic[piece.topic].append(piece)
    assert by_topic.keys() == ranges.keys()
    for topic, pieces in by_topic.items():
        pieces.sort(key=lambda piece: piece.start)
        first, last = pieces[0], pieces[-1]
        assert replace(first, end=ranges[topic].end, is_whole=True) == ranges[topic]
        assert all(piece.start < piece.end for piece in pieces)
        assert all((ahead.end, None) == (piece.start, piece.after) for ahead, piece in pairwise(pieces))
        assert all(piece.batch_start == piece.start for piece in pieces[1:])
        assert not any(piece.is_whole for piece in pieces[:-1])
        assert last.is_whole == (last.end == ranges[topic].end)
        assert len(pieces) == 1 or all((r.end - r.start) * message_bytes <= MEBIBYTE for r in pieces)


def test_one_large_range_is_cut_for_all_tasks_and_a_small_one_is_not() -> None:
    large, small = planned("t", 0, 250_000), planned("t", 0, 60_000)

    assert [len(share) for share in share_out([large], 2, 40_000, 64 * MEBIBYTE, {"t": 200})] == [1, 1]
    assert share_out([small], 2, 40_000, 64 * MEBIBYTE, {"t": 200}) == [(small,)]
    assert share_out([large], 2, 40_000, 64 * MEBIBYTE, {}) == [(large,)], "how large its messages are is not known"


@given(st.lists(st.tuples(st.integers(1, 100_000), st.none() | st.integers(1, 40_000)), max_size=30))
def test_a_task_holds_no_more_at_once_than_a_few_files_of_the_largest_size(
    topics: list[tuple[int, int | None]],
) -> None:
    share = [planned(f"t{n}", 5, 5 + count) for n, (count, _) in enumerate(topics)]
    known = {f"t{n}": size for n, (_, size) in enumerate(topics) if size is not None}

    parts = read_in_parts(share, MEBIBYTE, known)

    assert [each for part in parts for each in part] == share
    held = [
        [min(MEBIBYTE, (each.end - each.start) * known.get(each.topic, UNKNOWN_BYTES)) for each in part]
        for part in parts
    ]
    assert all(sum(sizes) <= PARTS_BYTES_FACTOR * MEBIBYTE for sizes in held)
    for ahead, behind in pairwise(held):
        assert sum(ahead) + behind[0] > PARTS_BYTES_FACTOR * MEBIBYTE, "what fits is read together"


def test_what_tasks_made_of_pieces_is_published_as_one_range(publisher: MemoryPublisher) -> None:
    link = BatchPublisher(publisher, "batches", 1)

    link.publish(NOTHING, [written(BEHIND, 14), written(AHEAD, 10)])

    assert [Batch.from_json(value).start_offset for value in publisher.committed] == [0, 4]
    assert link.record.places == {("t", 0): (8, 8)}
    assert link.record.reached == {("t", 0): (1, 17, 0)}
    assert link.record.message_bytes == {"t": 100}


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([written(AHEAD, 10, read_to=3), written(BEHIND, 14)], id="the first was too large for one go"),
        pytest.param([written(AHEAD, 10, rows=False), written(BEHIND, 14)], id="nothing was committed in the first"),
        pytest.param([written(AHEAD, 10), written(BEHIND, 12)], id="the second lies before the first's end in the log"),
    ],
)
def test_a_piece_that_does_not_go_on_from_the_one_ahead_is_left_for_the_next_time(
    publisher: MemoryPublisher, parts: list[RangeWritten]
) -> None:
    (joined,) = join(parts)

    assert (joined.range.start, joined.range.end, joined.batches) == (0, 4, parts[0].batches)
    link = BatchPublisher(publisher, "batches", 1)
    link.publish(NOTHING, parts)
    assert link.record.places == {
        ("t", 0): (parts[0].batches[-1].end_offset if parts[0].batches else 0, joined.read_to)
    }


def test_a_last_piece_without_messages_moves_the_place_on(publisher: MemoryPublisher) -> None:
    link = BatchPublisher(publisher, "batches", 1)

    link.publish(NOTHING, [written(AHEAD, 10), written(BEHIND, 14, rows=False)])

    assert ObjectsRecord.from_mapping(publisher.records[-1]).places == {("t", 0): (4, 8)}
    assert link.record.message_bytes == {"t": 100}

"""Events of a micro-batch are packed so many bytes at a time, however many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.unit.joins.joined_notes import SAID, WHOLE, Joined

from penstock.core.changes import Op
from penstock.core.joins.blocks import in_pieces, pack_events, unpack_events
from penstock.core.joins.events import TRUNCATE, truncate_event
from penstock.core.joins.unreadable import BUCKET, split_blocks
from penstock.jobs.join_tasks import CompletedPacker

if TYPE_CHECKING:
    from collections.abc import Iterable

BOUND = 200


def completed(joined: Joined, blocks: Iterable[tuple[int, bytes]], piece_bytes: int) -> list[tuple[int, bytes]]:
    """What the rows that the kernel has made whole are packed as."""
    buckets, told = zip(*blocks, strict=True)
    batch = pa.RecordBatch.from_pydict({"bucket": pa.array(buckets, pa.int32()), "block": pa.array(told, pa.binary())})
    found = CompletedPacker(joined.job, piece_bytes)([batch])
    return [(row["bucket"], row["block"]) for each in found for row in each.to_pylist()]


@pytest.mark.parametrize("bytes_max", [1, BOUND, 1 << 20])
def test_pieces_have_all_events_in_their_order_and_are_no_larger(bytes_max: int) -> None:
    joined = Joined()
    events = [joined.decoded(0, Op.READ, {**WHOLE, "id": number}, ())[0] for number in range(9)]
    batches = [pa.Table.from_batches(events[:6]).combine_chunks().to_batches()[0], *events[6:]]

    pieces = list(in_pieces(iter(batches), bytes_max))

    assert pa.Table.from_batches([each for piece in pieces for each in piece]).equals(pa.Table.from_batches(events))
    assert all(sum(each.nbytes for each in piece) <= bytes_max or len(piece) == 1 for piece in pieces)
    assert max(each.num_rows for piece in pieces for each in piece) <= max(1, bytes_max // 50)
    assert len(pieces) == {1: 9, 1 << 20: 1}.get(bytes_max, len(pieces))


def test_blocks_of_small_pieces_are_joined_as_those_of_a_large_one() -> None:
    joined = Joined()
    events = [joined.decoded(0, Op.READ, {**WHOLE, "id": number, "text": 99 * "x"}, ())[0] for number in range(9)]
    events += [truncate_event(0, 3, (1, 1, 0)), *joined.decoded(0, Op.UPDATE, SAID, ("text",))]
    blocks = [*pack_events(events, "row_key"), (BUCKET, b"beside")]

    one, many = (completed(joined, blocks, bytes_max) for bytes_max in (1 << 20, BOUND))

    assert len(many) > len(one)
    rows = [sorted(rows_of(each)) for each in (one, many)]
    assert rows[0] == rows[1]
    assert len([row for row in rows[0] if row[1] != TRUNCATE]) == 9
    beside = [[block for bucket, block in each if bucket == BUCKET] for each in (one, many)]
    assert all(b"beside" in each for each in beside)
    letters = [split_blocks([block for block in each if block != b"beside"])[1] for each in beside]
    assert letters[0] == letters[1]
    assert [letter.lacks for letter in letters[0]] == [True]


def rows_of(blocks: list[tuple[int, bytes]]) -> set[tuple[object, ...]]:
    """The events of blocks, each with its bucket."""
    return {
        (bucket, row["op"], row["position"], row["join_key"], row["row_key"], row["row"])
        for bucket, block in blocks
        if bucket != BUCKET
        for events in unpack_events(block)
        for row in events.to_pylist()
    }

"""Sharing ranges of topics out among tasks, large ones in pieces, and joining what came of the pieces.

The pieces of a range are read side by side, and each is as good as a range of its
own but for two things: what its messages must not lie before is known to the task of
the piece ahead of it alone, and where that one ended is not known to it. So `join`
keeps a piece only where it goes on from the one ahead. What it leaves out has no
batch message; it is written again, from where the kept part ends.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from penstock.links.objects.write import PARTS_BYTES_FACTOR, RangeWritten

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.links.objects.plan import TopicRange

_FILLED = 0.9
"""How much of what a task may read at once a piece is planned to have: messages are not all of one size."""


UNKNOWN_BYTES = 16 << 10
"""What a message of a topic is taken to have of which nothing was read yet."""


def share_out(
    ranges: Sequence[TopicRange],
    tasks_max: int,
    offsets_per_task: int,
    bytes_max: int,
    message_bytes: Mapping[str, int],
) -> list[tuple[TopicRange, ...]]:
    """Share ranges out among at most `tasks_max` tasks, largest first, none of them with two pieces of one range.

    Worth a task are `offsets_per_task`, and a range that is larger than a fair share
    of all is cut in pieces, of no more than `bytes_max` bytes each by the average size
    of a topic's messages in `message_bytes`; without one it stays whole.
    """
    total = sum(_size(r) for r in ranges)
    count = max(1, min(tasks_max, total // offsets_per_task))
    fair = -(-total // count)
    pieces = [piece for r in ranges for piece in _cut(r, fair, bytes_max, message_bytes.get(r.topic, 0))]
    shares: list[dict[tuple[str, int], TopicRange]] = [{} for _ in range(count)]
    loads = [0] * count
    for piece in sorted(pieces, key=_size, reverse=True):
        free = [number for number, share in enumerate(shares) if _place(piece) not in share]
        least = min(free, key=loads.__getitem__)
        shares[least][_place(piece)] = piece
        loads[least] += _size(piece)
    return [tuple(share.values()) for share in shares if share]


def read_in_parts(
    share: Sequence[TopicRange], bytes_max: int, message_bytes: Mapping[str, int]
) -> tuple[tuple[TopicRange, ...], ...]:
    """Part the ranges of a task into those that are read and held in memory together.

    A part is planned to have `PARTS_BYTES_FACTOR` times `bytes_max`, of which no range
    has more, by the average sizes in `message_bytes`.
    """
    parts: list[list[TopicRange]] = [[]]
    held = 0
    for each in share:
        size = min(bytes_max, _size(each) * message_bytes.get(each.topic, UNKNOWN_BYTES))
        if parts[-1] and held + size > PARTS_BYTES_FACTOR * bytes_max:
            parts.append([])
            held = 0
        parts[-1].append(each)
        held += size
    return tuple(tuple(part) for part in parts if part)


def join(written: Sequence[RangeWritten]) -> list[RangeWritten]:
    """Make one of the pieces of each range, up to the first that does not go on from the one ahead of it."""
    by_place: dict[tuple[str, int], list[RangeWritten]] = defaultdict(list)
    for part in written:
        by_place[_place(part.range)].append(part)
    return [_joined(sorted(pieces, key=lambda piece: piece.range.start)) for pieces in by_place.values()]


def _cut(whole: TopicRange, fair: int, bytes_max: int, message_bytes: int) -> list[TopicRange]:
    """Cut a range in pieces; the last of them ends before the range where all are as large as they may be."""
    size = _size(whole)
    count = -(-size // fair)
    if count == 1 or not message_bytes:
        return [whole]
    step = min(-(-size // count), max(1, int(bytes_max * _FILLED) // message_bytes))
    cut_to = min(whole.end, whole.start + step * count)
    edges = [*range(whole.start, cut_to, step), cut_to]
    pieces = [
        replace(whole, batch_start=low, start=low, end=high, is_whole=whole.is_whole and high == whole.end, after=None)
        for low, high in pairwise(edges)
    ]
    return [replace(pieces[0], batch_start=whole.batch_start, after=whole.after), *pieces[1:]]


def _joined(pieces: Sequence[RangeWritten]) -> RangeWritten:
    kept = [pieces[0]]
    for piece in pieces[1:]:
        if not _goes_on(kept[-1], piece):
            break
        kept.append(piece)
    first, last = kept[0], kept[-1]
    whole = replace(first.range, end=last.range.end, is_whole=last.range.is_whole)
    batches = tuple(batch for piece in kept for batch in piece.batches)
    return RangeWritten(whole, last.read_to, batches, max(piece.message_bytes for piece in kept), last.stopped)


def _goes_on(ahead: RangeWritten, piece: RangeWritten) -> bool:
    """Whether `piece` starts where the one ahead of it was read to, in a file of its own, and not before it in the log.

    If it is before it in the log, then the next try reads both in one go, and says which message it is.
    """
    if ahead.read_to != piece.range.start or not ahead.batches:
        return False
    return not piece.batches or piece.batches[0].first_order >= ahead.batches[-1].last_order


def _size(topic_range: TopicRange) -> int:
    return topic_range.end - topic_range.start


def _place(topic_range: TopicRange) -> tuple[str, int]:
    return topic_range.topic, topic_range.partition

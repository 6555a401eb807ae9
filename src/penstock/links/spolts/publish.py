"""Publishing what a spolt made: its messages, its dead letters and its position, in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.core.changes import Messages
from penstock.core.errors import FencedError, PositionError
from penstock.links.spolts.record import SpoltRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.spolts.raw import Letter
    from penstock.links.spolts.process import RangeProcessed
    from penstock.ports.publisher import Publisher


class SpoltPublisher:
    """A spolt's end: it alone publishes for it."""

    def __init__(self, publisher: Publisher, letters_topic: str, epoch: int) -> None:
        """Take the link over from whoever had it. Raises FencedError if a newer instance has it."""
        self._publisher = publisher
        self._letters_topic = letters_topic
        record = publisher.position()
        self._record = SpoltRecord() if record is None else SpoltRecord.from_mapping(record)
        if self._record.epoch > epoch:
            message = "a newer instance of this pipeline runs the spolt"
            raise FencedError(message, "stop one of the two instances; this one has published nothing since")
        self._epoch = epoch

    @property
    def letters(self) -> int:
        """How many dead letters there are by now."""
        return self._record.letters

    def publish(self, done: Sequence[RangeProcessed]) -> dict[str, tuple[int, int]]:
        """Commit what came of ranges; return topic to (messages read, newest time in Unix ms).

        Within a topic, messages come in the order of the ranges, and of each in its own.
        """
        places, ids = dict(self._record.places), dict(self._record.ids)
        rows: dict[str, tuple[int, int]] = {}
        for part in done:
            place = (part.range.topic, part.range.partition)
            _require_next(part, places.get(place, part.range.start))
            places[place] = part.read_to
            ids[part.range.topic] = part.range.topic_id
            count, newest_ms = rows.get(part.range.topic, (0, 0))
            rows[part.range.topic] = (count + part.count, max(newest_ms, part.newest_ms))
        messages = [each for part in done for each in part.messages]
        letters = [letter for part in done for letter in part.letters]
        told = max([self._record.told, *(part.range.told for part in done)])
        record = SpoltRecord(places, ids, self._epoch, self._record.letters + len(letters), told)
        self._publisher.publish([*messages, *letter_messages(self._letters_topic, letters)], record.to_mapping)
        # The next plan is made from the record as readers see it.
        self._publisher.settle()
        self._record = record
        return rows

    def close(self) -> None:
        """Let go of Kafka."""
        self._publisher.close()


def letter_messages(topic: str, letters: Sequence[Letter]) -> list[Messages]:
    """Dead letters as they are published: the bytes as they were, and headers that say the rest."""
    if not letters:
        return []
    return [
        Messages(
            topic=topic,
            keys=pa.array([letter.message.key for letter in letters], pa.binary()),
            values=pa.array([letter.message.value for letter in letters], pa.binary()),
            order=np.zeros(len(letters), np.int64),
            headers=[letter.headers() for letter in letters],
        )
    ]


def _require_next(part: RangeProcessed, place: int) -> None:
    if part.range.start != place:
        where = f"{part.range.topic}/{part.range.partition}"
        message = f"messages of {where} were processed from {part.range.start} on, not from {place}"
        hint = "this is a mistake in Penstock; nothing was published: restart, and report both numbers"
        raise PositionError(message, hint)

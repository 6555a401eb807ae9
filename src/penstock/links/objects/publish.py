"""Publishing what was written: batch messages and the position behind them, in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.core.batches import Batch
from penstock.core.changes import Messages
from penstock.core.errors import FencedError, PositionError
from penstock.core.publication import count_rows
from penstock.links.objects.record import ObjectsRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.announcements import Announcement
    from penstock.links.objects.write import RangeWritten
    from penstock.ports.publisher import Publisher


class BatchPublisher:
    """The S3 spolt's end: it alone publishes batch messages of a pipeline."""

    def __init__(self, publisher: Publisher, batches_topic: str, epoch: int) -> None:
        """Take the link over from whoever had it. Raises FencedError if a newer instance has it."""
        self._publisher = publisher
        self._batches_topic = batches_topic
        record = publisher.position()
        self._record = ObjectsRecord() if record is None else ObjectsRecord.from_mapping(record)
        if self._record.epoch > epoch:
            message = "a newer instance of this pipeline writes its files"
            raise FencedError(
                message,
                "stop one of the two instances; this one has published nothing since",
            )
        self._epoch = epoch

    def publish(
        self, schemas_offset: int, announcements: Sequence[Announcement], written: Sequence[RangeWritten]
    ) -> dict[str, tuple[int, int]]:
        """Commit the batches of one plan; return table to (rows, newest commit time in Unix ms)."""
        places = dict(self._record.places)
        rows: dict[str, tuple[int, int]] = {}
        batches = [_announcing(a) for a in announcements]
        for part in written:
            key = (part.topic, part.partition)
            batched, _ = places.get(key, (0, 0))
            for batch in part.batches:
                if batch.start_offset != batched:
                    message = (
                        f"a file of {part.topic}/{part.partition} starts at {batch.start_offset}, not at {batched}"
                    )
                    raise PositionError(
                        message,
                        "this is a mistake in Penstock; nothing was published: restart, and report both numbers",
                    )
                batched = batch.end_offset
                rows = count_rows(rows, batch.table, batch.rows, batch.last_timestamp_ms)
            places[key] = (batched, part.read_to)
            batches.extend(part.batches)
        record = ObjectsRecord(schemas_offset, places, self._epoch, rows)
        batches.sort(key=lambda b: (str(b.table), b.first_order, b.partition, b.start_offset))
        self._publisher.publish(_batch_messages(self._batches_topic, batches), record.to_mapping)
        self._record = record
        return rows

    def close(self) -> None:
        """Let go of Kafka."""
        self._publisher.close()


def _announcing(announcement: Announcement) -> Batch:
    """A batch without rows, which creates or alters the table in the target."""
    return Batch(
        source=announcement.source,
        table=announcement.table,
        topic=announcement.topic,
        partition=0,
        start_offset=0,
        end_offset=0,
        rows=0,
        path="",
        bytes=0,
        format="",
        schema_id=announcement.value_schema_id,
        first_order=announcement.order,
        last_order=announcement.order,
        last_timestamp_ms=0,
    )


def _batch_messages(topic: str, batches: Sequence[Batch]) -> list[Messages]:
    if not batches:
        return []
    return [
        Messages(
            topic=topic,
            keys=pa.array([str(b.table).encode() for b in batches], pa.binary()),
            values=pa.array([b.to_json() for b in batches], pa.binary()),
            order=np.arange(len(batches), dtype=np.int64),
        )
    ]

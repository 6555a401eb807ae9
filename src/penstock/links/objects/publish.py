"""Publishing what was written: batch messages and the position behind them, in one transaction."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.core.batches import Batch
from penstock.core.changes import Messages
from penstock.core.errors import FencedError, PositionError
from penstock.core.publication import count_rows
from penstock.links.objects.barriers import pass_on
from penstock.links.objects.record import ObjectsRecord
from penstock.links.objects.shares import join
from penstock.links.objects.stopping import stop_and_resume

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.schema_changes import SchemaChange
    from penstock.links.objects.plan import ObjectsPlan
    from penstock.links.objects.write import RangeWritten
    from penstock.ports.publisher import Publisher


class BatchPublisher:
    """The S3 spolt's end: it alone publishes batch messages of a pipeline."""

    def __init__(self, publisher: Publisher, batches_topic: str, epoch: int) -> None:
        """Take the link over from whoever had it. Raises FencedError if a newer instance has it."""
        self._publisher = publisher
        self._batches_topic = batches_topic
        record = publisher.position()
        self._record = ObjectsRecord.of(record)
        if self._record.epoch > epoch:
            message = "a newer instance of this pipeline writes its files"
            raise FencedError(
                message,
                "stop one of the two instances; this one has published nothing since",
            )
        self._epoch = epoch

    @property
    def record(self) -> ObjectsRecord:
        """What was committed last."""
        return self._record

    def publish(self, plan: ObjectsPlan, written: Sequence[RangeWritten]) -> dict[str, tuple[int, int]]:
        """Commit what of a plan may go on; return table to (rows, newest commit time in Unix ms)."""
        passage = pass_on(plan, join(written))
        batches = [_announcing(schema_change) for _, schema_change in passage.schema_changes]
        places = dict(self._record.places)
        ids, reached = dict(self._record.ids), dict(self._record.reached)
        message_bytes = dict(self._record.message_bytes)
        rows: dict[str, tuple[int, int]] = {}
        for part in passage.written:
            place = (part.range.topic, part.range.partition)
            places[place] = (_follow_on(part, places.get(place, (0, 0))[0]), part.read_to)
            ids[part.range.topic] = part.range.topic_id
            if part.batches:
                message_bytes[part.range.topic] = part.message_bytes
                reached[place] = part.batches[-1].last_order
            batches.extend(part.batches)
            for batch in part.batches:
                rows = count_rows(rows, batch.table, batch.rows, batch.last_timestamp_ms)
        first = min(passage.waiting, default=plan.settled)
        told = {*self._record.passed, *(offset for offset, _ in passage.schema_changes)}
        passed = tuple(sorted(offset for offset in told if offset >= first))
        record = replace(
            self._record,
            schemas_offset=first,
            places=places,
            epoch=self._epoch,
            rows=rows,
            passed=passed,
            ids=ids,
            reached=reached,
            message_bytes=message_bytes,
        )
        record = stop_and_resume(record, passage.written, [told for _, told in passage.schema_changes])
        batches.sort(key=_in_log_order)
        self._commit(batches, record)
        return rows

    def forget_files(self, files_from: int, deleted_to: int) -> None:
        """Commit that files of batches before `files_from` may be deleted, and that those before `deleted_to` are.

        Raises FencedError if a newer instance, which may have more targets, has taken over.
        """
        self._commit(
            [], replace(self._record, epoch=self._epoch, rows={}, files_from=files_from, deleted_to=deleted_to)
        )

    def forget_batches(self, batches_from: int) -> None:
        """Commit that batch messages before `batches_from` may be thrown away. Raises as `forget_files` does."""
        self._commit([], replace(self._record, epoch=self._epoch, rows={}, batches_from=batches_from))

    def _commit(self, batches: Sequence[Batch], record: ObjectsRecord) -> None:
        self._publisher.publish(_batch_messages(self._batches_topic, batches), record.to_mapping)
        self._record = record

    def settle(self) -> None:
        """Return when readers see what was committed; whoever plans from `record` need not wait for it."""
        self._publisher.settle()

    def close(self) -> None:
        """Let go of Kafka."""
        self._publisher.close()


def _in_log_order(batch: Batch) -> tuple[object, ...]:
    """Sort by source, then by place in its log, with what is announced there before the rows behind it."""
    return batch.source, batch.first_order, batch.rows > 0, str(batch.table), batch.partition, batch.start_offset


def _follow_on(part: RangeWritten, batched: int) -> int:
    """Return the end of the part's last batch, having checked that its batches go on from `batched` without a hole."""
    for batch in part.batches:
        if batch.start_offset != batched:
            where = f"{part.range.topic}/{part.range.partition}"
            message = f"a file of {where} starts at {batch.start_offset}, not at {batched}"
            raise PositionError(
                message, "this is a mistake in Penstock; nothing was published: restart, and report both numbers"
            )
        batched = batch.end_offset
    return batched


def _announcing(schema_change: SchemaChange) -> Batch:
    """A batch without rows, which tells the target what became of the table."""
    return Batch(
        source=schema_change.source,
        table=schema_change.table,
        topic=schema_change.topic,
        partition=0,
        start_offset=0,
        end_offset=0,
        rows=0,
        path="",
        size_bytes=0,
        format="",
        schema_id=schema_change.value_schema_id,
        first_order=schema_change.order,
        last_order=schema_change.order,
        last_timestamp_ms=schema_change.timestamp_ms,
        kind=schema_change.kind,
        file=schema_change.file,
        moves=schema_change.moves,
        column_renames=schema_change.column_renames,
        begins_for=schema_change.begins_for,
        ends_for=schema_change.ends_for,
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

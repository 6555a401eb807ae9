"""Deleting files that every target has loaded, some time after they were written.

Only files of tables that a snapshot could bring back: those of others, of which a
target that comes later could have nothing, stay.

Two numbers in the S3 spolt's record tell how far that is (offsets of the batch
topic). `files_from` is moved first, by the publisher that fences every other
instance; then files before it are deleted; then `deleted_to` follows. So a file
is only deleted once nobody may begin before it, and a target that stands before
`files_from`, as a new one does, is told so (`require_files`). After a crash the
deleting is done again, which changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.config.crash_points import CrashPoint
from penstock.core.batches import read_batch
from penstock.core.errors import START_ANEW, PositionError
from penstock.core.warehouse.manifest import manifest_folder, manifest_written_at

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from penstock.core.batches import Batch
    from penstock.links.objects.publish import BatchPublisher
    from penstock.ports.objects import ObjectStore
    from penstock.ports.topics import TopicLog

_BATCHES_AT_ONCE = 1_000
_TURNS_MAX = 2
_TOLD = CrashPoint("retention.told", "the record says that files may be deleted, none of them is")
_DELETED = CrashPoint("retention.deleted", "files are deleted, the record does not say so")


@dataclass(frozen=True, slots=True)
class Kept:
    """What of a link there is: files of batches from `files_from` on, and messages from `batches_from` on."""

    files_from: int = 0
    batches_from: int = 0


ALL_KEPT = Kept()


@dataclass(frozen=True, slots=True)
class Swept:
    """How many files were deleted, and whether there are more to be deleted."""

    files: int
    has_more: bool


class FileRetention:
    """Deletes old files of one pipeline. It works through the publisher that the S3 spolt has open."""

    def __init__(self, pipeline: str, log: TopicLog, batches_topic: str, objects: ObjectStore, keep_ms: int) -> None:
        """Keep a file for `keep_ms` after it was written, and for as long as a target needs it."""
        self._pipeline = pipeline
        self._log = log
        self._topic = batches_topic
        self._objects = objects
        self._keep_ms = keep_ms

    def sweep(
        self, publisher: BatchPublisher, target_offsets: Mapping[str, int], now_ms: int, topics: Collection[str]
    ) -> Swept:
        """Delete what is old of `topics`.

        `target_offsets` is what each link's target says of itself (`Sink.batch_offset`);
        without any link nothing is deleted. Looks at 2,000 batches at most, for nothing
        is written meanwhile; the next sweep goes on. Raises what the store, the log
        and the publisher raise.
        """
        deleted = self._delete_marked(publisher, topics)
        loaded = min(target_offsets.values(), default=0)
        first = publisher.record.files_from
        for _ in range(_TURNS_MAX):
            start = publisher.record.files_from
            until = self._old_up_to(start, min(loaded, start + _BATCHES_AT_ONCE), now_ms)
            if until <= start:
                break
            publisher.forget_files(until, start)
            _TOLD.maybe_crash()
            deleted += self._delete_marked(publisher, topics)
        manifests = self._delete_manifests(now_ms - self._keep_ms)
        looked_at = publisher.record.files_from - first
        return Swept(deleted, looked_at == _TURNS_MAX * _BATCHES_AT_ONCE or manifests == _BATCHES_AT_ONCE)

    def _delete_marked(self, publisher: BatchPublisher, topics: Collection[str]) -> int:
        start, end = publisher.record.deleted_to, publisher.record.files_from
        if start >= end:
            return 0
        keys = [batch.path for _, batch in self._batches(start, end) if batch.is_stored and batch.topic in topics]
        self._objects.delete(keys)
        _DELETED.maybe_crash()
        publisher.forget_files(end, end)
        return len(keys)

    def _old_up_to(self, start: int, end: int, now_ms: int) -> int:
        """Return where the first batch of `[start, end)` is that is not old, else `end`."""
        for offset, batch in self._batches(start, end):
            # A message of an older release does not say when its file was written, nor does a clock that was far
            # ahead, which would keep all files until its time has come: not before its changes.
            said = (batch.written_at_ms, batch.last_timestamp_ms)
            written_at_ms = next((at for at in said if 0 < at <= now_ms + self._keep_ms), 0)
            if batch.path and written_at_ms >= now_ms - self._keep_ms:
                return offset
        return max(start, end)

    def _batches(self, start: int, end: int) -> Iterator[tuple[int, Batch]]:
        if start < end:
            for messages in self._log.read(self._topic, 0, start, end):
                for offset, message in messages:
                    yield offset, read_batch(offset, message)

    def _delete_manifests(self, before_ms: int) -> int:
        keys = self._objects.list(manifest_folder(self._pipeline))
        old = [key for key in keys if manifest_written_at(key) < before_ms][:_BATCHES_AT_ONCE]
        self._objects.delete(old)
        return len(old)


def require_files(link: str, batch_offset: int, files_from: int, *, is_filled: bool) -> None:
    """Raise PositionError if files are gone that a target which stands at `batch_offset` has not loaded.

    `is_filled` says that a new target would be filled by snapshots.
    """
    if batch_offset < files_from:
        message = (
            f"the target of {link} has loaded the batches before offset {batch_offset}; files of batches before "
            f"{files_from} were deleted (objects.keep_hours), as all targets that there were had loaded them"
        )
        fill = (
            "let the link begin with an empty target, which snapshots of the source fill: delete the target's file, "
            "or name another `path` or `database`"
        )
        other = fill if is_filled else START_ANEW
        raise PositionError(message, f"restore a backup of the target from after batch {files_from}; or {other}")

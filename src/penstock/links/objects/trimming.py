"""Throwing away the first messages of the batch topic, which grows for ever otherwise, also where files go.

Nobody needs the messages of files that are deleted, and which tables had begun is in the
schemas topic, too (`wiring/fills.py`). So the topic begins behind the last message of a
deleted file, or before that, with the first message of a table whose files stay.

The S3 spolt's record says first from where on messages are there (`batches_from`), by the
publisher that fences every other instance. Whoever would read the topic from its beginning
reads it from there, whether the messages before that are gone yet or not. A topic that
begins later than the record says was cut short by somebody else: reading it fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.config.crash_points import CrashPoint
from penstock.core.batches import read_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from penstock.links.objects.publish import BatchPublisher
    from penstock.ports.topics import TopicLog

_BATCHES_AT_ONCE = 2_000
_TOLD = CrashPoint("retention.trimming", "the record says that batch messages may be thrown away, none of them is")


class BatchTrimming:
    """Lets the batch topic of one pipeline begin later."""

    def __init__(self, log: TopicLog, batches_topic: str, throw_away: Callable[[int], None]) -> None:
        """Read `batches_topic`; `throw_away` has Kafka throw away its messages before an offset, once more or not."""
        self._log = log
        self._topic = batches_topic
        self._throw_away = throw_away

    def trim(self, publisher: BatchPublisher, loaded: int, topics: Collection[str]) -> bool:
        """Throw away messages of `topics`, whose files are deleted; return whether there are more of them.

        `loaded` is the least offset that a target stands at; the message before it stays, with which links of
        tables that wait begin. A new target stands before `deleted_to`: until it has begun nothing is thrown
        away that the record which it knows says is there.
        Looks at 2,000 messages at most. Raises what the log, the publisher and `throw_away` raise.
        """
        start = publisher.record.batches_from
        end = min(publisher.record.deleted_to, loaded - 1, start + _BATCHES_AT_ONCE)
        first = self._begin(start, end, topics)
        if first > start:
            # The commit has a fingerprint of the topic as it ends now: whoever opens the link counts from there on.
            publisher.settle()
            publisher.forget_batches(first)
            _TOLD.maybe_crash()
        # Also what the record says already: a crash, or brokers that were away, may have left it.
        if first:
            self._throw_away(first)
        return first > start and end == start + _BATCHES_AT_ONCE

    def _begin(self, start: int, end: int, topics: Collection[str]) -> int:
        """Return where the topic begins if what may go of `[start, end)` goes.

        What is announced behind the last file stays, so that nothing goes before the first file does:
        an audit reads from the announcements which tables it has all files of. Where there is nothing else
        in all that is looked at, as behind the snapshot of very many tables, they go.
        """
        first = start
        for messages in self._log.read(self._topic, 0, start, end) if start < end else ():
            for offset, message in messages:
                batch = read_batch(offset, message)
                if batch.topic not in topics:
                    return first
                if batch.rows:
                    first = offset + 1
        return end if first == start and end == start + _BATCHES_AT_ONCE else first

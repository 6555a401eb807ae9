"""Deleting files of large messages (links/large_messages.py) that no topic names any more.

A file is written before the message that names it is published, at most
`_LATE_MS` before: whatever took longer was read anew, with files of its own.
So, where the first message that each partition still has was published later
than that after a file was written, the message that named the file is thrown
away. That holds however the topic is kept; one that is kept for ever keeps its
files. Who reads topics needs no file of a message that the topic does not have.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING
from urllib.parse import unquote

from penstock.links.large_messages import large_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.ports.messages import MessageLog
    from penstock.ports.objects import ObjectStore
    from penstock.ports.topics import TopicLog

_LATE_MS = 7 * 86_400_000
"""Clocks of machines, and a machine that slept, are within it."""
_FILES_AT_ONCE = 1_000


class LargeRetention:
    """Deletes old files of large messages of one pipeline, all of its sources' together."""

    def __init__(self, pipeline: str, messages: MessageLog, log: TopicLog, objects: ObjectStore, keep_ms: int) -> None:
        """Keep a file for `keep_ms` after it was written, and for as long as its topic may name it."""
        self._folder = large_folder(pipeline)
        self._messages = messages
        self._log = log
        self._objects = objects
        self._keep_ms = keep_ms

    def sweep(self, now_ms: int) -> int:
        """Delete what is old, 1,000 files of a topic at most; return how many files were.

        Files of a topic that Kafka does not have are kept: it may come back.
        Raises what the store and the logs raise.
        """
        by_topic: dict[str, dict[str, int]] = defaultdict(dict)
        for key, written_ms in self._objects.written(self._folder).items():
            topic = _topic_of(key)
            if topic and written_ms < now_ms - max(self._keep_ms, _LATE_MS):
                by_topic[topic][key] = written_ms
        return sum(self._sweep_topic(topic, written, now_ms) for topic, written in by_topic.items())

    def _sweep_topic(self, topic: str, written: Mapping[str, int], now_ms: int) -> int:
        begins_ms = self._first_kept_ms(topic, now_ms)
        if begins_ms is None:
            return 0
        unnamed = unnamed_files(written, begins_ms)[:_FILES_AT_ONCE]
        self._objects.delete(unnamed)
        return len(unnamed)

    def _first_kept_ms(self, topic: str, now_ms: int) -> int | None:
        """When the first message that a topic has was published; now for an empty one, None for one that is gone."""
        _, partitions = self._messages.shapes([topic]).get(topic, ("", 0))
        places = [(topic, partition) for partition in range(partitions)]
        ends = self._log.ends(places)
        begins = self._messages.begins(places)
        if not places or not set(places) <= set(ends) & set(begins):
            return None
        kept = self._messages.read_messages({place: (begins[place], ends[place]) for place in places}, 1)
        return min([now_ms, *(each[0].timestamp_ms for each in kept.values() if each)])


def unnamed_files(written: Mapping[str, int], begins_ms: int) -> Sequence[str]:
    """Return the files that no message names of a topic that begins at `begins_ms`, the oldest first.

    `written` is when each file was (Unix ms).
    """
    old = [key for key, written_ms in written.items() if written_ms + _LATE_MS < begins_ms]
    return sorted(old, key=lambda key: (written[key], key))


def _topic_of(key: str) -> str:
    """Return the topic of a large message's file, "" for what is none."""
    folder, _, name = key.rpartition("/")
    return unquote(folder.rpartition("/")[2]) if name.endswith(".avro") else ""

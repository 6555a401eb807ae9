"""Deleting files of large messages (links/large_messages.py) that no topic names any more.

A file is written before the message that names it is published, at most
`_LATE_MS` before: whatever took longer was read anew, with files of its own.
So, where the first message that each partition still has was published later
than that after a file was written, the message that named the file is thrown
away. That holds however the topic is kept; one that is kept for ever keeps its
files. Who reads topics needs no file of a message that the topic does not have.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING
from urllib.parse import unquote

import structlog

from penstock.core.errors import PenstockError
from penstock.links.large_messages import large_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.ports.messages import MessageLog
    from penstock.ports.objects import ObjectStore
    from penstock.ports.topics import TopicLog

_LATE_MS = 7 * 86_400_000
"""Clocks of machines, and a machine that slept, are within it."""
FILES_AT_ONCE = 1_000
TOPICS_AT_ONCE = 20
_FAILURES_MAX = 3
"""Kafka takes half a minute to say that a partition has no leader, and the link waits meanwhile."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class SweptFolders:
    """How many files a turn deleted, and the last folder that it looked at: the next turn goes on behind it."""

    files: int
    through: str


class LargeRetention:
    """Deletes old files of large messages of one pipeline, all of its sources' together."""

    def __init__(self, pipeline: str, messages: MessageLog, log: TopicLog, objects: ObjectStore, keep_ms: int) -> None:
        """Keep a file for `keep_ms` after it was written, and for as long as its topic may name it."""
        self._folder = large_folder(pipeline)
        self._messages = messages
        self._log = log
        self._objects = objects
        self._keep_ms = keep_ms

    def sweep(self, now_ms: int, after: str = "") -> SweptFolders:
        """Delete what is old: of the 20 topics whose folders come behind `after`, 1,000 files each at most.

        Behind the last folder comes the first. Files of a topic that Kafka does not have
        are kept: it may come back. A topic that cannot be looked at is passed over, and
        logged; after three of them the turn ends. Raises what the store raises.
        """
        oldest = _OldestFiles(after)
        old_ms = now_ms - max(self._keep_ms, _LATE_MS)
        for key, written_ms in self._objects.written(self._folder):
            if written_ms < old_ms and key.endswith(".avro"):
                oldest.add(key, written_ms)
        files, through, failed = 0, after, 0
        for folder, written in oldest.by_folder():
            through = folder
            topic = unquote(folder.rpartition("/")[2])
            try:
                files += self._sweep_topic(folder, topic, written, now_ms)
            except PenstockError as error:
                _log.warning("files of large messages wait", topic=topic, error=error.message, hint=error.hint)
                failed += 1
                if failed == _FAILURES_MAX:
                    break
        return SweptFolders(files, through)

    def _sweep_topic(self, folder: str, topic: str, written: Mapping[str, int], now_ms: int) -> int:
        begins_ms = self._first_kept_ms(topic, now_ms)
        unnamed = () if begins_ms is None else unnamed_files(written, begins_ms)
        if not unnamed:
            return 0
        # The same content has the same key: whoever wrote it again since then is about to name it.
        wanted = {key: written[key] for key in unnamed}
        unchanged = [key for key, at_ms in self._objects.written(folder) if wanted.get(key) == at_ms]
        self._objects.delete(unchanged)
        return len(unchanged)

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


class _OldestFiles:
    """The oldest files of the first folders behind one, out of any number that come in any order."""

    def __init__(self, after: str) -> None:
        self._after = after
        self._folders: dict[tuple[bool, str], list[tuple[int, str]]] = {}

    def add(self, key: str, written_ms: int) -> None:
        """Take a file, or leave it."""
        folder = key.rpartition("/")[0]
        place = (folder <= self._after, folder)
        if place not in self._folders:
            self._folders[place] = []
            if len(self._folders) > TOPICS_AT_ONCE:
                del self._folders[max(self._folders)]
        files = self._folders.get(place)
        if files is not None:
            # The newest is on top.
            heappush(files, (-written_ms, key))
            if len(files) > FILES_AT_ONCE:
                heappop(files)

    def by_folder(self) -> Sequence[tuple[str, Mapping[str, int]]]:
        """Each folder, in their order, and when its files were written."""
        found = sorted(self._folders.items())
        return [(folder, {key: -newest for newest, key in files}) for (_, folder), files in found]

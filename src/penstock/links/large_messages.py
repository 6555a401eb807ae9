"""Messages that are larger than their topic takes: kept in the object store, and read from there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.errors import START_ANEW, CorruptLogError, PositionError, SinkError, UnreadableMessageError
from penstock.core.files import key_folder
from penstock.core.large_messages import ONLY_PENSTOCK, any_large, is_large, place_in, read_large
from penstock.ports.topics import Fetched

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from penstock.core.large_messages import LargeMessage
    from penstock.ports.objects import ObjectStore
    from penstock.ports.topics import TopicLog

LARGEST_OBJECT_BYTES = 1 << 30
"""A larger message would not fit into what it is decoded with."""
_FOLDER = "large-messages"


def large_folder(pipeline: str, source: str = "") -> str:
    """Return where the large messages of a source are kept, or those of all sources."""
    folder = f"{key_folder(pipeline)}/{_FOLDER}"
    return f"{folder}/{key_folder(source)}" if source else folder


@dataclass(frozen=True, slots=True)
class LargeMessages:
    """Keeps the large messages of one source. The store is opened when the first one comes."""

    pipeline: str
    source: str
    open_store: Callable[[], ObjectStore]

    def keep(self, topic: str, content: bytes) -> bytes:
        """Write a message to the store; return what its topic gets in its place. Raises what the store raises."""
        place = place_in(f"{large_folder(self.pipeline, self.source)}/{key_folder(topic)}", content)
        self.open_store().put(place.key, content)
        return place.to_value()


class WholeLog:
    """`log`, with large messages as they are. It implements the port `TopicLog`."""

    def __init__(self, pipeline: str, log: TopicLog, store: ObjectStore) -> None:
        """Read what is in topics from `log`, the rest from what `pipeline` keeps in `store`."""
        self._folder = large_folder(pipeline)
        self._log = log
        self._store = store

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Sequence[tuple[int, bytes]]]:
        """See `TopicLog`; nobody reads topics of tables with it."""
        return self._log.read(topic, partition, start, end)

    def read_together(
        self, ranges: Mapping[tuple[str, int], tuple[int, int]], bytes_max: int
    ) -> Iterator[tuple[tuple[str, int], Fetched]]:
        """See `TopicLog`: what large messages have counts, so that one range holds one of them too much at most.

        What nobody of ours can have written ends a range (Fetched.unreadable). Raises SinkError
        for one that the store does not have, and UnavailableError while the store is away.
        """
        room = dict.fromkeys(ranges, bytes_max)
        for place, fetched in self._log.read_together(ranges, bytes_max):
            taken = self._whole(place, fetched, room[place]) if any_large(fetched.values) else fetched
            if room[place] > 0 and (taken.offsets or taken.unreadable is not None):
                room[place] = 0 if taken.unreadable is not None else room[place] - taken.size_bytes
                yield place, taken

    def ends(self, partitions: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        """See `TopicLog`."""
        return self._log.ends(partitions)

    def settled_ends(self, partitions: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        """See `TopicLog`."""
        return self._log.settled_ends(partitions)

    def ids(self, topics: Collection[str]) -> Mapping[str, str]:
        """See `TopicLog`."""
        return self._log.ids(topics)

    def close(self) -> None:
        """See `TopicLog`."""
        self._log.close()

    def _whole(self, place: tuple[str, int], fetched: Fetched, room: int) -> Fetched:
        """Return the first messages of a partition, as long as there is room."""
        offsets: list[int] = []
        values: list[bytes] = []
        size = 0
        for offset, value in zip(fetched.offsets, fetched.values, strict=True):
            if size >= room:
                break
            try:
                values.append(self._get((*place, offset), value) if is_large(value) else value)
            except CorruptLogError as error:
                return Fetched(offsets, values, size, UnreadableMessageError(place, offset, error.message, error.hint))
            offsets.append(offset)
            size += len(values[-1])
        return Fetched(offsets, values, size, fetched.unreadable if len(offsets) == len(fetched.offsets) else None)

    def _is_of(self, topic: str, large: LargeMessage) -> bool:
        """Whether a message is where those of `topic` are kept, whichever source writes it."""
        end = f"/{key_folder(topic)}/{large.sha256}.avro"
        is_there = large.key.startswith(f"{self._folder}/") and large.key.endswith(end)
        return is_there and large.key.count("/") == self._folder.count("/") + 3

    def _get(self, place: tuple[str, int, int], value: bytes) -> bytes:
        where = f"{place[0]}/{place[1]} offset {place[2]}"
        try:
            large = read_large(value)
        except CorruptLogError as error:
            message = f"{where}: {error.message}"
            raise CorruptLogError(message, error.hint) from error
        # Nothing else in the store is read because a message says so.
        if large.size_bytes > LARGEST_OBJECT_BYTES or not self._is_of(place[0], large):
            message = (
                f"the message of {where} is said to be {large.key[:200]} in the object store: Penstock did not write it"
            )
            raise CorruptLogError(message, ONLY_PENSTOCK)
        try:
            content = self._store.get(large.key)
        except SinkError as error:
            message = f"the message of {where} is in the object store, and cannot be read there: {error.message}"
            raise SinkError(message, error.hint) from error
        if not large.is_content(content):
            message = f"{large.key} in the object store is not the message of {where} that was written there"
            raise PositionError(message, f"restore that file; if it cannot be had any more, {START_ANEW}")
        return content

"""Messages as the records of each partition of their topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.core.changes import Messages
from penstock.core.kafka.records import encode_columns, encode_listed
from penstock.core.partitions import partitions_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from penstock.core.kafka.records import Records

_LISTED_MAX: Final = 64
"""So many are encoded sooner one by one than by column."""


class EncodedMessages(Messages):
    """Messages that are records already, for a topic of so many partitions: what waits is then only to be sent."""

    __slots__ = ("partitions", "records")

    def __init__(self, messages: Messages, partitions: int) -> None:
        """Encode `messages`."""
        super().__init__(
            messages.topic, messages.keys, messages.values, messages.order, messages.partition_hints, messages.headers
        )
        self.partitions = partitions
        self.records = tuple(_encode_shares(messages, partitions))

    @property
    def size_bytes(self) -> int:
        """How many bytes keys, values and records are, about."""
        return super().size_bytes + sum(len(records.content) for _, records in self.records)


def shares(messages: Messages, partitions: int) -> Iterator[tuple[int, Records]]:
    """Yield the records of `messages` with the partition that they go to, those of a partition in their order.

    A message with a key goes where Kafka's own clients send it, one without by its
    partition hint, or, where there are none, to one partition after the other.
    """
    if isinstance(messages, EncodedMessages) and messages.partitions == partitions:
        return iter(messages.records)
    return _encode_shares(messages, partitions)


def _encode_shares(messages: Messages, partitions: int) -> Iterator[tuple[int, Records]]:
    if partitions == 1:
        for records in _encode(messages, None):
            yield 0, records
        return
    found = _partitions(messages, partitions)
    for partition in np.unique(found).tolist():
        for records in _encode(messages, np.flatnonzero(found == partition)):
            yield partition, records


def _partitions(messages: Messages, count: int) -> npt.NDArray[np.int64]:
    keys = messages.keys
    found = partitions_of(keys, count)
    if keys.null_count:
        partition_hints = np.arange(len(keys)) if messages.partition_hints is None else messages.partition_hints
        found = np.where(np.asarray(keys.is_null()), partition_hints % count, found)
    return found


def _encode(messages: Messages, chosen: npt.NDArray[np.int64] | None) -> Iterator[Records]:
    """Encode all of `messages`, or those at some indexes."""
    count = len(messages) if chosen is None else len(chosen)
    if messages.headers is None and count > _LISTED_MAX:
        keys, values = messages.keys, messages.values
        if chosen is not None:
            keys, values = keys.take(chosen), values.take(chosen)
        return encode_columns(keys, values)
    listed_keys, listed = messages.lists()
    headers = messages.headers
    if chosen is not None:
        listed_keys, listed = [listed_keys[i] for i in chosen], [listed[i] for i in chosen]
        headers = None if headers is None else [headers[i] for i in chosen]
    return encode_listed(listed_keys, listed, headers)

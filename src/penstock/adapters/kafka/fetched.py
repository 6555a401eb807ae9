"""What the client has fetched: messages of one place or of many, and the ends of partitions among them."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

from confluent_kafka import KafkaError, Message

from penstock.adapters.kafka.cluster import explain
from penstock.core.errors import START_ANEW, PositionError, UnreadableMessageError
from penstock.core.spolts.raw import RawMessage
from penstock.ports.topics import Fetched

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence


def by_place(fetched: Sequence[Message]) -> Iterator[tuple[tuple[str, int], Sequence[Message]]]:
    """Yield what was fetched, in stretches of one (topic, partition)."""
    # The loops of this module are Python's own where they can be: a million messages go through them.
    if len(set(map(Message.topic, fetched))) == len(set(map(Message.partition, fetched))) == 1:
        yield place_of(fetched[0]), fetched
        return
    for place, stretch in groupby(fetched, place_of):
        yield place, list(stretch)


def take(messages: Sequence[Message], end: int, room: int) -> tuple[Fetched, bool]:
    """Return the messages of one place before `end`, as long as there is `room` bytes, and whether more may come.

    Raises what `judge` raises.
    """
    values = list(map(Message.value, messages))
    last = messages[-1].offset() or 0
    if last >= end - 1 or None in values or any(map(Message.error, messages)):
        return _take_singly(messages, end, room)
    size = sum(map(len, values))  # type: ignore[arg-type]  # none of them is None
    if size >= room:
        return _take_singly(messages, end, room)
    return Fetched(list(map(Message.offset, messages)), values, size), True  # type: ignore[arg-type]  # as above


def thrown_away(place: tuple[str, int], offset: int, begins: int, error: PositionError) -> Fetched:
    """Return what stands for messages from `offset` on that brokers have thrown away, as the partition `begins` later.

    Raises `error`, with which they could not be read, where that is not why.
    """
    if begins <= offset:
        raise error
    topic, partition = place
    message = f"{topic}/{partition} begins at {begins}, and was read up to {offset}: messages were thrown away unread"
    hint = f"have {topic} keep messages until they are read (retention.ms, retention.bytes)"
    return Fetched([], [], 0, UnreadableMessageError(place, offset, message, hint))


def take_whole(messages: Sequence[Message], end: int, room: int, into: list[RawMessage]) -> int:
    """Add whole messages of one place to `into`, as `take` does; keys count as bytes too."""
    size = 0
    for message in messages:
        if ends_at(message, end):
            return room
        if message.error() is None:
            into.append(_whole(message))
            size += len(message.value() or b"") + len(message.key() or b"")
            if message.offset() == end - 1 or size >= room:
                return room
    return size


def _take_singly(messages: Sequence[Message], end: int, room: int) -> tuple[Fetched, bool]:
    offsets: list[int] = []
    values: list[bytes] = []
    size, more = 0, True
    for message in messages:
        if ends_at(message, end):
            more = False
        elif message.error() is None:
            offset, value = entry(message)
            offsets.append(offset)
            values.append(value)
            size += len(value)
            more = offset < end - 1 and size < room
        if not more:
            break
    return Fetched(offsets, values, size), more


def _whole(message: Message) -> RawMessage:
    _, timestamp_ms = message.timestamp()
    # The client's types allow text, which it never gives.
    headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    own = tuple((name, content or b"") for name, content in headers)
    return RawMessage(*place_of(message), message.offset() or 0, timestamp_ms, message.key(), message.value(), own)


def place_of(message: Message) -> tuple[str, int]:
    """Its (topic, partition)."""
    return message.topic() or "", message.partition() or 0


def ends_at(message: Message, end: int) -> bool:
    """Whether nothing before `end` can follow in the message's partition. Raises for errors that do not pass."""
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
        _judge(error, message)
        return False
    return (message.offset() or 0) >= end


def entry(message: Message) -> tuple[int, bytes]:
    """Its offset and value."""
    return message.offset() or 0, message.value() or b""


def next_offsets(said: str, wanted: Collection[tuple[str, int]]) -> tuple[tuple[str, str, int], ...]:
    """Where the client reads on in each partition that is wanted, from its statistics (librdkafka, STATISTICS.md)."""
    topics: dict[str, Any] = json.loads(said)["topics"]
    return tuple(
        (topic, partition, of_partition["next_offset"])
        for topic, of_topic in topics.items()
        for partition, of_partition in of_topic["partitions"].items()
        if (topic, int(partition)) in wanted
    )


def _judge(error: KafkaError, message: Message) -> None:
    """Raise what reading cannot go on from; the client itself tries again after the rest."""
    if error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
        text = f"{message.topic()}/{message.partition()} no longer holds the offset to go on from: {error.str()}"
        raise PositionError(
            text,
            f"the topic was deleted or recreated, or its retention removed what this link had not read: {START_ANEW}",
        )
    if not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
        raise explain(error, f"reading {message.topic()}")

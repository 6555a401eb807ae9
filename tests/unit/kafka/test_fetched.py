"""Messages that were fetched are kept up to an offset and a size, place by place."""

from __future__ import annotations

import gc

import pytest
from confluent_kafka import Message

from penstock.adapters.kafka.fetched import by_place, take
from penstock.core.garbage import no_collection


def _message(offset: int, *, topic: str = "t", partition: int = 0, value: bytes | None = b"1234") -> Message:
    return Message(topic=topic, partition=partition, offset=offset, value=value)


def _offsets(end: int, room: int, *messages: Message) -> tuple[list[int], bool]:
    taken, more = take(messages, end, room)
    assert taken.size_bytes == sum(map(len, taken.values))
    return list(taken.offsets), not more


def test_messages_before_the_end_are_kept() -> None:
    messages = [_message(offset) for offset in (3, 4, 7)]

    assert _offsets(100, 1000, *messages) == ([3, 4, 7], False)


@pytest.mark.parametrize("end", [7, 8])
def test_nothing_is_kept_from_the_end_on(end: int) -> None:
    messages = [_message(offset) for offset in (5, 6, 7, 8)]

    assert _offsets(end, 1000, *messages) == (list(range(5, end)), True)


def test_the_message_that_takes_the_last_room_is_the_last_one() -> None:
    messages = [_message(offset) for offset in (0, 1, 2, 3)]

    assert _offsets(100, 8, *messages) == ([0, 1], True)


def test_a_message_without_a_value_is_an_empty_one() -> None:
    taken, more = take([_message(1), _message(2, value=None)], 100, 1000)

    assert (taken.offsets, taken.values, taken.size_bytes, more) == ([1, 2], [b"1234", b""], 4, True)


def test_messages_of_many_places_are_told_apart_in_their_order() -> None:
    messages = [_message(1), _message(2), _message(9, partition=1), _message(3, topic="u"), _message(3)]

    found = [(place, [message.offset() for message in stretch]) for place, stretch in by_place(messages)]

    assert found == [(("t", 0), [1, 2]), (("t", 1), [9]), (("u", 0), [3]), (("t", 0), [3])]
    assert [place for place, _ in by_place(messages[:2])] == [("t", 0)]


def test_python_looks_for_cycles_again_afterwards() -> None:
    with no_collection():
        assert not gc.isenabled()

    assert gc.isenabled()

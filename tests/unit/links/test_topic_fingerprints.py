"""What is said of topics that are not what a link left."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import PositionError
from penstock.core.topic_fingerprints import (
    Since,
    TopicFingerprint,
    TopicState,
    require_count,
    require_grown,
    require_place,
    require_same,
)

names = st.text(min_size=1, max_size=20)
numbers = st.integers(0, 2**62)
states = st.builds(TopicState, names, st.lists(numbers, min_size=1, max_size=4).map(tuple))


@given(st.builds(TopicFingerprint, numbers, st.dictionaries(names, states, max_size=4)))
def test_a_topic_fingerprint_survives_kafka(fingerprint: TopicFingerprint) -> None:
    assert TopicFingerprint.from_mapping(json.loads(json.dumps(fingerprint.to_mapping()))) == fingerprint


@given(st.builds(Since, numbers, st.dictionaries(names, numbers, max_size=4)))
def test_what_was_published_since_survives_kafka(since: Since) -> None:
    assert Since.of_record(json.loads(json.dumps({"file": "a", **since.to_mapping()}))) == since


def test_a_record_of_an_older_release_says_nothing_of_its_topics() -> None:
    assert Since.of_record({"file": "a"}) is None


def test_a_topic_fingerprint_behind_the_record_covers_all_that_the_record_does() -> None:
    since = Since(3, {"t": 7})

    assert since.after(TopicFingerprint(3)) == {"t": 7}
    assert since.after(TopicFingerprint(4)) == {}
    with pytest.raises(PositionError, match="builds on topic fingerprint 3, but the newest in Kafka is 2"):
        since.after(TopicFingerprint(2))


@given(st.lists(st.tuples(numbers, st.integers(0, 50), st.integers(0, 5)), min_size=1, max_size=4))
def test_messages_and_whatever_else_takes_offsets_explain_where_partitions_end(
    parts: list[tuple[int, int, int]],
) -> None:
    expected = TopicState("id", tuple(end for end, _, _ in parts))
    messages = sum(count for _, count, _ in parts)

    require_grown("t", expected, [end + count + markers for end, count, markers in parts], messages)
    require_count("t", expected, messages, messages)
    with pytest.raises(PositionError, match="the brokers lost some"):
        require_count("t", expected, messages + 1, messages)
    with pytest.raises(PositionError, match="the brokers lost some"):
        require_grown("t", expected, [end + count for end, count, _ in parts], messages + 1)
    with pytest.raises(PositionError, match="the brokers lost the rest"):
        require_grown("t", expected, [end - 1 for end, _, _ in parts], 0)


def test_brokers_without_ids_are_taken_at_their_word() -> None:
    require_same("t", TopicState("", (4,)), ("new", 1))
    require_same("t", TopicState("old", (4,)), ("", 1))


def test_a_place_is_where_a_partition_ends_or_before() -> None:
    require_place("t", 0, 0, None)
    require_place("t", 0, 5, 5)
    with pytest.raises(PositionError, match="t/0 is gone, and was read up to offset 1"):
        require_place("t", 0, 1, None)
    with pytest.raises(PositionError, match="t/0 ends at 4, but was read up to 5"):
        require_place("t", 0, 5, 4)

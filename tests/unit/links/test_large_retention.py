"""Files of large messages go when their topic begins later than what named them, and none that it may name."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.links.conftest import MemoryTopics

from penstock.adapters.objects.store import Objects, ObjectsSpec, open_objects
from penstock.core.errors import UnavailableError
from penstock.core.large_messages import read_large
from penstock.links.large_messages import LargeMessages
from penstock.links.objects import large_retention
from penstock.links.objects.large_retention import TOPICS_AT_ONCE, LargeRetention, SweptFolders, unnamed_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pytest

    from penstock.core.spolts.raw import RawMessage

_DAY = 86_400_000
TOPIC = "db.shop.a/b"


class DatedTopics(MemoryTopics):
    """Topics whose messages have times."""

    def __init__(self) -> None:
        super().__init__()
        self.times: dict[tuple[str, int], list[int]] = {}
        self.away: set[str] = set()
        self.asked_begins: list[str] = []

    def begins(self, partitions: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        self.asked_begins += [topic for topic, _ in partitions]
        if self.away.intersection(topic for topic, _ in partitions):
            message = "a partition has no leader"
            raise UnavailableError(message, "start its broker")
        return super().begins(partitions)

    def publish(self, place: tuple[str, int], value: bytes, day: int) -> None:
        self.values[place].append(value)
        self.times.setdefault(place, []).append(day * _DAY)

    def read_messages(
        self, ranges: Mapping[tuple[str, int], tuple[int, int]], bytes_max: int
    ) -> Mapping[tuple[str, int], Sequence[RawMessage]]:
        found = super().read_messages(ranges, bytes_max)
        return {
            place: [replace(each, timestamp_ms=self.times[place][each.offset]) for each in messages]
            for place, messages in found.items()
        }


@dataclass(frozen=True)
class Case:
    """A store of a pipeline, and its topics."""

    store: Objects
    topics: DatedTopics

    def keep(self, content: bytes, day: int, topic: str = TOPIC) -> bytes:
        """A large message that was written on a day; what its topic gets."""
        value = LargeMessages("shop", "db", lambda: self.store).keep(topic, content)
        path = Path(self.store.local_path(read_large(value).key) or "")
        os.utime(path, (day * 86_400, day * 86_400))
        return value

    def sweep(self, day: int, keep_days: int = 1) -> int:
        return self.turn(day, keep_days=keep_days).files

    def turn(self, day: int, after: str = "", keep_days: int = 1) -> SweptFolders:
        retention = LargeRetention("shop", self.topics, self.topics, self.store, keep_days * _DAY)
        return retention.sweep(day * _DAY, after)

    def let_go(self, topic: str) -> None:
        """A topic that names nothing of the one file it had on day 100."""
        self.topics.publish((topic, 0), self.keep(topic.encode(), 100, topic), 100)
        self.topics.first[topic, 0] = 1

    def kept(self) -> Sequence[bytes]:
        return sorted(self.store.get(key) for key in self.store.list("shop/large-messages"))


def open_case(tmp_path: Path) -> Case:
    return Case(open_objects(ObjectsSpec(tmp_path.as_uri())), DatedTopics())


def test_a_file_goes_when_every_partition_of_its_topic_begins_a_week_after_it(tmp_path: Path) -> None:
    case = open_case(tmp_path)
    for number, day in enumerate((100, 101, 102)):
        case.topics.publish((TOPIC, 0), case.keep(b"large %d" % number, day), day)
    case.topics.publish((TOPIC, 1), b"small", 101)
    case.topics.publish((TOPIC, 0), b"small", 120)
    case.topics.publish((TOPIC, 1), b"small", 109)

    whole = case.sweep(130)
    case.topics.first[TOPIC, 0] = 3
    one_begins_early = case.sweep(130)
    case.topics.first[TOPIC, 1] = 1
    two = case.sweep(130)

    assert (whole, one_begins_early, two) == (0, 0, 2)
    assert case.kept() == [b"large 2"]


def test_a_topic_that_is_empty_needs_none_of_its_old_files_and_one_that_is_gone_keeps_them(tmp_path: Path) -> None:
    case = open_case(tmp_path)
    case.topics.publish((TOPIC, 0), case.keep(b"old", 100), 100)
    case.topics.first[TOPIC, 0] = 1
    case.keep(b"on its way", 127)
    case.keep(b"gone", 100, "db.shop.gone")
    case.store.put("shop/large-messages/db/check", b"")
    case.store.put("other/large-messages/db/t/1.avro", b"")

    young, swept = case.sweep(130, keep_days=60), case.sweep(130)

    assert (young, swept) == (0, 1)
    assert case.kept() == [b"", b"gone", b"on its way"]
    assert case.store.exists("other/large-messages/db/t/1.avro")


def test_a_topic_that_cannot_be_looked_at_keeps_its_files_and_hinders_no_other(tmp_path: Path) -> None:
    case = open_case(tmp_path)
    for topic in "abcdef":
        case.let_go(topic)
    case.topics.away = {"b"}

    one_away = case.sweep(130)
    for topic in "ghij":
        case.let_go(topic)
    case.topics.away = set("bghi")
    many_away = case.turn(130)
    after_them = case.turn(130, many_away.through)

    assert (one_away, many_away.files, after_them.files) == (5, 0, 1)
    assert case.kept() == [b"b", b"g", b"h", b"i"]


def test_a_turn_looks_at_some_topics_and_the_next_goes_on_behind_them_and_round(tmp_path: Path) -> None:
    case = open_case(tmp_path)
    topics = [f"t{number:02}" for number in range(TOPICS_AT_ONCE + 5)]
    for topic in topics:
        # Nobody may let go of them: each keeps what it names.
        case.topics.publish((topic, 0), case.keep(topic.encode(), 100, topic), 100)

    turns, after = [], ""
    for _ in range(2):
        case.topics.asked_begins.clear()
        after = case.turn(130, after).through
        turns.append(list(case.topics.asked_begins))

    assert turns == [topics[:TOPICS_AT_ONCE], topics[TOPICS_AT_ONCE:] + topics[: TOPICS_AT_ONCE - 5]]


def test_of_many_files_of_a_topic_the_oldest_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_retention, "FILES_AT_ONCE", 3)
    case = open_case(tmp_path)
    for day in (104, 101, 103, 100, 102):
        case.topics.publish((TOPIC, 0), case.keep(b"large %d" % day, day), day)
    case.topics.first[TOPIC, 0] = 5

    swept = case.sweep(130)

    assert (swept, case.kept()) == (3, [b"large 103", b"large 104"])


def test_a_file_that_is_written_again_meanwhile_stays(tmp_path: Path) -> None:
    case = open_case(tmp_path)
    for content in (b"once", b"again"):
        case.topics.publish((TOPIC, 0), case.keep(content, 100), 100)
    case.topics.first[TOPIC, 0] = 2

    def write_again() -> None:
        case.keep(b"again", 130)

    case.topics.before_ends.append(write_again)

    swept = case.sweep(130)

    assert (swept, case.kept()) == (1, [b"again"])


@given(
    written=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 7), st.integers(0, 2)), max_size=12),
    small=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 2)), max_size=12),
    gone=st.tuples(*[st.integers(0, 12)] * 3),
)
def test_no_file_goes_that_a_message_names_however_long_it_was_on_its_way_within_a_week(
    written: list[tuple[int, int, int]], small: list[tuple[int, int]], gone: tuple[int, int, int]
) -> None:
    # (day, partition, the file that it names): what is thrown away are the first messages of each partition.
    messages = [(day + late, partition, str(n)) for n, (day, late, partition) in enumerate(written)]
    messages = sorted([*messages, *((day, partition, "") for day, partition in small)])
    kept = [[each for each in messages if each[1] == partition][gone[partition] :] for partition in range(3)]

    begins = min([50, *(each[0][0] for each in kept if each)]) * _DAY
    deleted = set(unnamed_files({str(n): day * _DAY for n, (day, *_) in enumerate(written)}, begins))

    assert deleted.isdisjoint(name for each in kept for _, _, name in each)
    assert deleted >= {str(n) for n, (day, *_) in enumerate(written) if (day + 7) * _DAY < begins}

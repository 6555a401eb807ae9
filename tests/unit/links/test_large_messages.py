"""Messages that are in the object store are read as if their topic had them, and as many at once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.links.conftest import MemoryTopics

from penstock.adapters.objects.store import Objects, ObjectsSpec, open_objects
from penstock.core.avro.wire import frame, schema_ids, split
from penstock.core.errors import CorruptLogError, PositionError, SinkError
from penstock.core.large_messages import is_large, read_large
from penstock.links.large_messages import LargeMessages, WholeLog
from penstock.links.own_messages import CaptureMessages

if TYPE_CHECKING:
    from pathlib import Path

PLACE = ("src.shop.large", 0)
PAYLOADS = st.tuples(st.binary(min_size=1, max_size=9), st.booleans())
# What stands for a message is smaller than it, or the topic would have taken it.
MESSAGES = st.lists(PAYLOADS.map(lambda each: (frame(1) + each[0] * (400 if each[1] else 1), each[1])))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Objects:
    return open_objects(ObjectsSpec(tmp_path_factory.mktemp("objects").as_uri()))


def topics(store: Objects, messages: list[tuple[bytes, bool]]) -> MemoryTopics:
    """A topic with these messages, some of which are in the store."""
    large, found = LargeMessages("shop", "src", lambda: store), MemoryTopics()
    found.values[PLACE] = [large.keep(PLACE[0], value) if is_kept else value for value, is_kept in messages]
    return found


@given(messages=MESSAGES, bytes_max=st.integers(1, 5_000))
def test_what_is_read_is_what_was_written_up_to_the_bytes_that_were_asked_for(
    store: Objects, messages: list[tuple[bytes, bool]], bytes_max: int
) -> None:
    log, values = WholeLog("shop", topics(store, messages), store), [value for value, _ in messages]

    read: list[tuple[int, bytes]] = []
    rounds = 0
    while len(read) < len(values):
        before, size = len(read), 0
        for place, fetched in log.read_together({PLACE: (before, len(values))}, bytes_max):
            assert place == PLACE
            assert size < bytes_max
            read += zip(fetched.offsets, fetched.values, strict=True)
            size += fetched.size_bytes
        assert len(read) == len(values) or size >= bytes_max
        rounds += 1

    assert read == list(enumerate(values))
    assert rounds <= len(values)


def test_a_large_message_that_is_gone_or_another_one_is_named_with_its_offset(store: Objects, tmp_path: Path) -> None:
    found = topics(store, [(frame(1) + b"small", False), (frame(1) + b"large", True)])
    large, other = read_large(found.values[PLACE][1]), open_objects(ObjectsSpec(tmp_path.as_uri()))

    with pytest.raises(SinkError, match=r"the message of src\.shop\.large/0 offset 1 is in the object store"):
        list(WholeLog("shop", found, other).read_together({PLACE: (0, 2)}, 1_000))
    other.put(large.key, frame(1) + b"larger")
    with pytest.raises(PositionError, match=r"is not the message of src\.shop\.large/0 offset 1 that was written"):
        list(WholeLog("shop", found, other).read_together({PLACE: (0, 2)}, 1_000))


@pytest.mark.parametrize(
    "changed",
    [
        {"key": "shop/src/src.shop.large/0/1-2.parquet"},
        {"key": "other/large-messages/src/src.shop.large/{sha256}.avro"},
        {"key": "shop/large-messages/src/src.shop.users/{sha256}.avro"},
        {"key": "shop/large-messages/../large-messages/src/src.shop.large/{sha256}.avro"},
        {"key": "shop/large-messages/src/src.shop.large/0.avro"},
        {"size_bytes": (1 << 30) + 1},
        {"key": 5},
        {"size_bytes": "9"},
        {"sha256": None},
    ],
)
def test_what_names_another_file_than_one_of_its_topic_is_refused_with_its_offset_and_nothing_is_read(
    store: Objects, changed: dict[str, object]
) -> None:
    found = topics(store, [(frame(1) + b"small", False), (frame(1) + b"large", True), (frame(1) + b"next", False)])
    said = json.loads(found.values[PLACE][1])["penstock_object"]
    if isinstance(changed.get("key"), str):
        changed = {"key": str(changed["key"]).format(**said)}
    found.values[PLACE][1] = json.dumps({"penstock_object": said | changed}).encode()

    read = [each for _, each in WholeLog("shop", found, NothingReadable()).read_together({PLACE: (0, 3)}, 1_000)]

    assert [offset for each in read for offset in each.offsets] == [0]
    error = read[-1].unreadable
    assert error is not None
    assert "src.shop.large/0 offset 1" in error.message
    assert (error.offset, error.hint) == (1, "let only Penstock write to this topic")


class NothingReadable(Objects):
    """A store of which no file may be read."""

    def __init__(self) -> None:
        """Open nothing."""

    def get(self, key: str) -> bytes:
        raise AssertionError(key)


def test_what_stands_for_a_large_message_is_never_taken_for_a_change(store: Objects) -> None:
    (value,) = topics(store, [(frame(1) + b"large", True)]).values[PLACE]

    assert is_large(value)
    for read in (lambda: split(value), lambda: schema_ids(pa.array([frame(1), value], pa.binary()))):
        with pytest.raises(CorruptLogError, match=r"is in the object store, at shop/large-messages/src/"):
            read()
    with pytest.raises(CorruptLogError, match="does not say where"):
        read_large(value[:-1])


def test_a_capture_knows_the_large_messages_of_its_own_from_those_of_others(store: Objects) -> None:
    (value,) = topics(store, [(frame(1) + b"large", True)]).values[PLACE]

    ours = CaptureMessages("src", "schemas", "timelines", "shop/large-messages/src", str, "avro")
    theirs = CaptureMessages("src", "schemas", "timelines", "other/large-messages/src", str, "avro")

    assert ours.fault(PLACE[0], value, {}) == ""
    assert "it is at shop/large-messages/src/" in theirs.fault(PLACE[0], value, {})
    assert "does not say where" in ours.fault(PLACE[0], value[:-1], {})

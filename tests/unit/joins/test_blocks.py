"""Events and differences as blocks."""

from __future__ import annotations

import struct
from itertools import pairwise
from zlib import crc32

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.joins.blocks import BUCKETS, pack_events, unpack_differences
from penstock.core.joins.events import DELETE, SCHEMA, TRUNCATE, UPSERT, truncate_event

_NUMBERS = st.integers(-(2**63), 2**63 - 1)
_BYTES = st.binary(max_size=6)
_EVENTS = st.lists(
    st.tuples(
        st.integers(0, 29),
        st.sampled_from([UPSERT, DELETE]),
        st.integers(0, 9),
        _NUMBERS,
        _NUMBERS,
        st.integers(0, 9),
        _BYTES,
        _BYTES,
        _BYTES,
    ),
    max_size=20,
)
Event = tuple[int, int, int, int, int, int, bytes, bytes, bytes]


def read_events(block: bytes) -> list[Event]:
    """Read a block by the words of jvm/join/EventBlocks.java, byte by byte."""
    (count,) = struct.unpack_from("<i", block)
    at, columns = 4, []
    for letter in "BBiqqi":
        columns.append(struct.unpack_from(f"<{count}{letter}", block, at))
        at += count * struct.calcsize(f"<{letter}")
    for _ in range(3):
        offsets = struct.unpack_from(f"<{count + 1}i", block, at)
        at += 4 * (count + 1)
        columns.append(tuple(block[at + a : at + b] for a, b in pairwise(offsets)))
        at += offsets[-1]
    assert at == len(block)
    return list(zip(*columns, strict=True))


@given(events=_EVENTS, cut=st.integers(0, 20))
def test_each_event_is_in_the_block_of_its_keys_bucket_in_its_order(events: list[Event], cut: int) -> None:
    parts = [
        pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, each, strict=True)) for each in some], schema=SCHEMA)
        for some in (events[:cut], events[cut:])
    ]

    found = {bucket: read_events(block) for bucket, block in pack_events(parts, "join_key")}

    expected: dict[int, list[Event]] = {}
    for event in events:
        expected.setdefault(crc32(event[6]) % BUCKETS, []).append(event)
    assert found == expected


def test_a_truncate_is_in_every_bucket() -> None:
    found = dict(pack_events([truncate_event(1, 7, (1, 99, 2))], "row_key"))

    assert sorted(found) == list(range(BUCKETS))
    assert {each[1] for block in found.values() for each in read_events(block)} == {TRUNCATE}


def test_a_block_of_differences_is_a_table_wherever_it_is_in_memory() -> None:
    there = b"\1\0" + struct.pack("<3i", 0, 2, 2) + b"ab"
    gone = b"\0\1" + struct.pack("<3i", 0, 0, 1) + b"c"
    block = struct.pack("<2i", 2, 1) + there + gone

    found = unpack_differences([block, memoryview(b"x" + block)[1:]], 1)

    assert [table.to_pylist() for table in found] == 2 * [[{"b0": b"ab", "a0": None}, {"b0": None, "a0": b"c"}]]

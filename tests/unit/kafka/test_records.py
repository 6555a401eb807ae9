"""Messages as record batches, read back by the format's description."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.changes import Messages
from penstock.core.kafka.records import (
    RECORDS_BYTES_MAX,
    ProducerIdentity,
    Records,
    encode_columns,
    encode_listed,
    render_batch,
)
from penstock.core.kafka.shares import EncodedMessages, shares
from penstock.core.partitions import partitions_of

if TYPE_CHECKING:
    from collections.abc import Sequence

contents = st.none() | st.binary(max_size=300)
pairs = st.lists(st.tuples(contents, contents), max_size=200)
IDENTITY = ProducerIdentity(7_000_000_000, 12)


@given(pairs)
def test_messages_by_column_are_the_bytes_of_messages_one_by_one(messages: list[tuple[bytes | None, ...]]) -> None:
    keys, values = [key for key, _ in messages], [value for _, value in messages]

    by_column = list(encode_columns(pa.array(keys, pa.binary()), pa.array(values, pa.binary())))

    assert by_column == list(encode_listed(keys, values))


@given(pairs)
def test_a_batch_says_what_its_messages_are(messages: list[tuple[bytes | None, ...]]) -> None:
    found = []
    for records in encode_listed([key for key, _ in messages], [value for _, value in messages]):
        found += read_batch(render_batch(records, 1_700_000_000_123, IDENTITY, 41), sequence=41)

    assert found == [(key, value, []) for key, value in messages]


def test_headers_go_with_their_message() -> None:
    headers = [[("a", b"1"), ("ü", None)], []]

    (records,) = encode_listed([b"k", None], [b"v", b"w"], headers)

    batch = render_batch(records, 0, IDENTITY, 0)
    assert read_batch(batch, sequence=0) == [(b"k", b"v", headers[0]), (None, b"w", [])]


def test_what_is_more_than_a_batch_holds_goes_into_several() -> None:
    values = [bytes([number]) * size for number, size in enumerate([600_000, 300_000, 200_000, 3_000_000, 1, 2])]

    parts = list(encode_listed([b"k"] * len(values), values))

    assert [part.count for part in parts] == [2, 1, 1, 2]
    assert parts == list(encode_columns(pa.array([b"k"] * len(values)), pa.array(values)))
    assert all(len(part.content) < RECORDS_BYTES_MAX for part in parts)


def test_columns_that_are_a_part_of_larger_ones_are_that_part() -> None:
    keys = pa.array([b"%d" % number for number in range(1_000)])
    values = pa.array([None if number % 7 else bytes(number) for number in range(1_000)], pa.binary())

    part = list(encode_columns(keys.slice(100, 500), values.slice(100, 500)))

    assert part == list(encode_listed(keys.to_pylist()[100:600], values.to_pylist()[100:600]))


@pytest.mark.parametrize("count", [3, 5_000])
def test_each_message_goes_to_the_partition_of_its_key_and_one_without_to_that_of_its_partition_hint(
    count: int,
) -> None:
    keys = pa.array([None if number % 3 == 0 else b"%d" % number for number in range(count)], pa.binary())
    values, partition_hints = (
        pa.array([b"%d" % number for number in range(count)]),
        np.arange(count, dtype=np.int32) // 2,
    )

    found = share(Messages("t", keys, values, np.arange(count), partition_hints=partition_hints))

    expected = np.where(np.asarray(keys.is_null()), partition_hints % 4, partitions_of(keys, 4))
    assert found == {int(p): [b"%d" % n for n in np.flatnonzero(expected == p)] for p in np.unique(expected)}


@pytest.mark.parametrize("partitions", [1, 3, 4])
def test_messages_that_are_encoded_ahead_are_shared_out_as_they_would_be_later(partitions: int) -> None:
    keys = pa.array([None if number % 5 else b"%d" % number for number in range(300)], pa.binary())
    messages = Messages("t", keys, pa.array([b"v"] * 300), range(300), np.arange(300, dtype=np.int32) // 7)

    ahead = EncodedMessages(messages, 3)

    assert list(shares(ahead, partitions)) == list(shares(messages, partitions))
    assert ahead.size_bytes > messages.size_bytes


def test_messages_without_keys_and_partition_hints_are_spread() -> None:
    values = pa.array([b"%d" % number for number in range(8)])

    found = share(Messages("t", pa.nulls(8, pa.binary()), values, np.arange(8)))

    assert found == {n: [b"%d" % n, b"%d" % (n + 4)] for n in range(4)}


def share(messages: Messages) -> dict[int, list[bytes | None]]:
    found: dict[int, list[bytes | None]] = {}
    for partition, records in shares(messages, 4):
        batch = read_batch(render_batch(records, 0, IDENTITY, 0), sequence=0)
        found.setdefault(partition, []).extend(value for _, value, _ in batch)
    return found


def read_batch(batch: bytes, sequence: int) -> list[tuple[bytes | None, bytes | None, Sequence[object]]]:
    """Read a batch as Kafka's documentation describes it (magic 2), and look at everything in its front."""
    offset, length, epoch, magic, checksum = struct.unpack_from(">qiibI", batch)
    attributes, last, _, _, producer, producer_epoch, first, count = struct.unpack_from(">hiqqqhii", batch, 21)
    assert (offset, length, epoch, magic, checksum) == (0, len(batch) - 12, -1, 2, google_crc32c.value(batch[21:]))
    assert (last, producer, producer_epoch, first) == (count - 1, IDENTITY.id, IDENTITY.epoch, sequence)
    assert attributes & ~7 == 16  # transactional, by the producer's clock
    content = batch[61:]
    if attributes & 7:
        assert attributes & 7 == 3
        content = pa.CompressedInputStream(pa.BufferReader(content), "lz4").read()
    reader = Reader(content)
    found: list[tuple[bytes | None, bytes | None, Sequence[object]]] = []
    for delta in range(count):
        size, begin = reader.varint(), reader.at
        assert (reader.take(1), reader.varint(), reader.varint()) == (b"\0", 0, delta)
        key, value = reader.sized(), reader.sized()
        headers = [((reader.sized() or b"").decode(), reader.sized()) for _ in range(reader.varint())]
        found.append((key, value, headers))
        assert reader.at == begin + size
    assert reader.at == len(content)
    return found


class Reader:
    """Reads the fields of records."""

    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    def take(self, octets: int) -> bytes:
        self.at += octets
        assert self.at <= len(self.content)
        return self.content[self.at - octets : self.at]

    def varint(self) -> int:
        value = shift = 0
        while True:
            octet = self.take(1)[0]
            value |= (octet & 0x7F) << shift
            shift += 7
            if octet < 128:
                return (value >> 1) ^ -(value & 1)

    def sized(self) -> bytes | None:
        size = self.varint()
        return None if size < 0 else self.take(size)


def test_bytes_that_lz4_makes_no_smaller_are_sent_as_they_are() -> None:
    noise = np.random.default_rng(1).bytes(100_000)

    (records,) = encode_listed([None], [noise])

    assert isinstance(records, Records)
    assert not records.is_compressed
    assert read_batch(render_batch(records, 0, IDENTITY, 0), sequence=0) == [(None, noise, [])]

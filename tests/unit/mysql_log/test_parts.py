"""The parts of events: table maps, GTID sets, packets."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.mysql.events.gtid_events import parse_mysql_gtid
from penstock.core.mysql.events.gtid_sets import MariadbGtids, MysqlGtids, parse_gtids
from penstock.core.mysql.events.packets import PacketSplitter, ServerMessage
from penstock.core.mysql.events.table_map import parse_table_map
from penstock.core.mysql.types.bytes_reader import MalformedError
from penstock.core.mysql.types.logged_rows import TableMap
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Iterable

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
OTHER = "4e11fa47-71ca-11e1-9e33-c80aa9429562"
# As MariaDB 10.11 logs (id INT PRIMARY KEY, y YEAR, u INT UNSIGNED, z BIGINT UNSIGNED, m INT).
MARIADB_MAP = bytes.fromhex(
    "19000000000001000174000161000503 0d03 08 03 001e 010170 040b 026964 0179 0175 017a 016d 08 01 00".replace(" ", "")
)


def test_a_table_map_of_mariadb_tells_names_and_signs_of_its_columns() -> None:
    table_map = parse_table_map(MARIADB_MAP, is_mariadb=True)

    assert table_map.table == TableId("t", "a")
    assert table_map.types == (3, 13, 3, 8, 3)
    assert table_map.nullable == (False, True, True, True, True)
    assert table_map.names == ("id", "y", "u", "z", "m")
    assert table_map.unsigned == (False, True, True, True, False)


def test_signs_of_a_table_with_a_year_are_not_read_where_servers_count_them_differently() -> None:
    """MySQL 9.7 has a bit for a YEAR, and others have none."""
    assert parse_table_map(MARIADB_MAP, is_mariadb=False).unsigned == ()


def test_a_table_map_without_optional_metadata_has_no_names() -> None:
    table_map = parse_table_map(MARIADB_MAP[: MARIADB_MAP.index(b"\x01\x01\x70")], is_mariadb=True)

    assert (table_map.names, table_map.unsigned) == ((), ())


def test_column_metadata_is_read_to_its_width() -> None:
    types = bytes([15, 246, 254, 252, 18, 3, 5])
    metadata = b"\x00\x01" + b"\x0c\x02" + b"\xfe\x28" + b"\x02" + b"\x06" + b"\x08"
    body = bytes(8) + b"\1s\0\1t\0" + bytes([7]) + types + bytes([len(metadata)]) + metadata + b"\x7f"

    assert parse_table_map(body, is_mariadb=True).metadata == (256, 12 * 256 + 2, 0xFE28, 2, 6, 0, 8)


@pytest.mark.parametrize(
    ("types", "metadata"),
    [(b"\x03\xf5\x14", b"\x04\x08"), (b"\x03\x14", b""), (b"\x03\x0f", b"\x01"), (b"\x03\xf5", b"\x04\x00")],
)
def test_where_a_type_is_not_known_only_the_types_are_told(types: bytes, metadata: bytes) -> None:
    body = bytes(8) + b"\1s\0\1t\0" + bytes([len(types)]) + types + bytes([len(metadata)]) + metadata + b"\x02"

    table_map = parse_table_map(body + b"\x01\x01\xff", is_mariadb=False)

    nullable = (False, True, False)[: len(types)]
    assert table_map == TableMap(TableId("s", "t"), tuple(types), (), nullable, (), ())


@given(st.integers(0, len(MARIADB_MAP) - 1), st.binary(min_size=1, max_size=3))
def test_a_damaged_table_map_is_malformed_or_another_one(at: int, noise: bytes) -> None:
    try:
        parse_table_map(MARIADB_MAP[:at] + noise + MARIADB_MAP[at + len(noise) :], is_mariadb=True)
        parse_table_map(MARIADB_MAP[:at], is_mariadb=True)
    except MalformedError:
        return


@pytest.mark.parametrize(
    ("key", "told"),
    [
        (b"\x09\x01\x00", "1 numbers are no pairs"),
        (b"\x09\x02\x05\x00", r"a key of the columns \[5\] of 5"),
        (b"\x08\x01\x05", r"a key of the columns \[5\] of 5"),
    ],
)
def test_a_key_of_half_a_pair_or_of_no_column_of_the_table_is_malformed(key: bytes, told: str) -> None:
    key_field = MARIADB_MAP.rindex(b"\x08\x01\x00")

    with pytest.raises(MalformedError, match=told):
        parse_table_map(MARIADB_MAP[:key_field] + key, is_mariadb=True)


def test_a_gtid_set_of_mariadb_has_the_newest_of_each_domain_in_order() -> None:
    gtids = MariadbGtids.parse("10-1-4,2-5-6")

    for gtid in ("2-7-7", "1-1-1", "10-1-5"):
        gtids.add(gtid)

    assert str(gtids) == "1-1-1,2-7-7,10-1-5"


@given(st.lists(st.tuples(st.sampled_from([UUID, OTHER]), st.integers(1, 30)), unique=True))
def test_a_gtid_set_of_mysql_merges_what_it_is_given_in_any_order(gtids: list[tuple[str, int]]) -> None:
    found = MysqlGtids({})
    for uuid, number in gtids:
        found.add(f"{uuid}:{number}")

    assert numbers_of(str(found)) == set(gtids)
    assert str(parse_gtids(str(found)) or "") == str(found)


def numbers_of(text: str) -> set[tuple[str, int]]:
    numbers = set()
    for part in filter(None, text.split(",")):
        uuid, *intervals = part.split(":")
        ends = [(int(first), int(last or first)) for first, _, last in (i.partition("-") for i in intervals)]
        assert all(before[1] + 1 < after[0] for before, after in pairwise(ends))
        numbers |= {(uuid, number) for first, last in ends for number in range(first, last + 1)}
    return numbers


def test_previous_gtids_of_mysql_are_read() -> None:
    body = struct.pack("<Q", 1) + bytes.fromhex(UUID.replace("-", "")) + struct.pack("<QQQQQ", 2, 1, 6, 9, 10)

    assert str(MysqlGtids.decode_previous(body)) == f"{UUID}:1-5:9"


@pytest.mark.parametrize(("first", "behind"), [(0, 2), (2, 2), (1, 0), (1, (1 << 63) + 1)])
def test_previous_gtids_with_numbers_that_there_are_not_are_malformed(first: int, behind: int) -> None:
    body = struct.pack("<Q", 1) + bytes.fromhex(UUID.replace("-", "")) + struct.pack("<QQQ", 1, first, behind)

    with pytest.raises(MalformedError, match="a GTID interval that ends before it begins, or has numbers"):
        MysqlGtids.decode_previous(body)


def test_a_gtid_event_of_mysql_has_its_commit_time() -> None:
    front = b"\1" + bytes.fromhex(UUID.replace("-", "")) + struct.pack("<QBQQ", 23, 2, 0, 1)
    microseconds = 1_700_000_000_123_456

    for original_follows in (0, 1 << 55):
        body = front + (microseconds | original_follows).to_bytes(7, "little") + bytes(7)
        assert parse_mysql_gtid(body) == (f"{UUID}:23", 1_700_000_000_123)


def packets(payloads: Iterable[bytes], size_max: int = 0xFFFFFF) -> bytearray:
    stream = bytearray()
    for payload in payloads:
        parts = [payload[at : at + size_max] for at in range(0, len(payload) + 1, size_max)]
        for number, part in enumerate(parts):
            stream += len(part).to_bytes(3, "little") + bytes([number]) + part
    return stream


def read_in_pieces(stream: bytearray, size: int) -> tuple[list[bytes], PacketSplitter]:
    splitter, found, begin = PacketSplitter(), [], 0
    for end in range(size, len(stream) + size, size):
        events, begin = splitter.split(stream, begin, min(end, len(stream)))
        found += [bytes(buffer[span[0] : span[1]]) for buffer, spans in events for span in spans]
    return found, splitter


@given(st.lists(st.binary(min_size=1, max_size=20)), st.integers(1, 60))
def test_packets_may_be_cut_anywhere(events: list[bytes], size: int) -> None:
    stream = packets([*(b"\0" + event for event in events), b"\xfe\0\0\0\0"])

    found, splitter = read_in_pieces(stream, size)

    assert found == events
    assert splitter.ended


@pytest.mark.parametrize("size", [0xFFFFFF - 1, 0xFFFFFF, 2 * 0xFFFFFF - 2, 2 * 0xFFFFFF + 5])
def test_an_event_may_need_several_packets(size: int) -> None:
    large = bytes(range(251)) * (size // 251 + 1)
    events = [b"before", large[:size], b"after"]

    found, _ = read_in_pieces(packets(b"\0" + event for event in events), 1 << 23)

    assert found == events


@pytest.mark.parametrize("before", [0, 1, 300])
@pytest.mark.parametrize("behind", [1, 300])
def test_an_event_of_several_packets_may_be_among_many(before: int, behind: int) -> None:
    # The second packet of the large one begins as events do.
    events = [*[b"small"] * before, bytes(0xFFFFFF + 5), *[b"behind"] * behind]
    stream = packets([*(b"\0" + event for event in events), b"\xff\xd4\x04#HY000no such file", b"\0more"])

    found, splitter = read_in_pieces(stream, len(stream))

    assert found == events
    assert splitter.error == ServerMessage(1236, "no such file")


def test_an_error_ends_the_packets() -> None:
    found, splitter = read_in_pieces(packets([b"\0first", b"\xff\xd4\x04#HY000no such file", b"\0more"]), 1000)

    assert found == [b"first"]
    assert splitter.error == ServerMessage(1236, "no such file")


def test_a_packet_that_is_neither_event_nor_end_is_malformed() -> None:
    with pytest.raises(MalformedError, match="0x07"):
        read_in_pieces(packets([b"\x07what"]), 100)

"""Sets of GTIDs with tags: as the server writes, counts and lists them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.mysql_log.scanning import FEW, RUNS, SINGLE, scan

from penstock.core.errors import CorruptLogError, LogError, PositionError
from penstock.core.mysql.events.gtid_events import parse_tagged_gtid
from penstock.core.mysql.events.gtid_sets import MariadbGtids, MysqlGtids, parse_gtids
from penstock.core.mysql.log.executed import Executed
from penstock.core.mysql.log.log_items import TransactionBegan, TransactionEnded
from penstock.core.mysql.log.scan import EventScanner
from penstock.core.mysql.types.bytes_reader import MalformedError
from penstock.core.positions import BinlogPosition

if TYPE_CHECKING:
    from tests.unit.mysql_log.conftest import LogWriter, Recorded

    from penstock.core.mysql.log.scan import Grouping

FILE = "mysql-bin.000001"
START = BinlogPosition(FILE, 4)
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
OTHER = "4e11fa47-71ca-11e1-9e33-c80aa9429562"
# GTID_TAGGED events of MySQL 9.7 after their headers.
TAGGED = bytes.fromhex(
    "027200000002dd0311036 2fd039503e422c503e9025102 04f1030000000204040606746167"
    "0828 0a2c 0c7f069c6c64c36006 10a104 1283120b".replace(" ", "")
)


def test_the_gtids_of_a_server_that_tags_are_those_that_it_says(recorded: Recorded) -> None:
    items = EventScanner(START, lambda _: True).feed(*recorded("mysql-9.7-tags"))

    ended = [item.end.gtids for item in items if isinstance(item, TransactionEnded)]
    began = [item.gtid.partition(":")[2] for item in items if isinstance(item, TransactionBegan)]

    assert began == ["204", "web:5", "web:6", "batch:3", "205"]
    assert ended[-1] == "f7c431ff-e572-11f1-ba94-02fc00000001:1-205:batch:1-3:tag:1-2:web:1-6"


def test_a_tagged_gtid_has_its_tag_and_its_commit_time() -> None:
    assert parse_tagged_gtid(TAGGED) == ("f7c431ff-e572-11f1-ba94-02fc00000001:tag:1", 1_795_242_179_992)


@pytest.mark.parametrize("at", range(len(TAGGED) - 9))
def test_a_tagged_gtid_that_was_cut_short_is_an_error(log: LogWriter, at: int) -> None:
    log.event(42, TAGGED[:at])

    with pytest.raises(CorruptLogError):
        EventScanner(START, lambda _: True).feed(*log.stream())


@given(st.lists(st.tuples(st.integers(0, len(TAGGED) - 1), st.integers(0, 255)), min_size=1, max_size=3))
def test_a_damaged_tagged_gtid_is_an_error_or_another_one(damages: list[tuple[int, int]]) -> None:
    damaged = bytearray(TAGGED)
    for at, byte in damages:
        damaged[at] = byte

    try:
        gtid, _ = parse_tagged_gtid(bytes(damaged))
    except MalformedError:
        return
    assert gtid in MysqlGtids.parse(gtid)


names = st.sampled_from(["", "a", "b_2", "_x", "z" * 32])


@given(st.lists(st.tuples(st.sampled_from([UUID, OTHER]), names, st.integers(1, 30)), unique=True, min_size=1))
def test_a_set_has_what_was_added_and_nothing_else(added: list[tuple[str, str, int]]) -> None:
    found = MysqlGtids({})
    for uuid, tag, number in added:
        found.add(f"{uuid}:{tag}:{number}" if tag else f"{uuid}:{number}")

    again = MysqlGtids.parse(str(found))

    assert str(again) == str(found)
    for uuid in (UUID, OTHER):
        for tag in ("", "a", "b_2", "_x", "z" * 32, "never"):
            for number in range(1, 31):
                gtid = f"{uuid}:{tag}:{number}" if tag else f"{uuid}:{number}"
                assert (gtid in again) == ((uuid, tag, number) in added)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (f"{UUID}:1-5:TAG:1-3:7:other:2", f"{UUID}:1-5:other:2:tag:1-3:7"),
        (f"{OTHER}:1,\n{UUID.upper()}:4:2-3", f"{UUID}:2-4,{OTHER}:1"),
        (f"{UUID}:a:1, {UUID}:5", f"{UUID}:5:a:1"),
        (f"{UUID}:1-1", f"{UUID}:1"),
        ("7-1-9,0-1-42", "0-1-42,7-1-9"),
    ],
)
def test_the_server_s_notation_is_read(text: str, read: str) -> None:
    assert str(parse_gtids(text) or "") == read


@pytest.mark.parametrize(
    "text",
    [
        "0-1",
        "0-1-x",
        "0-1-2,",
        "nonsense",
        "a:b:c",
        f"{UUID}:x-y",
        f"{UUID}:5-1",
        f"{UUID}:0",
        f"{UUID}:1-",
        f"{UUID}:-1",
        f"{UUID}:1_0",
        f"{UUID}:{'9' * 30}",
        f"{UUID}:{'t' * 33}:1",
        f"{UUID}:1,",
        f"{UUID}::",
    ],
)
def test_a_text_that_is_no_set_is_an_error_with_a_remedy(text: str) -> None:
    with pytest.raises(PositionError, match="is no GTID set") as caught:
        EventScanner(BinlogPosition(FILE, 4, 0, text), lambda _: True)

    assert "0-1-42" in caught.value.hint


def test_a_set_of_mariadb_has_what_is_up_to_its_newest() -> None:
    gtids = MariadbGtids.parse("0-1-42,7-3-9")

    assert "0-1-42" in gtids
    assert "7-1-2" in gtids
    assert "0-1-43" not in gtids
    assert "8-1-1" not in gtids


def test_a_tagged_list_of_gtids_is_read() -> None:
    uuid = bytes.fromhex(UUID.replace("-", ""))
    one = struct.pack("<QQQ", 1, 1, 6)
    body = b"\1\3\0\0\0\0\0\1" + uuid + b"\0" + one + uuid + b"\6abc" + one + uuid + b"\2x" + one

    assert str(MysqlGtids.decode_previous(body)) == f"{UUID}:1-5:abc:1-5:x:1-5"
    for at in range(len(body)):
        with pytest.raises(MalformedError):
            MysqlGtids.decode_previous(body[:at])


@pytest.mark.parametrize(
    "body",
    [
        b"\2\1\0\0\0\0\0\2" + bytes(60),
        b"\2\1\0\0\0\0\0\1" + bytes(60),
        b"\1\1\0\0\0\0\0\1" + bytes(16) + b"\3" + bytes(60),
        b"\1\1\0\0\0\0\0\1" + bytes(16) + b"\4:;" + bytes(8),
        b"\1\1\0\0\0\0\0\1" + bytes(16) + b"\6tAg" + bytes(8),
        struct.pack("<Q16sQQQ", 1, b"", 1, 5, 5),
        struct.pack("<Q16sQQQ", 1, b"", 1, 0, 5),
    ],
)
def test_a_damaged_list_of_gtids_is_an_error(log: LogWriter, body: bytes) -> None:
    log.event(35, body)

    with pytest.raises(LogError):
        EventScanner(START, lambda _: True).feed(*log.stream())


@pytest.mark.parametrize(("before", "gtid"), [("0-1-5", f"{UUID}:6"), (f"{UUID}:1-5", "0-1-6")])
def test_a_gtid_of_the_other_kind_of_server_is_malformed(before: str, gtid: str) -> None:
    executed = Executed(before)

    with pytest.raises(MalformedError, match=gtid):
        executed.add(gtid)

    assert executed.text == before


@pytest.mark.parametrize("grouping", [SINGLE, RUNS, FEW])
def test_a_new_file_that_lists_less_than_was_executed_takes_nothing_away(log: LogWriter, grouping: Grouping) -> None:
    uuid, position = bytes.fromhex(UUID.replace("-", "")), BinlogPosition(FILE, log.offset, gtids=f"{UUID}:1-1001")
    for number in range(1002, 1010):
        if number in {1004, 1007}:
            log.rotate(f"mysql-bin.{number:06}")
            log.event(15, log.events[1][19:-4])
            log.event(35, struct.pack("<Q16sQQQ", 1, uuid, 1, 1001, number))
        log.event(33, b"\1" + uuid + struct.pack("<QBQQ", number, 2, 0, 1))
        log.query("BEGIN")
        log.table_map("users")
        log.rows()
        log.xid()

    found = scan(log, position, grouping)

    ends = [item.end.gtids for item in found.items if isinstance(item, TransactionEnded)]
    assert ends == [f"{UUID}:1-{number}" for number in range(1002, 1010)]
    assert len(found.runs) == (grouping is RUNS) * 3
    assert len(found.few) == (grouping is FEW) * 3


uuids = st.sampled_from([f"{digit * 8}-1111-1111-1111-111111111111" for digit in "123"])


@given(st.sets(st.tuples(uuids, st.integers(1, 12))), st.sets(st.tuples(uuids, st.integers(1, 12))))
def test_what_a_server_lacks_is_what_it_has_not_executed(
    here: set[tuple[str, int]], there: set[tuple[str, int]]
) -> None:
    ours, theirs = (MysqlGtids({}) for _ in range(2))
    for gtids, executed in ((ours, here), (theirs, there)):
        for uuid, number in executed:
            gtids.add(f"{uuid}:{number}")
    lacking = MysqlGtids({})
    for uuid, number in there - here:
        lacking.add(f"{uuid}:{number}")

    assert ours.lacking(theirs) == str(lacking)
    assert ours.reaches(theirs) == (there <= here)

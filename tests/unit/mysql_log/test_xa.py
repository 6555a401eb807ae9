"""XA transactions: their rows appear where they are committed, once, whatever is restarted where."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import CorruptLogError, LogError
from penstock.core.mysql.log.log_items import LogAdvanced, LogItem, TransactionBegan, TransactionEnded
from penstock.core.mysql.log.scan import EventScanner
from penstock.core.mysql.types.logged_rows import RowsLogged
from penstock.core.positions import BinlogPosition, PreparedXa, binlog_position
from penstock.core.publication import CaptureRecord

if TYPE_CHECKING:
    from tests.unit.mysql_log.conftest import LogWriter, Recorded

    from penstock.core.tables import TableId

FILE = "mysql-bin.000001"
START = BinlogPosition(FILE, 4)


def wanted(table: TableId) -> bool:
    return table.name != "secret"


def scan(log: LogWriter, position: BinlogPosition = START, prepared_bytes_max: int = 1 << 20) -> list[LogItem]:
    """Read from `position` as from a server, and raise what there is to raise."""
    scanner = EventScanner(position, wanted, held_bytes_max=1 << 10, prepared_bytes_max=prepared_bytes_max)
    items = scanner.feed(*log.served(*position.read_from))
    scanner.feed(b"", ())
    return items


def rows_of(items: list[LogItem]) -> list[RowsLogged]:
    return [item for item in items if isinstance(item, RowsLogged)]


def kept(position: BinlogPosition) -> BinlogPosition:
    """The position as it comes back from Kafka."""
    return binlog_position(CaptureRecord.from_mapping(CaptureRecord(position, 1, 0).to_mapping()).position)


def row(number: int) -> bytes:
    return b"\x01\x01\xfe" + number.to_bytes(4, "little")


@pytest.mark.parametrize("name", ["mysql-9.7-xa", "mysql-9.7-xa-compressed", "mariadb-10.11-xa"])
def test_the_rows_of_a_server_appear_where_they_are_committed(recorded: Recorded, name: str) -> None:
    items = EventScanner(START, wanted).feed(*recorded(name))

    rows = rows_of(items)
    texts = [b"between", b"prepared" * 20, b"prepared", b"one phase", b"plain"]

    assert [item.payload[-len(text) :] for item, text in zip(rows, texts, strict=True)] == texts
    places = [(item.rows_offset, item.first_row) for item in rows]
    assert places == sorted(set(places))
    assert [item.op for item in rows] == ["c", "c", "u", "c", "c"]


@pytest.mark.parametrize("name", ["mysql-9.7-xa", "mysql-9.7-xa-compressed", "mariadb-10.11-xa"])
def test_every_place_of_a_server_s_log_can_be_gone_on_from(recorded: Recorded, name: str) -> None:
    whole = EventScanner(START, wanted).feed(*recorded(name))
    boundary, began = START, whole[0]

    for index, item in enumerate(whole[:-1]):
        match item:
            case TransactionBegan():
                began = item
            case RowsLogged():
                assert isinstance(began, TransactionBegan)
                here = BinlogPosition(FILE, began.offset, item.rows_from, boundary.gtids, boundary.prepared)
                assert EventScanner(kept(here), wanted).feed(*recorded(name)) == [began, *whole[index:]]
            case TransactionEnded(end=end):
                boundary = end
                assert EventScanner(kept(end), wanted).feed(*recorded(name)) == whole[index + 1 :]
            case _:
                pass


@dataclass
class World:
    """A log, and what should come of it: the rows of each committed transaction, in commit order."""

    log: LogWriter
    committed: list[list[bytes]] = field(default_factory=list)
    prepared: dict[bytes, list[bytes]] = field(default_factory=dict)
    rows: int = 0

    def new_rows(self, count: int) -> list[bytes]:
        self.rows += count
        return [row(number) for number in range(self.rows - count, self.rows)]

    def act(self, action: str, name: bytes, count: int) -> None:
        match action:
            case "prepare" if name not in self.prepared:
                self.prepared[name] = self.new_rows(count)
                self.log.xa_prepare(name, rows=self.prepared[name])
            case "prepare other" if name not in self.prepared:
                self.prepared[name] = []
                self.log.xa_prepare(name, table="secret")
            case "commit" if name in self.prepared:
                self.committed.append(self.prepared.pop(name))
                self.log.xa_finish("COMMIT", name)
            case "roll back" if name in self.prepared:
                del self.prepared[name]
                self.log.xa_finish("ROLLBACK", name)
            case "insert":
                self.committed.append(self.new_rows(1))
                self.log.gtid(3)
                self.log.table_map("users")
                self.log.rows(self.committed[-1][0])
                self.log.xid()
            case "rotate":
                self.log.rotate(f"mysql-bin.{int(self.log.file[-6:]) + 1:06}")
                self.log.event(15, self.log.events[1][19:-4])
            case _:
                pass


actions = st.tuples(
    st.sampled_from(["prepare", "prepare other", "commit", "commit", "roll back", "insert", "rotate"]),
    st.sampled_from([b"a", b"b", b"c"]),
    st.integers(0, 3),
)


@given(st.lists(actions, max_size=14))
def test_from_every_position_exactly_what_is_left_comes(
    log_writer: type[LogWriter], acts: list[tuple[str, bytes, int]]
) -> None:
    world = World(log_writer().opening())
    for action, name, count in acts:
        world.act(action, name, count)
    whole = scan(world.log)

    assert [item.payload for item in rows_of(whole)] == [rows for part in world.committed for rows in part]
    boundary, began = START, None
    for index, item in enumerate(whole):
        match item:
            case TransactionBegan():
                began = item
            case RowsLogged():
                assert began is not None
                here = BinlogPosition(item.file, began.offset, item.rows_from, boundary.gtids, boundary.prepared)
                assert scan(world.log, kept(here)) == [began, *whole[index:]]
            case _:
                assert isinstance(item, TransactionEnded | LogAdvanced)
                boundary = item.end
                assert scan(world.log, kept(boundary)) == whole[index + 1 :]


def test_rows_are_those_of_the_commit(log: LogWriter) -> None:
    log.xa_prepare(b"x", rows=[row(1), row(2)])
    log.insert(5)
    begin = log.xa_finish("COMMIT", b"x")
    query = log.starts[-1]

    items = scan(log)

    assert items[-4] == TransactionBegan(FILE, begin, "0-7-2", 1_700_000_000_000)
    assert [(item.offset, item.inside, item.gtid) for item in rows_of(items)[1:]] == [
        (query, 0, "0-7-2"),
        (query, 7, "0-7-2"),
    ]


def test_a_position_lists_what_is_prepared_and_reads_again_only_what_has_wanted_rows(log: LogWriter) -> None:
    first = log.xa_prepare(b"other", table="secret")
    second = log.xa_prepare(b"ours")

    end = scan(log)[-1]

    assert isinstance(end, TransactionEnded)
    assert end.end.prepared == (PreparedXa("X'6f74686572',X'',1"), PreparedXa("X'6f757273',X'',1", FILE, second))
    assert end.end.read_from == (FILE, second)
    assert second > first


def test_a_copy_s_position_finds_what_was_prepared_shortly_before_it(log: LogWriter) -> None:
    log.xa_prepare(b"before", rows=[row(0)])
    log.xa_finish("COMMIT", b"before")
    place = log.offset
    log.xa_prepare(b"open", rows=[row(1)])
    log.xa_prepare(b"done", rows=[row(2)])
    log.xa_finish("COMMIT", b"done")
    position = BinlogPosition(FILE, log.offset, prepared=(PreparedXa("", FILE, place),))
    log.xa_finish("COMMIT", b"open")

    items = scan(log, kept(position))

    assert [type(item) for item in items] == [TransactionBegan, RowsLogged, TransactionEnded]
    assert rows_of(items)[0].payload == row(1)
    assert isinstance(items[-1], TransactionEnded)
    assert items[-1].end.prepared == ()


def test_on_the_way_to_a_position_nothing_else_is_looked_at(log: LogWriter) -> None:
    place = log.xa_prepare(b"x", rows=[row(1)])
    log.gtid(4)
    log.table_map("users")
    log.rows(b"not decoded", code=166)
    log.query("ROLLBACK")
    log.gtid(5, flags=1)
    log.query("DROP TABLE users")
    position = BinlogPosition(FILE, log.offset, prepared=(PreparedXa("X'78',X'',1", FILE, place),))
    log.xa_finish("COMMIT", b"x")

    assert [item.payload for item in rows_of(scan(log, position))] == [row(1)]


def test_at_the_end_of_the_log_a_reader_has_arrived(log: LogWriter) -> None:
    place = log.xa_prepare(b"x")
    position = BinlogPosition(FILE, log.offset, gtids="0-7-1", prepared=(PreparedXa("X'78',X'',1", FILE, place),))
    log.event(27, FILE.encode(), end=log.offset)

    scanner = EventScanner(position, wanted)
    items = scanner.feed(*log.served(*position.read_from))

    assert [item.end for item in items if not isinstance(item, RowsLogged | TransactionBegan)] == [position]
    assert scanner.advanced() == []
    log.events.pop()
    log.files.pop()
    log.starts.pop()
    quiet = EventScanner(position, wanted)
    assert quiet.feed(*log.served(*position.read_from)) == []
    assert [item.end for item in quiet.advanced() if not isinstance(item, RowsLogged | TransactionBegan)] == [position]


@pytest.mark.parametrize("crashed", [False, True])
def test_at_the_end_of_a_file_a_reader_of_one_file_reads_no_further(log: LogWriter, *, crashed: bool) -> None:
    place = log.xa_prepare(b"x")
    position = BinlogPosition(FILE, log.offset, prepared=(PreparedXa("X'78',X'',1", FILE, place),))
    second = "mysql-bin.000002"
    if crashed:
        log.file, log.offset = second, 4
        log.event(4, b"\4\0\0\0\0\0\0\0" + second.encode(), flags=0x20)
    else:
        log.rotate(second)
    log.event(15, log.events[1][19:-4])
    log.insert(3)

    scanner = EventScanner(position, wanted, one_file=True)
    items = scanner.feed(*log.served(*position.read_from))

    assert items == [LogAdvanced(BinlogPosition(second, 4, prepared=position.prepared))]
    assert scanner.file_ended
    assert scan(log, position)[0] == items[0]
    (arrived,) = (item.end for item in items if isinstance(item, LogAdvanced))
    assert rows_of(EventScanner(arrived, wanted, one_file=True).feed(*log.served(*arrived.read_from)))


def test_a_commit_of_what_was_prepared_before_we_came_is_an_error(log: LogWriter) -> None:
    start = log.xa_finish("COMMIT", b"who")

    with pytest.raises(LogError, match=rf"XA COMMIT X'77686f',X'',1 at {FILE}:{log.starts[-1]}") as caught:
        scan(log)

    assert start < log.starts[-1]
    assert "start a new pipeline with an initial snapshot" in caught.value.hint


def test_a_rollback_of_what_was_prepared_before_we_came_is_none_of_our_business(log: LogWriter) -> None:
    log.xa_finish("ROLLBACK", b"who")

    assert [type(item) for item in scan(log)] == [TransactionEnded]


def test_what_a_position_lists_must_be_where_it_says(log: LogWriter) -> None:
    place = log.xa_prepare(b"x")
    position = BinlogPosition(FILE, log.offset, prepared=(PreparedXa("X'79',X'',1", FILE, place),))
    log.insert(1)

    with pytest.raises(LogError, match="is not at"):
        scan(log, position)


def test_more_than_can_be_held_is_an_error_with_a_remedy(log: LogWriter) -> None:
    log.xa_prepare(b"x", rows=[row(1)])
    log.xa_prepare(b"y", rows=[row(1), row(2)])

    assert len(scan(log, prepared_bytes_max=150)) == 2
    with pytest.raises(LogError, match="held until XA COMMIT") as caught:
        scan(log, prepared_bytes_max=100)

    assert "smaller" in caught.value.hint


def test_a_name_may_be_used_again(log: LogWriter) -> None:
    for number in (1, 2):
        log.xa_prepare(b"x", rows=[row(number)])
    log.xa_finish("COMMIT", b"x")

    assert [item.payload for item in rows_of(scan(log))] == [row(2)]


def test_a_statement_in_an_xa_transaction_is_an_error(log: LogWriter) -> None:
    log.gtid(1, flags=0x48, rest=b"\1\0\0\0\1\0x")
    log.query("INSERT INTO users VALUES (1)")

    with pytest.raises(LogError, match="is a statement in an XA transaction") as caught:
        scan(log)

    assert "binlog_format=ROW" in caught.value.hint


def test_a_harmless_statement_in_an_xa_transaction_is_passed_over(log: LogWriter) -> None:
    log.gtid(1, flags=0x48, rest=b"\1\0\0\0\1\0x")
    log.query("RELEASE SAVEPOINT `s`")
    log.event(38, b"\0\1\0\0\0\1\0\0\0\0\0\0\0x")

    assert [type(item) for item in scan(log)] == [TransactionEnded]


def test_a_log_that_ends_before_the_position_is_an_error(log: LogWriter) -> None:
    place = log.xa_prepare(b"x")
    position = BinlogPosition(FILE, log.offset + 1000, prepared=(PreparedXa("X'78',X'',1", FILE, place),))
    scanner = EventScanner(position, wanted)
    assert scanner.feed(*log.served(*position.read_from)) == []

    with pytest.raises(LogError, match=f"the log ends at {FILE}:{log.offset}, before {FILE}:{position.offset}"):
        scanner.advanced()

    log.event(27, FILE.encode(), end=log.offset)
    with pytest.raises(LogError, match="the log ends at"):
        scan(log, position)


def test_a_position_in_the_middle_of_a_transaction_is_noticed_on_the_way(log: LogWriter) -> None:
    place = log.xa_prepare(b"x")
    log.gtid(2)
    position = BinlogPosition(FILE, log.offset, prepared=(PreparedXa("X'78',X'',1", FILE, place),))
    log.table_map("users")

    with pytest.raises(CorruptLogError, match="in the middle of a transaction"):
        scan(log, position)


@pytest.mark.parametrize(
    "sql", ["XA COMMIT", "XA COMMIT x", "XA COMMIT X'1',X'',1", "XA COMMIT X'',X'',", "XA COMMIT X'zz',X'',1"]
)
def test_a_name_that_is_none_is_an_error(log: LogWriter, sql: str) -> None:
    log.gtid(1, flags=1)
    log.query(sql + " ")

    with pytest.raises(CorruptLogError, match="the name of an XA transaction"):
        scan(log)

"""Messages with their places."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.postgres_log import pgoutput_encoding as encoding

from penstock.core.changes import Op
from penstock.core.errors import CorruptLogError
from penstock.core.positions import WalPosition, parse_lsn
from penstock.core.postgres.catalog import DDL_LOG
from penstock.core.postgres.log_items import (
    STEPS_PER_ROW,
    LogAdvanced,
    PostgresItem,
    RelationSeen,
    RowLogged,
    RowsLogged,
    ShortTransactions,
    TableAltered,
    TablesTruncated,
    TransactionEnded,
)
from penstock.core.postgres.scan import PgoutputScanner

_TABLE = encoding.relation([("id", encoding.INT4), ("name", encoding.TEXT)])


def _scan(start: WalPosition, messages: list[bytes]) -> list[PostgresItem]:
    scanner = PgoutputScanner(start)
    return [item for message in messages for item in scanner.take(message)]


def _place(item: PostgresItem) -> tuple[int, int]:
    if isinstance(item, TransactionEnded | LogAdvanced):
        return item.end.lsn, 0
    assert not isinstance(item, ShortTransactions | RowsLogged)
    return item.transaction.lsn, item.number


def _log(transactions: int, rows: int) -> list[bytes]:
    messages = [encoding.encode_begin(100), encoding.encode_relation(_TABLE), encoding.encode_commit(100, 110)]
    for number in range(transactions):
        lsn = 200 + number * 100
        messages += [encoding.encode_begin(lsn), encoding.encode_relation(_TABLE)]
        messages += [encoding.encode_insert(_TABLE.oid, (str(row).encode(), b"x")) for row in range(rows)]
        messages += [encoding.encode_truncate([_TABLE.oid]), encoding.encode_commit(lsn, lsn + 50)]
    return messages


def test_rows_have_places_that_go_up_and_lie_between_those_of_their_transactions_ends() -> None:
    items = _scan(WalPosition(0), _log(2, 3))

    placed = [
        item.end.order if isinstance(item, TransactionEnded) else (0, item.transaction.lsn, item.number)
        for item in items
        if isinstance(item, RowLogged | TablesTruncated | TransactionEnded)
    ]
    assert placed == sorted(set(placed))


@given(st.integers(0, 30))
def test_a_stream_that_begins_inside_a_transaction_goes_on_where_the_other_broke_off(rows_from: int) -> None:
    whole = [i for i in _scan(WalPosition(0), _log(2, 5)) if not isinstance(i, RelationSeen)]

    again = _scan(WalPosition(200, rows_from), _log(2, 5)[3:])

    rest = [item for item in whole if _place(item) >= (200, rows_from) and _place(item) > (150, 0)]
    assert [item for item in again if not isinstance(item, RelationSeen)] == rest


def test_a_table_is_described_ahead_of_the_row_that_follows() -> None:
    items = _scan(WalPosition(0), _log(1, 1))

    seen = [item for item in items if isinstance(item, RelationSeen)][-1]
    row = next(item for item in items if isinstance(item, RowLogged))
    assert seen.number == row.number
    assert row.op is Op.CREATE


def test_a_truncate_is_behind_the_descriptions_of_all_of_its_tables() -> None:
    tables = [encoding.relation([("id", encoding.INT4)], oid=16400 + number) for number in range(9)]
    described = [encoding.encode_relation(table) for table in tables]
    emptied = encoding.encode_truncate([table.oid for table in tables])

    items = _scan(WalPosition(0), [encoding.encode_begin(200), *described, emptied, encoding.encode_commit(200, 250)])

    seen = [item for item in items if isinstance(item, RelationSeen)]
    truncated = next(item for item in items if isinstance(item, TablesTruncated))
    # Each of them may be a statement, one place behind the one before.
    assert seen[0].number - STEPS_PER_ROW + 1 + len(seen) <= truncated.number
    assert {item.ahead_of for item in seen} == {truncated.number}


def test_a_partition_whose_rows_arrive_as_its_roots_is_not_described() -> None:
    part = encoding.relation([("id", encoding.INT4), ("name", encoding.TEXT)], oid=16500)
    described = [encoding.encode_relation(_TABLE), encoding.encode_relation(part)]
    rows = [encoding.encode_insert(_TABLE.oid, (b"1", b"x"))] * 2

    items = _scan(WalPosition(0), [encoding.encode_begin(100), *described, *rows])

    assert [type(item) for item in items] == [RelationSeen, RowLogged, RowLogged]


def test_what_cannot_stand_where_it_is_stops_the_log() -> None:
    for messages in (
        [encoding.encode_insert(1, (b"1",))],
        [encoding.encode_begin(1), encoding.encode_insert(1, (b"1",))],
        [encoding.encode_begin(1), encoding.encode_relation(_TABLE), encoding.encode_insert(_TABLE.oid, (b"1",))],
        [b"?"],
    ):
        with pytest.raises(CorruptLogError):
            _scan(WalPosition(0), messages)


def test_rest_is_news_only_between_transactions_and_only_ahead() -> None:
    scanner = PgoutputScanner(WalPosition(100))

    assert scanner.at_rest(100) is None
    advanced = scanner.at_rest(120)
    list(scanner.take(encoding.encode_begin(130)))
    inside = scanner.at_rest(140)

    assert advanced is not None
    assert advanced.end.lsn == 120
    assert inside is None


@given(st.integers(0, 2**64 - 1))
def test_an_lsn_is_printed_and_read_back(lsn: int) -> None:
    assert parse_lsn(str(WalPosition(lsn))) == lsn


def test_a_rollback_that_the_server_tells_of_unasked_changes_nothing() -> None:
    """PostgreSQL 18 does so of subtransactions that are decoded when they are over (Stream Abort)."""
    log, told = _log(1, 20), b"A" + bytes(4) + bytes(4)
    (begin, *_) = [at for at, message in enumerate(log) if message[:1] == b"B" and at]
    scanner = PgoutputScanner(WalPosition(0))

    items = list(scanner.take_all([*log[:begin], told, *log[begin : begin + 3], told, *log[begin + 3 :]]))

    rows = [len(item.messages) if isinstance(item, RowsLogged) else isinstance(item, RowLogged) for item in items]
    assert sum(rows) == 20
    assert isinstance(items[-1], TransactionEnded)


@given(st.integers(0, 30))
def test_what_triggers_wrote_down_has_the_place_of_a_row_and_comes_one_by_one(rows_from: int) -> None:
    columns = encoding.relation([("number", encoding.INT4), ("described", encoding.TEXT)], oid=77)
    log = replace(columns, schema=DDL_LOG.schema, name=DDL_LOG.name)
    inside = [
        encoding.encode_relation(log),
        *(encoding.encode_insert(log.oid, (b"1", b"%d" % index)) for index in range(5)),
        encoding.encode_delete(log.oid, (b"1", None)),
        encoding.encode_truncate([log.oid, _TABLE.oid]),
        encoding.encode_insert(_TABLE.oid, (b"1", b"x")),
    ]
    messages = [encoding.encode_begin(200), encoding.encode_relation(_TABLE), *inside, encoding.encode_commit(200, 250)]

    whole = list(PgoutputScanner(WalPosition(0)).take_all(messages))
    again = list(PgoutputScanner(WalPosition(200, rows_from)).take_all(messages))

    altered = [item for item in whole if isinstance(item, TableAltered)]
    assert [(item.written, item.number) for item in altered] == [(b"%d" % k, STEPS_PER_ROW * k + 3) for k in range(5)]
    assert [i for i in again if isinstance(i, TableAltered)] == [i for i in altered if i.number >= rows_from]
    (emptied,) = [item for item in whole if isinstance(item, TablesTruncated)]
    (row,) = [item for item in whole if isinstance(item, RowLogged)]
    assert (emptied.relations, emptied.number, row.number) == ((_TABLE,), 31, 35)

"""Many rows at once, and many short transactions, are what they are one by one."""

from __future__ import annotations

import datetime as dt
from itertools import chain, cycle
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.postgres_log import pgoutput_encoding as encoding

from penstock.core.errors import CorruptLogError, TableStoppedError
from penstock.core.positions import WalPosition
from penstock.core.postgres import types
from penstock.core.postgres.log_items import RowLogged, RowsLogged, ShortTransactions, TransactionEnded, items_until
from penstock.core.postgres.messages import UNCHANGED, Relation, RelationColumn, Unchanged
from penstock.core.postgres.relations import table_schema
from penstock.core.postgres.rows import RowDecoder
from penstock.core.postgres.scan import PgoutputScanner
from penstock.core.postgres.types import TypeInfo

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.postgres.log_items import PostgresItem
    from penstock.core.postgres.rows import ArrowArray

_INT4S = 1007
_ROWS = (RowLogged, RowsLogged)
_CATALOG = {
    **{oid: TypeInfo(f"t{oid}") for oid in (types.BOOL, types.INT2, types.INT4, types.INT8, types.OID, types.TEXT)},
    **{oid: TypeInfo(f"t{oid}") for oid in (types.FLOAT4, types.FLOAT8, types.NUMERIC, types.BYTEA, types.JSONB)},
    **{oid: TypeInfo(f"t{oid}") for oid in (types.DATE, types.TIME, types.TIMESTAMP, types.TIMESTAMPTZ, types.UUID)},
    _INT4S: TypeInfo("_int4", element=types.INT4),
}


def _moment(moment: dt.datetime) -> str:
    text = moment.isoformat(sep=" ")
    return text.rstrip("0") if moment.microsecond else text


def _integers(bits: int) -> st.SearchStrategy[str]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1).map(str)


_PRINTED: dict[tuple[int, int], st.SearchStrategy[str]] = {
    (types.INT4, -1): _integers(32),
    (types.INT2, -1): _integers(16),
    (types.INT8, -1): _integers(64),
    (types.OID, -1): st.integers(0, (1 << 32) - 1).map(str),
    (types.BOOL, -1): st.sampled_from(["t", "f"]),
    (types.FLOAT4, -1): st.floats(width=32).map(lambda each: str(each).replace("inf", "Infinity")),
    (types.FLOAT8, -1): st.floats().map(lambda each: str(each).replace("inf", "Infinity").replace("nan", "NaN")),
    (types.NUMERIC, (12 << 16 | 2) + 4): st.decimals(-(10**9), 10**9, places=2).map(lambda each: f"{each:f}"),
    (types.NUMERIC, (60 << 16 | 5) + 4): st.decimals(-(10**9), 10**9, places=5).map(lambda each: f"{each:f}"),
    (types.NUMERIC, -1): st.sampled_from(["NaN", "1.5", "-Infinity", "0.00001"]),
    (types.DATE, -1): st.dates().map(dt.date.isoformat),
    (types.TIME, -1): st.times().map(dt.time.isoformat) | st.just("24:00:00"),
    (types.TIMESTAMP, -1): st.datetimes().map(_moment),
    (types.TIMESTAMPTZ, -1): st.datetimes().map(lambda each: f"{_moment(each)}+00"),
    (types.BYTEA, -1): st.binary(max_size=5).map(lambda each: rf"\x{each.hex()}"),
    (types.TEXT, -1): st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    (types.JSONB, -1): st.sampled_from(["{}", '{"a": "ü"}']),
    (types.UUID, -1): st.uuids().map(str),
    (_INT4S, -1): st.sampled_from(["{}", "{1,NULL,-3}"]),
}
_REFUSED = st.sampled_from(["infinity", "NaN", "0044-03-15 BC", "10000-01-01", "", "x", "{", r"\x0", "\0"])


def _relation(identity: str) -> Relation:
    columns = [RelationColumn(f"c{i}", oid, modifier, i == 0) for i, (oid, modifier) in enumerate(_PRINTED)]
    return Relation(16400, "public", "t", identity, tuple(columns))  # type: ignore[arg-type]


@st.composite
def _cells(draw: st.DrawFn, *, may_lack: bool) -> tuple[bytes | Unchanged | None, ...]:
    key, *rest = _PRINTED.values()
    nothing = st.sampled_from([None, UNCHANGED]) if may_lack else st.none()
    keys = key.map(str.encode) | st.just(UNCHANGED) if may_lack else key.map(str.encode)
    return draw(keys), *(draw(nothing | each.map(str.encode)) for each in rest)


@st.composite
def _logs(draw: st.DrawFn) -> tuple[Relation, list[bytes]]:
    """Rows in runs that are long enough to be read at once, made of a few rows again and again, and short ones."""
    identity = draw(st.sampled_from("df"))
    table, messages = _relation(identity), list[bytes]()
    for _ in range(draw(st.integers(1, 4))):
        kind, lacks = draw(st.sampled_from("IUDVK")), draw(st.booleans())
        rows = draw(st.lists(_cells(may_lack=lacks and kind in "UVK"), min_size=1, max_size=3))
        for index, cells in enumerate((rows * 20)[: draw(st.sampled_from([2, 16, 30]))]):
            match kind:
                case "I":
                    messages.append(encoding.encode_insert(table.oid, cells))
                case "U":
                    messages.append(encoding.encode_update(table.oid, None, cells))
                case "V":
                    whole = tuple(None if cell is UNCHANGED else cell for cell in rows[(index + 1) % len(rows)])
                    messages.append(encoding.encode_update(table.oid, whole, cells, whole=True))
                case "K":
                    key = b"7" if rows[index % 2 - 1][0] is UNCHANGED else rows[index % 2 - 1][0]
                    messages.append(encoding.encode_update(table.oid, (key, *[None] * (len(cells) - 1)), cells))
                case _:
                    old = cells if identity == "f" else (cells[0], *[None] * (len(cells) - 1))
                    messages.append(encoding.encode_delete(table.oid, old, whole=identity == "f"))
    begin = [encoding.encode_begin(100), encoding.encode_relation(table)]
    return table, [*begin, *messages, encoding.encode_commit(100, 110), *_short(table, messages, draw(_SHAPES))]


_SHAPES = st.lists(
    st.tuples(st.sampled_from([1, 2, 40]), st.booleans(), st.booleans(), st.sampled_from([10, 100, 1 << 32])),
    min_size=1,
    max_size=3,
)


def _short(table: Relation, rows: list[bytes], shapes: list[tuple[int, bool, bool, int]]) -> list[bytes]:
    """The same rows in transactions of a few, with and without TRUNCATE ahead, some in the next 4 GiB of the log."""
    lsn, messages = 200, list[bytes]()
    for count, is_truncated, is_empty, gap in cycle(shapes):
        now, rows = rows[:count], rows[count:]
        odd = [encoding.encode_truncate([table.oid])] * is_truncated
        inside = [odd + now, []] if is_empty else [odd + now]
        for changes in inside:
            messages += [encoding.encode_begin(lsn, lsn % 1000, lsn), *changes, encoding.encode_commit(lsn, lsn + 9)]
            lsn += gap
        if not rows:
            return messages
    return messages


def _scan(messages: list[bytes], start: WalPosition, *, at_once: bool) -> list[PostgresItem]:
    scanner = PgoutputScanner(start)
    if at_once:
        return list(scanner.take_all(messages))
    return [item for message in messages for item in scanner.take(message)]


def _rows(items: list[PostgresItem]) -> list[RowLogged | RowsLogged]:
    rows: list[RowLogged | RowsLogged] = []
    for item in items:
        rows += item.rows if isinstance(item, ShortTransactions) else [item] if isinstance(item, _ROWS) else []
    return rows


def _decoded_or_refused(table: Relation, items: list[PostgresItem]) -> list[tuple[object, ...]] | str:
    try:
        return _decoded(table, items)
    except TableStoppedError as error:
        return error.message


def _end(items: list[PostgresItem]) -> WalPosition:
    """Where the last transaction ends."""
    return [item.end for item in items if isinstance(item, ShortTransactions | TransactionEnded)][-1]


def _decoded(table: Relation, items: list[PostgresItem]) -> list[tuple[object, ...]]:
    """All rows in log order, each with everything that its batch says of it."""
    rows = _rows(items)
    told: list[tuple[object, ...]] = []
    for batch in RowDecoder.of(table_schema(table, None, _CATALOG), table, _CATALOG).decode(rows):
        assert batch.serials is not None
        befores, afters = (
            [None] * len(batch) if image is None else [repr(row) for row in image.to_pylist()]
            for image in (batch.before, batch.after)
        )
        shared = batch.op, batch.file, batch.before_lacks, batch.after_lacks
        each = batch.serials, batch.offsets, batch.rows, batch.timestamps_ms, batch.gtids.to_pylist()
        told += [(*row, *shared) for row in zip(*each, befores, afters, strict=True)]
    return sorted(told, key=lambda row: row[0])  # type: ignore[arg-type,return-value]


@settings(max_examples=20)
@given(_logs())
def test_rows_read_at_once_are_those_that_are_read_one_by_one(log: tuple[Relation, list[bytes]]) -> None:
    table, messages = log

    at_once = _scan(messages, WalPosition(0), at_once=True)

    one_by_one = _scan(messages, WalPosition(0), at_once=False)
    assert _decoded_or_refused(table, at_once) == _decoded_or_refused(table, one_by_one)
    assert _end(at_once) == _end(one_by_one)


@settings(max_examples=10)
@given(_logs(), st.sampled_from([100, 200]), st.integers(0, 200))
def test_a_stream_that_begins_inside_a_transaction_has_the_same_rows(
    log: tuple[Relation, list[bytes]], lsn: int, rows_from: int
) -> None:
    table, messages = log
    if lsn > 100:
        messages = [*messages[:2], *messages[messages.index(encoding.encode_commit(100, 110)) :]]
    start = WalPosition(lsn, rows_from)

    at_once = _scan(messages, start, at_once=True)

    one_by_one = _scan(messages, start, at_once=False)
    assert _decoded_or_refused(table, at_once) == _decoded_or_refused(table, one_by_one)


@given(st.sampled_from(list(_PRINTED)), st.data())
def test_a_column_is_read_or_refused_as_its_values_are_one_by_one(kind: tuple[int, int], data: st.DataObject) -> None:
    table = encoding.relation([("id", types.INT4)])
    table = Relation(table.oid, "public", "t", "d", (RelationColumn("id", *kind, in_identity=True),))
    decoder = RowDecoder.of(table_schema(table, None, _CATALOG), table, _CATALOG)
    values = data.draw(st.lists(st.none() | _PRINTED[kind].map(str.encode), max_size=3))
    values += data.draw(st.lists(_REFUSED.map(str.encode), max_size=1))

    at_once = _outcome(lambda: decoder._column(0, pa.array(values, pa.binary()), str))

    assert at_once == _outcome(lambda: decoder._column_one_by_one(0, values, str))


def _outcome(read: Callable[[], ArrowArray]) -> str:
    try:
        return repr(pa.table({"": read()}).to_pylist())
    except (TableStoppedError, pa.ArrowException) as error:
        return f"{type(error)} {error}"


def test_rows_that_lack_large_values_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    table = encoding.relation([("id", types.INT4), ("a", types.TEXT), ("b", types.TEXT)])
    lacking: list[tuple[bytes | Unchanged | None, ...]] = [
        (UNCHANGED, b"b"),
        (b"a", UNCHANGED),
        (UNCHANGED, UNCHANGED),
        (b"a", b"b"),
    ]
    rows = [encoding.encode_update(table.oid, None, (b"%d" % i, *lacking[i % 4])) for i in range(40)]
    moved = [encoding.encode_update(table.oid, (b"%d" % i, None, None), (b"-%d" % i, b"a", b"b")) for i in range(40)]
    items = _scan(
        [encoding.encode_begin(100), encoding.encode_relation(table), *rows, *moved], WalPosition(0), at_once=True
    )
    monkeypatch.setattr("penstock.core.postgres.rows.rows_of", None)

    told = _decoded(table, items)

    assert [row[6] for row in told[:4]] == [
        "{'id': 0, 'a': None, 'b': 'b'}",
        "{'id': 1, 'a': 'a', 'b': None}",
        "{'id': 2, 'a': None, 'b': None}",
        "{'id': 3, 'a': 'a', 'b': 'b'}",
    ]
    assert [row[-1] for row in told[:4]] == [("a",), ("b",), ("a", "b"), ()]
    assert told[-1][5:7] == ("{'id': 39, 'a': None, 'b': None}", "{'id': -39, 'a': 'a', 'b': 'b'}")


def test_a_bad_value_in_many_rows_is_named_with_its_place() -> None:
    table = encoding.relation([("id", types.INT4)])
    rows = [encoding.encode_insert(table.oid, (b"x" if row == 41 else b"1",)) for row in range(60)]
    log = [encoding.encode_begin(100), encoding.encode_relation(table), *rows[:20], *rows[20:]]

    with pytest.raises(TableStoppedError, match=r"public\.t\.c?id stopped at 0/64 row 41"):
        _decoded(table, _scan(log, WalPosition(0), at_once=True))


@pytest.mark.parametrize(
    "bad", [b"\0\2n", b"\0\1x", b"\0\1t\0\0\0\5ab", b"\0\1n\0", b"\0", b"", b"\0\1t\xff\xff\xff\xff"]
)
def test_a_malformed_row_among_many_stops_the_capture(bad: bytes) -> None:
    table = encoding.relation([("id", types.INT4)])
    rows = [encoding.encode_insert(table.oid, (b"1",))] * 30
    rows[17] = rows[17][:6] + bad
    items = _scan([encoding.encode_begin(100), encoding.encode_relation(table), *rows], WalPosition(0), at_once=True)

    with pytest.raises(CorruptLogError, match="0/64"):
        _decoded(table, items)


def test_many_rows_weigh_what_they_weigh_one_by_one_at_least() -> None:
    table = encoding.relation([("id", types.INT4), *((f"c{i}", types.INT8) for i in range(200))])
    rows = [encoding.encode_insert(table.oid, (b"1", *[None] * 200))] * 30
    log = [encoding.encode_begin(100), encoding.encode_relation(table), *rows]

    at_once, one_by_one = (
        sum(each.weight_bytes for each in _rows(_scan(log, WalPosition(0), at_once=way))) for way in (True, False)
    )

    assert at_once >= one_by_one > 30 * 200


def test_many_rows_of_one_kind_are_one_item() -> None:
    table = encoding.relation([("id", types.INT4)])
    rows = [encoding.encode_insert(table.oid, (b"1",))] * 30
    items = _scan([encoding.encode_begin(100), encoding.encode_relation(table), *rows], WalPosition(0), at_once=True)

    (run,) = (item for item in items if isinstance(item, RowsLogged))

    # The table is described ahead of the first row, which is read alone.
    assert len(run.messages) == 29


@given(_SHAPES, st.data())
def test_short_transactions_are_cut_at_the_first_end_behind_a_stop(
    shapes: list[tuple[int, bool, bool, int]], data: st.DataObject
) -> None:
    table = encoding.relation([("id", types.INT4)])
    row, gone = encoding.encode_insert(table.oid, (b"1",)), encoding.encode_delete(table.oid, (b"1",))
    begun = [encoding.encode_begin(100), encoding.encode_relation(table), encoding.encode_commit(100, 110)]
    messages = [*begun, *_short(table, [row, row, gone] * 9, shapes)]
    one_by_one = _scan(messages, WalPosition(0), at_once=False)
    ends = [item.end for item in one_by_one if isinstance(item, TransactionEnded)]
    stop = WalPosition(data.draw(st.sampled_from(ends)).lsn - data.draw(st.integers(0, 9)))

    wanted = items_until(_scan(messages, WalPosition(0), at_once=True), stop)

    singles = items_until(one_by_one, stop)
    assert _decoded(table, list(wanted)) == _decoded(table, list(singles))
    assert _end(list(wanted)) == _end(list(singles))


def test_short_transactions_are_one_item_up_to_what_has_to_be_looked_at() -> None:
    table = encoding.relation([("id", types.INT4)])
    row = encoding.encode_insert(table.oid, (b"1",))
    singles = [[encoding.encode_begin(lsn), row, encoding.encode_commit(lsn, lsn + 5)] for lsn in range(200, 500, 10)]
    long = [encoding.encode_begin(600), *[row] * 300, encoding.encode_commit(600, 610)]
    log = [encoding.encode_begin(100), encoding.encode_relation(table), row, encoding.encode_commit(100, 110)]

    items = _scan([*log, *chain.from_iterable(singles), *long], WalPosition(0), at_once=True)

    assert [type(item).__name__ for item in items] == [
        "RelationSeen",
        "RowLogged",
        "TransactionEnded",
        "ShortTransactions",
        "RowsLogged",
        "TransactionEnded",
    ]

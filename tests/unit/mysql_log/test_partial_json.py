"""JSON documents that MySQL logs as differences: the new document is exact, or its table stops."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.mysql_log.row_encoding import nested_json

from penstock.core.changes import Op
from penstock.core.errors import TableStoppedError
from penstock.core.mysql.log.scan import EventScanner
from penstock.core.mysql.rows import decode
from penstock.core.mysql.rows.decode import batch_key, decode_rows
from penstock.core.mysql.types.bytes_reader import MalformedError
from penstock.core.mysql.types.json_diff import ChangedJson
from penstock.core.mysql.types.logged_rows import RowsLogged, TableMap
from penstock.core.positions import BinlogPosition
from penstock.core.tables import Column, IntegerType, PrintedType, TableId, TableSchema, TextType

if TYPE_CHECKING:
    from tests.unit.mysql_log.conftest import Recorded

START = BinlogPosition("mysql-bin.000001", 4)
INTEGER = IntegerType(32, unsigned=False)
KEY = Column("id", INTEGER, nullable=False)
ORDERS = TableSchema(
    TableId("shop", "orders"),
    (KEY, *(Column(name, PrintedType("json"), nullable=True) for name in ("doc", "notes", "made"))),
    ("id",),
)
USERS = TableSchema(
    TableId("shop", "users"), (KEY, Column("name", TextType(2**32 - 1, "utf8mb4"), nullable=True)), ("id",)
)
TABLE_MAP = TableMap(ORDERS.table, (3, 245, 245, 245), (0, 4, 4, 4), (False, True, True, True), (), ())
# What the server's SELECT gave after each UPDATE of row 1.
SELECTED = [
    ('{"k": [1, "two", 3.5], "é": true, "a.b": {"x": null}}', "[1, 2, 3]", '[1, "two", 3.5]'),
    (
        '{"k": [1, "II", 1.50], "é": true, "a.b": {"x": null, "y": "2024-02-29"}}',
        "[1, 2, 3]",
        '[1, "II", 1.50]',
    ),
    (
        '{"k": [1, "II", 1.50, 4], "bb": ["base64:type15:yv4=", "\\""], "é": true, "a.b": {"x": null, "y": "2024-02-29"}}',  # noqa: E501 - as the server printed it
        "[2]",
        '[1, "II", 1.50, 4]',
    ),
    (
        '{"k": [0, 1, "II", 1.50, 4], "bb": ["base64:type15:yv4=", "\\""], "a.b": {"x": null, "y": "2024-02-29"}, "q\\"q": 1}',  # noqa: E501 - as the server printed it
        '{"whole": 1}',
        '[0, 1, "II", 1.50, 4]',
    ),
    (None, '{"whole": {"part": 2.0}}', None),
]

REPLACE, INSERT, REMOVE = 0, 1, 2
EIGHT = b"\x05\x08\x00"
NUMBERS = b"\x02\x03\x00\x0d\x00\x05\x01\x00\x05\x02\x00\x05\x03\x00"
OBJECT = b"\x00\x01\x00\x0c\x00\x0b\x00\x01\x00\x05\x01\x00z"


def difference(operation: int, path: str, value: bytes = b"") -> bytes:
    return bytes([operation]) + counted(path.encode()) + (counted(value) if operation != REMOVE else b"")


def counted(raw: bytes) -> bytes:
    """Bytes after their length."""
    return (bytes([len(raw)]) if len(raw) < 0xFB else b"\xfc" + struct.pack("<H", len(raw))) + raw


def updates(recorded: Recorded, name: str, table: TableId) -> list[RowsLogged]:
    items = EventScanner(START, lambda found: found == table).feed(*recorded(name))
    return [item for item in items if isinstance(item, RowsLogged) and item.op is Op.UPDATE]


def row(before: bytes, after: bytes, options: bytes) -> RowsLogged:
    """An update of one document in `doc`; `notes` and `made` are NULL."""
    images = [b"\x0c\1\0\0\0" + struct.pack("<I", len(raw)) + raw for raw in (before, after)]
    payload = b"\x04\xff\xff" + images[0] + options + images[1]
    return RowsLogged(TABLE_MAP, Op.UPDATE, payload, START.file, 1000, 0, "", 1, partial=True)


@pytest.mark.parametrize("name", ["mysql-9.7-json", "mysql-9.7-json-compressed"])
def test_the_documents_of_a_recorded_log_are_those_that_its_server_selected(recorded: Recorded, name: str) -> None:
    events = updates(recorded, name, ORDERS.table)

    batches = [decode_rows(ORDERS, [event]) for event in events]

    assert all(event.partial for event in events)
    assert [batch.before.to_pylist()[0] for batch in batches if batch.before] == [
        dict(zip(("id", "doc", "notes", "made"), (1, *documents), strict=True)) for documents in SELECTED[:-1]
    ]
    assert [batch.after.to_pylist()[0] for batch in batches if batch.after] == [
        dict(zip(("id", "doc", "notes", "made"), (1, *documents), strict=True)) for documents in SELECTED[1:]
    ]


def test_updates_without_json_are_read_too(recorded: Recorded) -> None:
    (event,) = updates(recorded, "mysql-9.7-json", USERS.table)

    batch = decode_rows(USERS, [event])

    assert batch.before is not None
    assert batch.after is not None
    assert batch.before.column(1).to_pylist() == ["one", None]
    assert batch.after.column(1).to_pylist() == ["changed", "changed"]


@pytest.mark.parametrize("copies", [1, 5, 13, 40])
def test_many_updates_without_json_decode_as_few_do(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch, copies: int
) -> None:
    (event,) = updates(recorded, "mysql-9.7-json", USERS.table)
    few = decode_rows(USERS, [event])
    monkeypatch.setattr(decode, "_PLAIN_BYTES_MAX", -1)
    monkeypatch.setattr(decode, "_decode_plain", None)

    many = decode_rows(USERS, [event] * copies)

    for one, all_ in ((few.before, many.before), (few.after, many.after)):
        assert one is not None
        assert all_ is not None
        assert all_.to_pylist() == one.to_pylist() * copies


@pytest.mark.parametrize("copies", [1, 40])
@pytest.mark.parametrize("options", [b"\2", b"\xff"])
def test_unknown_options_of_rows_without_json_stop_the_table(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch, copies: int, options: bytes
) -> None:
    (event,) = updates(recorded, "mysql-9.7-json", USERS.table)
    # Before it: the number of columns, two bitmaps; the old row with nulls, number, length, "one".
    at = 1 + 2 + 1 + 4 + 4 + 3
    assert event.payload[at : at + 1] == b"\0"
    broken = replace(event, payload=event.payload[:at] + options + event.payload[at + 1 :], offset=7000)
    monkeypatch.setattr(decode, "_PLAIN_BYTES_MAX", -1)

    with pytest.raises(TableStoppedError, match=r"value options 2|0xff does not begin a length") as caught:
        decode_rows(USERS, [event] * copies + [broken])

    assert caught.value.position == f"{event.file}:7000"


def test_many_updates_decode_as_one_batch(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "_PLAIN_BYTES_MAX", -1)
    events = updates(recorded, "mysql-9.7-json", ORDERS.table)

    batch = decode_rows(ORDERS, events * 20)

    assert batch.after is not None
    assert [found for found in batch.after.column(1).to_pylist() if found != "{}"] == [
        doc for doc, *_ in SELECTED[1:]
    ] * 20


def test_partial_and_whole_updates_do_not_decode_together(recorded: Recorded) -> None:
    event = updates(recorded, "mysql-9.7-json", ORDERS.table)[0]
    whole = replace(event, partial=False)

    assert batch_key(event) != batch_key(whole)
    with pytest.raises(ValueError, match="do not belong"):
        decode_rows(ORDERS, [event, whole])


@pytest.mark.parametrize(
    ("before", "differences", "after"),
    [
        (NUMBERS, b"", "[1, 2, 3]"),
        (NUMBERS, difference(REPLACE, "$[0]", EIGHT), "[8, 2, 3]"),
        (NUMBERS, difference(REPLACE, "$[last-2]", OBJECT), '[{"z": 1}, 2, 3]'),
        (NUMBERS, difference(INSERT, "$[0]", EIGHT), "[8, 1, 2, 3]"),
        (NUMBERS, difference(INSERT, "$[last]", EIGHT), "[1, 2, 8, 3]"),
        (NUMBERS, difference(INSERT, "$[99]", EIGHT), "[1, 2, 3, 8]"),
        (NUMBERS, difference(INSERT, "$[last-99]", EIGHT), "[8, 1, 2, 3]"),
        (NUMBERS, difference(REMOVE, "$[last]") + difference(REMOVE, "$[last]"), "[1]"),
        (OBJECT, difference(REMOVE, "$.z"), "{}"),
        (OBJECT, difference(INSERT, "$.aa", NUMBERS) + difference(REMOVE, "$.aa[1]"), '{"z": 1, "aa": [1, 3]}'),
        (OBJECT, difference(INSERT, '$."é"', EIGHT) + difference(INSERT, "$.a", EIGHT), '{"a": 8, "z": 1, "é": 8}'),
        (OBJECT, difference(INSERT, '$."\\u65e5"', b"") + difference(INSERT, "$.zz", EIGHT),
         '{"z": 1, "zz": 8, "日": null}'),
        (OBJECT, difference(INSERT, '$."q\\"[.\\\\"', EIGHT), '{"z": 1, "q\\"[.\\\\": 8}'),
        (OBJECT, difference(REPLACE, "$.z", OBJECT) + difference(REPLACE, "$.z.z", OBJECT), '{"z": {"z": {"z": 1}}}'),
    ],
)  # fmt: skip
def test_differences_make_the_new_document(before: bytes, differences: bytes, after: str) -> None:
    assert ChangedJson(before, differences).print_after() == after


REFUSED = [
    (NUMBERS, difference(REPLACE, "$[3]", EIGHT), r"\$\[3\] is not found"),
    (NUMBERS, difference(REPLACE, "$[last-3]", EIGHT), "is not found"),
    (NUMBERS, difference(REMOVE, "$[3]"), "is not found"),
    (NUMBERS, difference(REPLACE, "$.z", EIGHT), "is not found"),
    (NUMBERS, difference(REPLACE, "$[0][0]", EIGHT), "is not found"),
    (NUMBERS, difference(REPLACE, "$[9][0]", EIGHT), "is not found"),
    (OBJECT, difference(INSERT, "$.z", EIGHT), "is not found"),
    (OBJECT, difference(REPLACE, "$.y", EIGHT), "is not found"),
    (OBJECT, difference(REMOVE, "$.y"), "is not found"),
    (OBJECT, difference(REMOVE, "$[0]"), "is not found"),
    (OBJECT, difference(INSERT, "$.z.y", EIGHT), "is not found"),
    (OBJECT, difference(REPLACE, "$.y.y", EIGHT), "is not found"),
    (OBJECT, difference(REPLACE, "$.z", NUMBERS) + difference(REPLACE, "$[0].z[0]", EIGHT), "is not found"),
    (NUMBERS, difference(REPLACE, "$[0]", OBJECT) + difference(REPLACE, "$.z", EIGHT), "is not found"),
    (NUMBERS, difference(REPLACE, "$[0]", OBJECT) + difference(REPLACE, "$[0].z", NUMBERS)
     + difference(REPLACE, "$.z[0]", EIGHT), "is not found"),
    (OBJECT, difference(REMOVE, "$.z") * 2, "is not found"),
    (EIGHT, difference(INSERT, "$[1]", EIGHT), "is not found"),
    (OBJECT, difference(REPLACE, "$", EIGHT), "no path"),
    (OBJECT, difference(REPLACE, "", EIGHT), "no path"),
    (OBJECT, difference(REPLACE, "x.z", EIGHT), "no path"),
    (OBJECT, difference(REPLACE, "$.*", EIGHT), "no path"),
    (OBJECT, difference(REPLACE, "$.z ", EIGHT), "no path"),
    (NUMBERS, difference(REPLACE, "$[0 to 1]", EIGHT), "no path"),
    (NUMBERS, difference(REPLACE, "$[-1]", EIGHT), "no path"),
    (NUMBERS, difference(REPLACE, "$[12345678901]", EIGHT), "no path"),
    (OBJECT, difference(REPLACE, '$."z', EIGHT), "no path"),
    (OBJECT, difference(INSERT, '$."\\x"', EIGHT), "no name"),
    (OBJECT, difference(INSERT, '$."\\ud800"', EIGHT), "no name"),
    (OBJECT, difference(3, "$.z", EIGHT), "unknown kind 3"),
    (OBJECT, difference(REPLACE, "$.z", b"\x77"), "unknown JSON type"),
    (OBJECT, difference(REPLACE, "$.z", EIGHT)[:-1], "bytes are announced"),
    (OBJECT, difference(REMOVE, "$.z")[:-1], "bytes are announced"),
    (OBJECT, b"\x00\x01\xff\x00", "not UTF-8"),
    (OBJECT, b"\x00\xfe" + b"\xff" * 8, "bytes are announced"),
    (b"\x77", b"", "unknown JSON type"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "differences", "reason"), REFUSED)
def test_a_difference_that_does_not_fit_stops_its_table_and_is_named(
    before: bytes, differences: bytes, reason: str
) -> None:
    good = row(NUMBERS, difference(REMOVE, "$[0]"), b"\1\1")

    with pytest.raises(TableStoppedError, match=reason) as caught:
        decode_rows(ORDERS, [good, replace(row(before, differences, b"\1\1"), offset=2000)])

    error = caught.value
    assert (error.table, error.column) == ("shop.orders", "doc")
    assert error.position == "mysql-bin.000001:2000 row 0"
    assert "start a new pipeline with an initial snapshot" in error.hint


def test_the_hint_says_how_to_be_without_differences() -> None:
    with pytest.raises(TableStoppedError) as caught:
        decode_rows(ORDERS, [row(OBJECT, difference(REMOVE, "$.y"), b"\1\1")])

    assert "binlog_row_value_options=''" in caught.value.hint


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (b"\2", "unknown value options 2"),
        (b"\xff", "0xff does not begin a length"),
        (b"\1\x09", "more JSON columns"),
        (b"\1\2", "JSON column notes becomes NULL"),
    ],
)
def test_bits_that_cannot_be_stop_the_table(options: bytes, reason: str) -> None:
    with pytest.raises(TableStoppedError, match=reason) as caught:
        decode_rows(ORDERS, [row(NUMBERS, b"", options)])

    assert caught.value.position == "mysql-bin.000001:1000"


def test_differences_to_what_was_null_stop_the_table() -> None:
    payload = b"\x04\xff\xff" + b"\x0e\1\0\0\0" + b"\1\1" + b"\x0c\1\0\0\0" + bytes(4)
    event = replace(row(NUMBERS, b"", b"\0"), payload=payload)

    with pytest.raises(TableStoppedError, match="document that was NULL") as caught:
        decode_rows(ORDERS, [event])

    assert caught.value.column == "doc"


@pytest.mark.parametrize("bitmaps", [b"\x01\x03", b"\x03\xff"])
def test_images_without_all_columns_stop_the_table(bitmaps: bytes) -> None:
    event = row(NUMBERS, b"", b"\1\1")

    with pytest.raises(TableStoppedError, match="without all of their columns") as caught:
        decode_rows(ORDERS, [replace(event, payload=event.payload[:1] + bitmaps + event.payload[3:])])

    assert "binlog_row_image=FULL" in caught.value.hint


KEY_ONLY = b"\x04\x01\x02" + b"\x00\1\0\0\0"
PARTIAL_ORDERS = replace(ORDERS, partial_rows=True)


def test_a_whole_document_is_carried_although_the_image_before_has_only_the_key() -> None:
    document = b"\0" + b"\x00" + struct.pack("<I", len(OBJECT)) + OBJECT
    event = replace(row(NUMBERS, b"", b"\0"), payload=KEY_ONLY + document)

    batch = decode_rows(PARTIAL_ORDERS, [event])

    assert batch.after is not None
    assert batch.after.to_pylist() == [{"id": 1, "doc": '{"z": 1}', "notes": None, "made": None}]
    assert (batch.before_lacks, batch.after_lacks) == (("doc", "notes", "made"), ("notes", "made"))


def test_a_difference_to_a_document_that_is_not_in_the_log_stops_the_table() -> None:
    change = difference(REPLACE, "$[0]", b"\x05\x01\x00")
    event = replace(
        row(NUMBERS, b"", b"\0"), payload=KEY_ONLY + b"\1\1" + b"\x00" + struct.pack("<I", len(change)) + change
    )

    with pytest.raises(TableStoppedError, match="without the document from before") as caught:
        decode_rows(PARTIAL_ORDERS, [event])

    assert caught.value.column == "doc"
    assert "binlog_row_image=FULL" in caught.value.hint


def test_a_new_image_with_one_document_alone_has_its_differences_applied() -> None:
    change = difference(REPLACE, "$[0]", b"\x05\x09\x00")
    images = [b"\x0c\1\0\0\0", b"\x00"]
    before, after = (
        image + struct.pack("<I", len(raw)) + raw for image, raw in zip(images, (NUMBERS, change), strict=True)
    )
    event = replace(row(NUMBERS, b"", b"\0"), payload=b"\x04\xff\x02" + before + b"\1\1" + after)

    batch = decode_rows(ORDERS, [event])

    assert batch.after is not None
    assert batch.after.to_pylist() == [{"id": 1, "doc": "[9, 2, 3]", "notes": None, "made": None}]


def test_a_whole_document_in_a_partial_event_is_taken_as_it_is() -> None:
    batch = decode_rows(ORDERS, [row(NUMBERS, OBJECT, b"\0"), row(NUMBERS, OBJECT, b"\1\0")])

    assert batch.after is not None
    assert batch.after.column(1).to_pylist() == ['{"z": 1}'] * 2


def test_documents_do_not_grow_too_deep() -> None:
    path = "$" + "[0]" * 51
    deep = ChangedJson(nested_json(50, 1), difference(INSERT, path, nested_json(49, 1))).print_after()
    assert deep == "[" * 101 + "]" * 101
    with pytest.raises(MalformedError, match="100 levels"):
        ChangedJson(nested_json(50, 1), difference(INSERT, path, nested_json(50, 1))).print_after()


@given(data=st.data())
def test_damaged_rows_stop_the_table_or_are_other_rows(recorded: Recorded, data: st.DataObject) -> None:
    event = data.draw(st.sampled_from(updates(recorded, "mysql-9.7-json", ORDERS.table)))
    payload = bytearray(event.payload)
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    damaged = replace(event, payload=bytes(payload[: data.draw(st.integers(0, len(payload)) | st.just(len(payload)))]))

    try:
        # A damaged front is that of other rows, which are not decoded together with these.
        decode_rows(ORDERS, [event, damaged] if damaged.front == event.front else [damaged])
    except TableStoppedError as error:
        assert error.position.startswith(f"{event.file}:{event.offset}")  # noqa: PT017 - not raising is right as well
        assert error.hint  # noqa: PT017

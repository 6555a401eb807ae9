"""Only what a merge needs of the rows of batch files is staged, and of many files not all at once."""

from __future__ import annotations

import time
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.adapters.objects.store import Objects, ObjectsSpec, open_objects
from penstock.core.batches import Batch
from penstock.core.errors import FULL_REFRESH, TableStoppedError
from penstock.core.files import file_schema, render_file
from penstock.core.tables import BytesType, Column, DecimalType, IntegerType, TableId, TableSchema, TextType
from penstock.core.warehouse.load_plan import Piece, Step
from penstock.links.warehouse.pieces import newest_rows, read_in_parts, read_piece

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.core.tables import ColumnType

_NUMBER = IntegerType(64, unsigned=False)
_KEYS: list[tuple[ColumnType, list[object]]] = [
    (_NUMBER, [-(2**63), 0, 1, 2**63 - 1]),
    (TextType(20, "utf8mb4"), ["", "a", "A", "ä", "a "]),
    (BytesType(8, fixed=False), [b"", b"\0", b"\xff"]),
    (DecimalType(10, 2), [Decimal("0.00"), Decimal("-1.50"), Decimal("1.50")]),
]


def _schema(types: list[ColumnType], key: tuple[str, ...]) -> TableSchema:
    columns = [Column(f"k{n}", type_, nullable=False) for n, type_ in enumerate(types)]
    return TableSchema(TableId("shop", "orders"), (*columns, Column("qty", _NUMBER, nullable=True)), key)


@given(st.data())
def test_the_newest_change_of_each_key_is_left_in_the_order_of_keys(data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(_KEYS), min_size=1, max_size=2))
    schema = _schema([type_ for type_, _ in chosen], tuple(f"K{n}" for n in range(len(chosen))))
    keys = st.tuples(*(st.sampled_from(values) for _, values in chosen))
    changes = data.draw(st.lists(st.tuples(keys, st.sampled_from("cud")), max_size=30))
    offsets = data.draw(st.permutations(range(len(changes))))
    rows = [(*key, n, op, offset) for n, ((key, op), offset) in enumerate(zip(changes, offsets, strict=True))]
    layout = file_schema(schema)
    table = pa.Table.from_pylist([dict(zip(layout.names, row, strict=True)) for row in rows], layout)

    found = newest_rows(schema, table)

    newest = {row[: len(chosen)]: row for row in sorted(rows, key=lambda row: row[-1])}
    by_row = {tuple(row.values()) for row in found.to_pylist()}
    assert by_row == set(newest.values())
    assert found.num_rows == len(newest)
    assert found.schema == layout


@pytest.mark.parametrize("partial_rows", [False, True])
def test_every_row_is_left_where_a_merge_may_need_older_ones(*, partial_rows: bool) -> None:
    key = ("k0",) if partial_rows else ()
    plain = _schema([_NUMBER], key)
    schema = TableSchema(plain.table, plain.columns, key, partial_rows=partial_rows)
    layout = file_schema(schema)
    rows = pa.table({f.name: pa.nulls(2, f.type) for f in layout}, schema=layout)

    assert newest_rows(schema, rows) is rows


LARGE = TableSchema(
    TableId("shop", "large"),
    (Column("id", _NUMBER, nullable=False), Column("value", BytesType(1 << 24, fixed=False), nullable=True)),
    ("id",),
)
VALUE_BYTES = 1 << 20


def large_files(objects: Objects, count: int) -> Step:
    """Write files of a row each, which is a thousand times larger than its file."""
    pieces = []
    for number in range(count):
        row = {"id": number, "value": b"x" * VALUE_BYTES, "__penstock_op": "c", "__penstock_offset": number}
        content = render_file(LARGE, pa.Table.from_pylist([row], file_schema(LARGE)))
        objects.put(f"{number}.parquet", content)
        place = (0, number, 0)
        batch = Batch(
            "db", LARGE.table, "t", 0, number, number + 1, 1, f"{number}.parquet", len(content), "parquet", 1, place,
            place, 0,
        )  # fmt: skip
        pieces.append(Piece(batch, number))
    return Step("t", 1, tuple(pieces))


def allocated_since(before: int, bytes_max: int) -> int:
    """How much more Arrow holds; its threads may let go of what they have read a moment later."""
    deadline = time.monotonic() + 5
    while (held := pa.total_allocated_bytes() - before) >= bytes_max and time.monotonic() < deadline:
        time.sleep(0.01)
    return held


def test_files_whose_rows_are_large_are_read_some_at_a_time_and_each_once(tmp_path: Path) -> None:
    objects = open_objects(ObjectsSpec((tmp_path / "objects").as_uri()))
    whole = large_files(objects, 7)
    parts, held = [], []
    before = pa.total_allocated_bytes()

    for part, rows in read_in_parts(objects, LARGE, whole, 2 * VALUE_BYTES):
        assert rows is not None
        parts.append((part, rows.column("id").to_pylist()))
        held.append(allocated_since(before, 3 * VALUE_BYTES))
        del rows

    assert [ids for _, ids in parts] == [[0, 1], [2, 3], [4, 5], [6]]
    assert [piece for part, _ in parts for piece in part.pieces] == list(whole.pieces)
    assert max(held) < 3 * VALUE_BYTES


def test_steps_with_few_bytes_and_those_without_rows_are_one_part(tmp_path: Path) -> None:
    objects = open_objects(ObjectsSpec((tmp_path / "objects").as_uri()))
    whole = large_files(objects, 2)
    empty = Step("t", 1, (replace(whole.pieces[0], batch=replace(whole.pieces[0].batch, rows=0, path="")),))

    assert [part for part, _ in read_in_parts(objects, LARGE, whole, 1 << 30)] == [whole]
    assert list(read_in_parts(objects, LARGE, empty, 1)) == [(empty, None)]


def test_a_damaged_file_is_to_be_restored_and_one_in_its_message_is_read_anew_from_the_source(tmp_path: Path) -> None:
    objects = open_objects(ObjectsSpec((tmp_path / "objects").as_uri()))
    (stored,) = large_files(objects, 1).pieces
    damaged = objects.get(stored.batch.path)[:-1]
    objects.put(stored.batch.path, damaged)
    told = replace(stored, batch=replace(stored.batch, content=damaged))

    with pytest.raises(TableStoppedError) as of_file:
        read_piece(objects, LARGE, stored)
    with pytest.raises(TableStoppedError) as of_message:
        read_piece(objects, LARGE, told)

    assert of_file.value.position == "0.parquet"
    assert of_file.value.hint.startswith("restore the file, or ")
    assert of_message.value.position == "0.parquet in its batch message"
    assert of_message.value.hint.startswith(f"{FULL_REFRESH}; or, where it has no primary key, ")

"""Only what a merge needs of the rows of batch files is staged."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.files import file_schema
from penstock.core.tables import BytesType, Column, DecimalType, IntegerType, TableId, TableSchema, TextType
from penstock.links.warehouse.pieces import newest_rows

if TYPE_CHECKING:
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

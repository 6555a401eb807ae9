"""Updates that change the key are split, and every message finds its place again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.arrow_types import arrow_schema
from penstock.core.avro.envelope_encode import EncodableTable, encode_changes
from penstock.core.changes import Op, RowBatch
from penstock.core.errors import LogError, TableStoppedError
from penstock.core.key_changes import message_order, split_key_changes
from penstock.core.tables import Column, FloatType, IntegerType, TableId, TableSchema, TextType

if TYPE_CHECKING:
    from collections.abc import Sequence

TABLE = TableSchema(
    TableId("shop", "codes"),
    (
        Column("part", IntegerType(32, unsigned=False), nullable=False),
        Column("note", TextType(8, "utf8mb4"), nullable=True),
        Column("code", TextType(8, "utf8mb4"), nullable=False),
    ),
    ("code", "part"),
)
ROWS = st.tuples(st.integers(0, 1), st.sampled_from([None, "x"]), st.sampled_from(["a", "A", "a ", "á"]))


def updates(pairs: Sequence[tuple[tuple[object, ...], tuple[object, ...]]], schema: TableSchema = TABLE) -> RowBatch:
    count = len(pairs)
    before, after = (images_of(schema, images) for images in zip(*pairs, strict=True))
    return RowBatch(
        schema=schema,
        op=Op.UPDATE,
        before=before,
        after=after,
        file="bin.000001",
        offsets=np.arange(count, dtype=np.int64) // 3 * 100 + 4,
        rows=np.arange(count, dtype=np.int32) % 3,
        timestamps_ms=np.arange(count, dtype=np.int64),
        gtids=pa.array([f"0-1-{i}" for i in range(count)]),
        server_id=1,
    )


def images_of(schema: TableSchema, images: Sequence[tuple[object, ...]]) -> pa.RecordBatch:
    names = [column.name for column in schema.columns]
    rows = [dict(zip(names, image, strict=True)) for image in images]
    return pa.RecordBatch.from_pylist(rows, schema=arrow_schema(schema))


@given(st.lists(st.tuples(ROWS, ROWS), min_size=1))
def test_in_message_order_the_parts_tell_the_same_story(
    pairs: list[tuple[tuple[object, ...], tuple[object, ...]]],
) -> None:
    parts = split_key_changes(updates(pairs))

    told = [
        (order, (part.op, before, after, time, gtid.as_py()))
        for part in parts
        for order, before, after, time, gtid in zip(
            message_order(part).tolist(),
            rows(part.before, part),
            rows(part.after, part),
            part.timestamps_ms,
            part.gtids,
            strict=True,
        )
    ]
    expected: list[tuple[object, ...]] = []
    for place, (before, after) in enumerate(pairs):
        if (before[0], before[2]) == (after[0], after[2]):
            expected.append((Op.UPDATE, before, after, place, f"0-1-{place}"))
        else:
            expected.append((Op.DELETE, before, None, place, f"0-1-{place}"))
            expected.append((Op.CREATE, None, after, place, f"0-1-{place}"))
    assert [change for _, change in sorted(told, key=lambda each: each[0])] == expected
    assert len({each[0] for each in told}) == len(told)
    assert all(len(part) for part in parts)


def rows(images: pa.RecordBatch | None, part: RowBatch) -> list[tuple[object, ...] | None]:
    if images is None:
        return [None] * len(part)
    return list(zip(*(column.to_pylist() for column in images.columns), strict=True))


def test_a_key_that_only_the_collation_calls_equal_is_a_change() -> None:
    parts = split_key_changes(updates([((1, None, "a"), (1, None, "A"))]))

    assert [part.op for part in parts] == [Op.DELETE, Op.CREATE]


def test_a_new_key_for_a_row_that_lacks_columns_stops_the_table() -> None:
    batch = replace(
        updates([((1, None, "a"), (1, None, "a")), ((1, None, "a"), (2, None, "a"))]), after_lacks=("note",)
    )

    with pytest.raises(TableStoppedError, match=r"bin.000001:4 row 1.*another primary key.*without note"):
        split_key_changes(batch)


def test_what_rows_lack_stays_with_them() -> None:
    kept = updates([((1, None, "a"), (1, None, "a"))])
    moved = updates([((1, None, "a"), (2, None, "a"))])

    assert split_key_changes(replace(kept, after_lacks=("note",))) == (replace(kept, after_lacks=("note",)),)
    deleted, created = split_key_changes(replace(moved, before_lacks=("note",)))
    assert (deleted.before_lacks, created.before_lacks, created.after_lacks) == (("note",), (), ())


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("rows", [1, 300])
def test_minus_zero_is_the_key_that_zero_is(bits: Literal[32, 64], rows: int) -> None:
    table = TableSchema(TableId("shop", "points"), (Column("x", FloatType(bits), nullable=False),), ("x",))
    batch = updates([((-0.0,), (0.0,))] * rows, table)

    assert split_key_changes(batch) == (batch,)
    encoded = EncodableTable("shop", "mysql", table, 1, 2)
    gone = encode_changes(encoded, replace(batch, op=Op.DELETE, after=None), 0)
    came = encode_changes(encoded, replace(batch, op=Op.CREATE, before=None), 0)
    assert gone[0] == came[0]
    assert gone[1] != came[1]


def test_other_batches_come_back_as_they_are() -> None:
    update = updates([((1, None, "a"), (2, None, "a"))])
    keyless = replace(update, schema=replace(TABLE, key=()))
    create = replace(update, op=Op.CREATE, before=None)

    assert split_key_changes(keyless) == (keyless,)
    assert split_key_changes(create) == (create,)


def test_the_last_offset_and_row_that_fit_are_ordered() -> None:
    batch = replace(
        updates([((1, None, "a"), (1, None, "b"))] * 3),
        offsets=np.array([2**38 - 1, 2**38 - 1, 4]),
        rows=np.array([2**24 - 1, 0, 2**24 - 1], dtype=np.int32),
    )

    assert np.argsort(message_order(batch)).tolist() == [2, 1, 0]
    assert message_order(batch).min() >= 0


def test_the_rows_of_a_copy_may_be_any_number() -> None:
    read = replace(
        updates([((1, None, "a"), (1, None, "b"))] * 3),
        op=Op.READ,
        before=None,
        rows=np.array([2**24, 2**24 + 1, 2**31 - 1], dtype=np.int32),
    )

    assert message_order(read).tolist() == [2**24, 2**24 + 1, 2**31 - 1]


@pytest.mark.parametrize(("offset", "row", "words"), [(2**38, 0, "256 GiB"), (4, 2**24, "16,777,216"), (-1, 0, "256")])
def test_an_offset_or_a_row_that_does_not_fit_is_refused(offset: int, row: int, words: str) -> None:
    batch = replace(
        updates([((1, None, "a"), (1, None, "b"))]), offsets=np.array([offset]), rows=np.array([row], dtype=np.int32)
    )

    with pytest.raises(LogError, match=words):
        message_order(batch)

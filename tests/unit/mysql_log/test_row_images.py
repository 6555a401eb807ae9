"""Rows that lack columns: what both decoders make of them, and what stops the table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.mysql_log.random_tables import DECODERS, assert_holds, decode_with, tables

from penstock.core.changes import Op
from penstock.core.errors import TableStoppedError
from penstock.core.mysql.rows.decode import decode_rows
from penstock.core.tables import (
    Column,
    IntegerType,
    TableId,
    TableSchema,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.unit.mysql_log.conftest import RowWriter
    from tests.unit.mysql_log.row_encoding import Value


INTEGER = IntegerType(32, unsigned=False)
PARTIAL = TableSchema(
    TableId("shop", "t"),
    (
        Column("id", INTEGER, nullable=False),
        Column("computed", INTEGER, nullable=True, default_is_expression=True),
        Column("plain", INTEGER, nullable=True),
        Column("virtual", INTEGER, nullable=True, declaration="int(11) GENERATED ALWAYS AS (`id` * 2) VIRTUAL"),
        Column("stored", INTEGER, True, "int(11) GENERATED ALWAYS AS (`Plain` + 1) STORED", None, True),  # noqa: FBT003
        Column("it's", INTEGER, nullable=True),
    ),
    ("id",),
    partial_rows=True,
)


@DECODERS
@given(tables(), st.sampled_from([Op.CREATE, Op.DELETE]), st.sets(st.integers(1, 6)))
def test_rows_that_lack_columns_have_null_and_say_so(
    row_writer: type[RowWriter],
    decoder: str,
    table: tuple[TableSchema, list[list[list[Value]]]],
    op: Op,
    lacks: set[int],
) -> None:
    schema, groups = partial(table[0]), table[1]
    events = [row_writer(schema).event(rows, op, lacks=[lacks]) for rows in groups]

    batch = decode_with(decoder, schema, events)

    names = names_of(schema, lacks)
    assert (batch.before_lacks, batch.after_lacks) == (((), names) if op is Op.CREATE else (names, ()))
    assert_holds(batch.after or batch.before, [without(row, lacks) for rows in groups for row in rows], schema)


@DECODERS
@given(tables(), st.sets(st.integers(1, 6)), st.sets(st.integers(0, 6)))
def test_an_update_keeps_what_it_does_not_say_again(
    row_writer: type[RowWriter],
    decoder: str,
    table: tuple[TableSchema, list[list[list[Value]]]],
    before_lacks: set[int],
    unsaid: set[int],
) -> None:
    schema, groups = partial(table[0]), [[*rows, *reversed(rows)] for rows in table[1]]
    events = [row_writer(schema).event(rows, Op.UPDATE, lacks=(before_lacks, unsaid)) for rows in groups]

    batch = decode_with(decoder, schema, events)

    before = [without(row, before_lacks) for rows in groups for row in rows[::2]]
    after = [row for rows in groups for row in rows[1::2]]
    assert batch.before_lacks == names_of(schema, before_lacks)
    assert batch.after_lacks == names_of(schema, before_lacks & unsaid)
    assert_holds(batch.before, before, schema)
    kept = [
        [old[i] if i in unsaid else new[i] for i in range(len(new))] for old, new in zip(before, after, strict=True)
    ]
    assert_holds(batch.after, kept, schema)


def partial(schema: TableSchema) -> TableSchema:
    return replace(schema, key=(schema.columns[0].name,), partial_rows=True)


def names_of(schema: TableSchema, columns: set[int]) -> tuple[str, ...]:
    return tuple(column.name for index, column in enumerate(schema.columns) if index in columns)


def without(row: Sequence[Value], columns: set[int]) -> list[Value]:
    return [None if index in columns else value for index, value in enumerate(row)]


def test_rows_without_all_columns_stop_the_table(row_writer: type[RowWriter]) -> None:
    integer = IntegerType(32, unsigned=False)
    columns = (Column("a", integer, nullable=True), Column("b", integer, nullable=True))
    schema = TableSchema(TableId("shop", "t"), columns, ())
    for op in Op.CREATE, Op.UPDATE:
        event = row_writer(schema).event([[1, 2]] * 2, op, lacks=([1], [1]))

        with pytest.raises(TableStoppedError, match="without all of their columns") as caught:
            decode_rows(schema, [event])

        assert "binlog_row_image=FULL" in caught.value.hint


@pytest.mark.parametrize(
    ("schema", "op", "lacks", "words"),
    [
        (replace(PARTIAL, partial_rows=False), Op.UPDATE, ([2], [2]), "without all of their columns"),
        (replace(PARTIAL, key=()), Op.DELETE, ([2], []), "no primary key"),
        (PARTIAL, Op.DELETE, ([0], []), "without a column of its primary key"),
        (PARTIAL, Op.UPDATE, ([], [3]), "as the source computes them"),
        (PARTIAL, Op.CREATE, ([3], []), "as the source computes them"),
        (PARTIAL, Op.CREATE, ([1], []), "default is computed by the source"),
        (PARTIAL, Op.CREATE, ([4], []), "default is computed by the source"),
        (PARTIAL, Op.UPDATE, ([1, 2, 4, 5], [0, 1, 4, 5]), "new ones of what the source computes them from"),
        (PARTIAL, Op.UPDATE, ([], [0, 1, 4, 5]), "new ones of what the source computes them from"),
        (PARTIAL, Op.UPDATE, ([4], [0, 1, 2, 4]), "new ones of what the source computes them from"),
        (replace(PARTIAL, partial_rows=False), Op.UPDATE, ([3, 4], [3, 4]), "the source computes it"),
        (replace(PARTIAL, partial_rows=False), Op.DELETE, ([4], []), "the source computes it"),
        (PARTIAL, Op.UPDATE, (range(6), range(6)), "without any column"),
    ],
)
def test_rows_that_lack_what_nobody_else_can_know_stop_the_table(
    row_writer: type[RowWriter], schema: TableSchema, op: Op, lacks: tuple[Sequence[int], Sequence[int]], words: str
) -> None:
    event = row_writer(schema).event([[1, 2, 3, 4, 5, 6]] * 2, op, lacks=lacks)

    with pytest.raises(TableStoppedError, match=words) as caught:
        decode_rows(schema, [event])

    assert caught.value.position == "mysql-bin.000001:1000"


def test_a_stored_column_is_kept_while_nothing_that_it_is_computed_from_is_set(row_writer: type[RowWriter]) -> None:
    event = row_writer(PARTIAL).event([[1, 2, 3, 4, 5, 6], [1, 9, 3, 4, 5, 6]], Op.UPDATE, lacks=([4], [0, 2, 4, 5]))

    batch = decode_rows(PARTIAL, [event])

    assert (batch.before_lacks, batch.after_lacks) == (("stored",), ("stored",))


def test_a_deleted_row_may_lack_what_the_source_computes(row_writer: type[RowWriter]) -> None:
    batch = decode_rows(PARTIAL, [row_writer(PARTIAL).event([[1, 2, 3, 4, 5, 6]], Op.DELETE, lacks=[[1, 3, 4]])])

    assert batch.before_lacks == ("computed", "virtual", "stored")

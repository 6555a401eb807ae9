"""A table of customers for tests of transforms, and its changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.core.arrow_types import arrow_schema
from penstock.core.tables import Column, DecimalType, IntegerType, TableId, TableSchema, TextType
from penstock.core.transforms.changed_rows import ChangedRows
from penstock.core.transforms.hashes import Salt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.transforms.expressions import ExpressionColumn
    from penstock.core.transforms.transform import Transform

TEXT = TextType(20, "utf8mb4")
ID = Column("id", IntegerType(32, unsigned=False), nullable=False)
EMAIL = Column("email", TEXT, nullable=True, declaration="varchar(20)")
TOTAL = Column("total", DecimalType(8, 2), nullable=True)
CUSTOMERS = TableSchema(TableId("shop", "customers"), (ID, EMAIL, TOTAL), ("id",))
SALT = Salt("PII_SALT", b"a salt of some length")

Row = dict[str, object]
Change = tuple[str, Row | None, Row | None]


def table_of(rows: Sequence[Row], schema: TableSchema = CUSTOMERS) -> pa.Table:
    """Rows of a table; what they lack is NULL."""
    layout = pa.schema([field.with_nullable(nullable=True) for field in arrow_schema(schema)])
    return pa.Table.from_pylist(list(rows), layout)


def applied(transform: Transform, rows: Sequence[Row], schema: TableSchema = CUSTOMERS) -> list[Row]:
    """What a transform makes of rows, whose layout is that of its schema."""
    derived, found = transform.apply(schema, table_of(rows, schema))
    assert derived == transform.derive(schema)
    assert found.schema.equals(table_of([], derived).schema)
    return found.to_pylist()


def changes_of(changes: Sequence[Change], schema: TableSchema = CUSTOMERS) -> ChangedRows:
    """Changes (op, row before, row after); what a row of a table with partial rows does not name, it lacks."""
    images: list[Row] = []
    at: list[list[int]] = [[], []]
    for _, *rows in changes:
        for places, row in zip(at, rows, strict=True):
            places.append(-1 if row is None else len(images))
            images += [] if row is None else [row]
    ops = np.array([op for op, _, _ in changes], dtype="U1")
    before_at, after_at = (np.array(places, dtype=np.int64) for places in at)
    names = {column.name for column in schema.columns}
    patterns = tuple(frozenset(names - row.keys() if schema.partial_rows else ()) for row in images)
    lacks = np.arange(len(images), dtype=np.int64)
    return ChangedRows(schema, table_of(images, schema), ops, before_at, after_at, np.arange(len(ops)), lacks, patterns)


def listed(changes: ChangedRows) -> list[Change]:
    """Changes as `changes_of` takes them."""
    images = [
        {name: value for name, value in row.items() if name not in changes.patterns[lacks]}
        for row, lacks in zip(changes.images.to_pylist(), changes.lacks, strict=True)
    ]
    places = zip(changes.ops.tolist(), changes.before_at, changes.after_at, strict=True)
    return [
        (op, None if before < 0 else images[before], None if after < 0 else images[after])
        for op, before, after in places
    ]


def no_spark(step: ExpressionColumn, schema: TableSchema, rows: pa.Table) -> tuple[TableSchema, pa.Table]:
    """Evaluate no expression."""
    raise AssertionError(step, schema, rows)

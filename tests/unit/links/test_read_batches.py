"""Listed keys of which there is no row are deletions, whatever the columns are that nobody knows."""

from __future__ import annotations

from decimal import Decimal

import pytest

from penstock.adapters.mysql.read_batches import deleted_batch
from penstock.core.tables import (
    BytesType,
    Column,
    ColumnType,
    DateTimeType,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    TableId,
    TableSchema,
    TextType,
)

ID = Column("id", IntegerType(32, unsigned=False), nullable=False, declaration="int")


@pytest.mark.parametrize(
    ("type_", "zero"),
    [
        (DecimalType(10, 2), Decimal("0.00")),
        (DecimalType(38, 37), Decimal(0)),
        (IntegerType(64, unsigned=True), 0),
        (FloatType(32), 0.0),
        (TextType(20, "latin1"), ""),
        (BytesType(20, fixed=False), b""),
        (DateType(zero_is_null=False), None),
        (DateTimeType(6, zero_is_null=False), None),
    ],
    ids=str,
)
def test_a_column_that_may_not_be_null_is_zero_in_a_deletion_of_its_key_alone(type_: ColumnType, zero: object) -> None:
    column = Column("c", type_, nullable=False, declaration="c")
    schema = TableSchema(TableId("shop", "t"), (ID, column), ("id",))

    batch = deleted_batch(schema, [(7,)], None)

    assert batch is not None
    assert batch.before is not None
    ((id_, value),) = zip(*batch.before.to_pydict().values(), strict=True)
    assert id_ == 7
    assert value is not None
    assert zero is None or value == zero

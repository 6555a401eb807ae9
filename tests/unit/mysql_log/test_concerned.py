"""Which statements make a chunk that was read of a table doubtful."""

from __future__ import annotations

import pytest

from penstock.core.mysql.log.concerned import concerns
from penstock.core.mysql.log.log_items import StatementLogged
from penstock.core.positions import BinlogPosition
from penstock.core.tables import TableId

HERE = BinlogPosition("binlog.000001", 4)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("ALTER TABLE orders ADD n INT", True),
        ("alter table SHOP.Orders add n int", True),
        ("TRUNCATE orders", True),
        ("RENAME TABLE other.t TO shop.orders", True),
        ("DROP DATABASE elsewhere", True),
        ("UPDATE other.t SET n = 1", True),
        ("ALTER TABLE other.orders ADD n INT", False),
        ("CREATE TABLE shop.lines (id INT)", False),
        ("GRANT SELECT ON shop.* TO somebody", False),
    ],
)
def test_a_statement_concerns_a_table_that_it_names_and_any_if_nobody_can_tell(sql: str, expected: bool) -> None:  # noqa: FBT001 - a case
    statement = StatementLogged(sql, "shop", HERE, HERE, 0)

    assert concerns(statement, TableId("shop", "orders")) is expected

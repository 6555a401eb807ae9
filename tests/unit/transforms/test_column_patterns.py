"""Which columns a pattern means, and what is remembered of a column's names."""

from __future__ import annotations

import pytest
from tests.unit.transforms.rows import CUSTOMERS

from penstock.core.tables import TableId
from penstock.core.transforms.column_history import ColumnHistory
from penstock.core.transforms.column_patterns import ColumnPatterns


def matched(*patterns: str, table: str = "shop.customers", column: str = "email") -> bool:
    return ColumnPatterns(patterns).matches(TableId.parse(table), column)


def test_a_pattern_is_of_one_table_or_of_a_column_of_any() -> None:
    assert matched("shop.customers.email")
    assert matched("email")
    assert matched("*.*.e?ail")
    assert matched("shop.cust*.*")
    assert not matched("shop.orders.email")
    assert not matched("shop.customers.mail")
    assert not matched("mail")


def test_upper_and_lower_case_do_not_count() -> None:
    assert matched("Shop.Customers.EMAIL")
    assert matched("email", column="eMail")


def test_what_begins_with_an_exclamation_mark_is_left_out() -> None:
    assert not matched("email", "!shop.customers.email")
    assert matched("email", "!shop.orders.*")
    assert not matched()


def test_tables_and_columns_may_have_dots_but_schemas_do_not() -> None:
    assert matched("shop.odd.name.email", table="shop.odd.name")
    assert matched("shop.customers.e.mail", column="e.mail")
    assert matched("e.mail.x") is False
    assert not matched("sh*.email.x", table="shop.customers", column="email.x")


@pytest.mark.parametrize(
    "shadow", ["_customers_gho", "_customers_del", "_customers_20240131120000_del", "__customers_new"]
)
def test_a_pattern_of_a_table_is_one_of_its_shadows(shadow: str) -> None:
    assert matched("shop.customers.email", table=f"shop.{shadow}")
    assert not matched("shop.customers.email", "!shop.customers.email", table=f"shop.{shadow}")


@pytest.mark.parametrize("pattern", ["customers.email", "", "shop..email", ".a.b", "!"])
def test_a_pattern_has_one_part_or_three(pattern: str) -> None:
    with pytest.raises(ValueError, match="is not a column pattern"):
        ColumnPatterns((pattern,))


def test_only_patterns_without_wildcards_name_a_column() -> None:
    patterns = ColumnPatterns(("Shop.customers.email", "shop.*.x", "phone", "shop.orders.id", "!shop.customers.id"))

    assert list(patterns.exact(CUSTOMERS.table)) == [("Shop.customers.email", "email")]


def test_a_history_follows_names_that_change_and_swap() -> None:
    first = ColumnHistory(treated={"a": "hash 1", "b": "", "c": "mask"})

    then = first.with_columns_renamed([("A", "b"), ("b", "a")]).with_columns_renamed([("b", "z")])
    then = then.with_table_renamed(TableId("shop", "old"))

    assert then.treated == {"z": "hash 1", "a": "", "c": "mask"}
    assert set(then.names(CUSTOMERS.table, "Z")) == {
        (table, column) for table in (CUSTOMERS.table, TableId("shop", "old")) for column in ("Z", "a", "b")
    }
    assert ColumnHistory.from_json(then.to_json()) == then

"""Which tables are meant."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.patterns import TablePatterns
from penstock.core.system_schemas import MYSQL
from penstock.core.tables import TableId

names = st.text(
    alphabet=st.characters(codec="utf-8", exclude_characters=".*?!`\"' ", exclude_categories=["Z", "C"]), min_size=1
)
tables = st.builds(TableId, names, names)


@given(tables)
def test_a_table_matches_its_own_name(table: TableId) -> None:
    assert TablePatterns.parse([str(table)]).matches(table)


@given(tables)
def test_an_exclusion_wins_wherever_it_stands(table: TableId) -> None:
    assert not TablePatterns.parse([f"!{table}", "*.*"]).matches(table)
    assert not TablePatterns.parse(["*.*", f"!{table}"]).matches(table)


@given(tables, tables)
def test_a_name_means_no_other_table(named: TableId, other: TableId) -> None:
    assert TablePatterns.parse([str(named)]).matches(other) == (named == other)


@pytest.mark.parametrize(
    ("patterns", "table", "wanted"),
    [
        (["shop.*"], "shop.orders", True),
        (["shop.*"], "shop2.orders", False),
        (["shop.*"], "Shop.orders", False),
        (["shop.*", "!shop.audit_*"], "shop.audit_log", False),
        (["shop.*", "!shop.audit_*"], "shop.audits", True),
        (["shop_?.users"], "shop_1.users", True),
        (["shop_?.users"], "shop_12.users", False),
        (["shop*.x"], "shop.a.x", False),
        (["shop.a.x"], "shop.a.x", True),
        (["s+p.[a]"], "s+p.[a]", True),
        (["s+p.*"], "ssp.a", False),
        (["*.*"], "mysql.user", False),
        (["shop.*"], "shop.two\nlines", True),
    ],
)
def test_wildcards_and_exclusions_mean_what_they_say(patterns: list[str], table: str, *, wanted: bool) -> None:
    assert TablePatterns.parse(patterns, MYSQL).matches(TableId.parse(table)) is wanted


@pytest.mark.parametrize(
    "pattern", ["shop", "shop.", ".orders", "", "!", "!!shop.*", "shop. orders", "`shop`.`orders`"]
)
def test_a_pattern_that_is_none_is_named(pattern: str) -> None:
    with pytest.raises(ValueError, match="is not a table pattern"):
        TablePatterns.parse(["shop.*", pattern])


@pytest.mark.parametrize("patterns", [[], ["!shop.audit_log"]])
def test_patterns_that_want_nothing_are_refused(patterns: list[str]) -> None:
    with pytest.raises(ValueError, match="nothing is wanted"):
        TablePatterns.parse(patterns)


def test_patterns_travel_to_executors() -> None:
    patterns = TablePatterns.parse(["shop.*", "!shop.x"])

    arrived = pickle.loads(pickle.dumps(patterns))  # noqa: S301 - our own bytes

    assert arrived == patterns
    assert arrived.matches(TableId("shop", "orders"))
    assert not arrived.matches(TableId("shop", "x"))

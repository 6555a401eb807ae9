"""Whether two lists of patterns can mean the same table: held against the tables that they match."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.pattern_overlap import find_common_table
from penstock.core.patterns import TablePatterns
from penstock.core.tables import TableId

_PARTS = st.text("ab*?", min_size=1, max_size=3)
_SIGNS = st.sampled_from(["", "", "!"])
_PATTERNS = st.builds(lambda sign, schema, name: f"{sign}{schema}.{name}", _SIGNS, _PARTS, _PARTS)
_LISTS = st.lists(_PATTERNS, min_size=1, max_size=3).filter(lambda each: any(not p.startswith("!") for p in each))
_NAMES = ["".join(letters) for size in (1, 2, 3) for letters in itertools.product("abt", repeat=size)]
_TABLES = [TableId(schema, name) for schema in _NAMES for name in _NAMES]


@given(_LISTS, _LISTS)
def test_a_common_table_is_found_where_there_is_one_and_both_mean_it(one: list[str], other: list[str]) -> None:
    lists = [TablePatterns.parse(one), TablePatterns.parse(other)]

    found = find_common_table(one, other)

    if found is None:
        assert not any(all(each.matches(table) for each in lists) for table in _TABLES)
    else:
        assert all(each.matches(TableId.parse(found)) for each in lists)


def test_upper_and_lower_case_do_not_keep_tables_apart() -> None:
    assert find_common_table(["Shop.Orders"], ["shop.*"]) == "shop.orders"
    assert find_common_table(["shop.orders"], ["shop.*", "!shop.orders"]) is None

"""A table's name as one text, whatever its parts are called."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.patterns import TablePatterns
from penstock.core.tables import TableId

NAMES = st.text(st.sampled_from("a.%2E5`"), min_size=1, max_size=6)


@given(NAMES, NAMES)
def test_a_name_is_read_as_it_was_written(schema: str, name: str) -> None:
    table = TableId(schema, name)

    assert TableId.parse(str(table)) == table


@pytest.mark.parametrize("pattern", ["acme.example.orders", "acme.*", "*.*", "acme.example.*"])
def test_a_pattern_means_tables_of_a_database_with_a_dot_in_its_name(pattern: str) -> None:
    assert TablePatterns((pattern,)).matches(TableId("acme.example", "orders"))

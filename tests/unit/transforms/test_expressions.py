"""What can be told of an expression without Spark."""

from __future__ import annotations

import pytest

from penstock.core.transforms.expressions import has_moving_literal


@pytest.mark.parametrize(
    "sql",
    [
        "DATE 'today'",
        "date_add(date'Tomorrow', 1)",
        'id > 1 AND at < TIMESTAMP " now UTC"',
        "timestamp_ntz /* noon */ 'yesterday'",
        "concat('date', t) || string(DATE -- when\n 'now')",
        "TIMESTAMP_LTZ r'now'",
    ],
)
def test_a_typed_literal_that_is_a_word_is_another_moment_each_time(sql: str) -> None:
    assert has_moving_literal(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "DATE '2024-01-31'",
        "DATE 'epoch'",
        "t = 'today'",
        "t = 'DATE ''today'''",
        r"t = 'it\'s date' OR t = 'now'",
        "t = \"DATE 'today'\"",
        "`date`  = 'now'",
        "my_date = 'now' /* DATE 'today' */ -- DATE 'today'",
        r"t = r'\' OR t = 'date' AND u <> 'now'",
        "DATE 'nowhere'",
    ],
)
def test_texts_names_and_comments_are_no_such_literals(sql: str) -> None:
    assert not has_moving_literal(sql)

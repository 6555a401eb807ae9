"""A condition in the source's SQL is the same in the target's, and is nothing more than a condition on columns."""

from __future__ import annotations

import pytest

from penstock.core.audit.conditions import translate_condition
from penstock.core.audit.dialects import DUCKDB, MARIADB, POSTGRES
from penstock.core.audit.snowflake import SNOWFLAKE
from penstock.core.errors import UsageError

NAMES = {"a": ("A", "a"), "at": ("at", "AT"), "note": ("note", "note")}


@pytest.mark.parametrize(
    ("text", "postgres", "duckdb"),
    [
        ("a > 3 AND At >= '2026-01-01'", *(2 * ['("a" > 3 AND "AT" >= \'2026-01-01\')'])),
        ('`note` = "it\'s"', *(2 * ["(\"note\" = 'it''s')"])),
        ("a <=> 3", *(2 * ['("a" IS NOT DISTINCT FROM 3)'])),
        ("at > NOW() - INTERVAL 1 DAY", "(\"AT\" > NOW() - INTERVAL '1 DAY')", "(\"AT\" > NOW() - INTERVAL '1' DAY)"),
        ("a = 1 -- all", *(2 * ['("a" = 1)'])),
    ],
)
def test_a_condition_is_written_for_the_target_with_its_names(text: str, postgres: str, duckdb: str) -> None:
    mine, theirs = translate_condition(text, (MARIADB, POSTGRES), NAMES)

    assert mine == f"({text}\n)"
    assert theirs == postgres
    assert translate_condition(text, (MARIADB, DUCKDB), NAMES)[1] == duckdb


def test_no_condition_is_none_on_either_side() -> None:
    assert translate_condition("", (MARIADB, SNOWFLAKE), NAMES) == ("", "")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a >", "not understood"),
        ("a = 1) OR (1 = 1", "not understood"),
        ("a = 1; DROP TABLE t", "more than a condition"),
        ("a = 1 ORDER BY a", "more than a condition"),
        ("a = 1 LIMIT 1", "more than a condition"),
        ("a = 1 UNION SELECT 2", "more than a condition"),
        ("a IN (SELECT 1)", "more than a condition"),
        ("EXISTS(SELECT 1)", "more than a condition"),
        ("COUNT(*) > 1", "more than a condition"),
        ("a = @b", "more than a condition"),
        ("a = 1 /*! OR 1 = 1 */", "a comment that MySQL runs"),
        ("a = 1 /*M!100100 OR 1 = 1 */", "a comment that MySQL runs"),
        ("b = 1", "names b, which is no column that is compared"),
        ("t.a = 1", "names t.a, which is no column that is compared"),
    ],
)
def test_what_is_more_than_a_condition_on_compared_columns_is_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        translate_condition(text, (MARIADB, POSTGRES), NAMES)

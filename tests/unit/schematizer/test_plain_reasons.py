"""Reasons why a topic was opened are said in the words of tables."""

from __future__ import annotations

import pytest

from penstock.schematizer.web.reasons import plain_reasons


@pytest.mark.parametrize(
    ("told", "plain"),
    [
        ("version 1: old reads new: before.useful: long is not readable as int", "`useful` changed from int to bigint"),
        ("version 1: new reads old: after.n: long is not readable as int", "`n` changed from bigint to int"),
        (
            "version 2: old reads new: before.price: bytes/decimal(12,2) does not mean the same as bytes/decimal(10,2)",
            "`price` changed from decimal(10,2) to decimal(12,2)",
        ),
        (
            "version 1: old reads new: before.a: string is not readable as union of null and int",
            "`a` changed from int or NULL to text",
        ),
        (
            "version 1: new reads old: before.a: the writer lacks the field, and the reader has no default for it",
            "`a` is new, and has no default",
        ),
        (
            "version 1: old reads new: before.a: the writer lacks the field, and the reader has no default for it",
            "`a` is gone, and had no default",
        ),
        (
            "version 1: old reads new: before.a: the reader does not know the symbols x, y",
            "`a` got the values x, y",
        ),
        ("the key changed", "the key changed"),
    ],
)
def test_a_reason_is_said_as_people_say_it(told: str, plain: str) -> None:
    assert plain_reasons([told]) == [plain]


def test_a_reason_is_said_once_for_all_versions_and_both_sides() -> None:
    told = [
        f"version {version}: old reads new: {side}.useful: long is not readable as int"
        for version in (1, 2, 3)
        for side in ("before", "after")
    ]

    assert plain_reasons([*told, "the key changed"]) == ["`useful` changed from int to bigint", "the key changed"]

"""How long files are kept that every target has loaded."""

from __future__ import annotations

import pytest
from tests.unit.config.test_load import SMALL, read

from penstock.wiring.files import file_rules


@pytest.mark.parametrize(
    ("said", "hours"),
    [
        ("", 168),
        ("objects: {keep_hours: 48.0}\n", 48),
        ("objects: {keep_hours: forever}\n", None),
        ("kafka: {transactions: false}\n", None),
        ("kafka: {transactions: false}\nobjects: {keep_hours: 2}\n", 2),
    ],
)
def test_files_go_after_a_week_or_as_the_file_says_and_never_by_default_where_no_snapshot_could_be(
    said: str, hours: float | None
) -> None:
    assert read(f"{SMALL}{said}").files_keep_hours == hours


@pytest.mark.parametrize(
    ("said", "bytes_max"),
    [
        ("", 1024),
        ("kafka: {transactions: false}\n", 0),
        ("objects: {keep_hours: forever}\n", 0),
        ("objects: {keep_hours: 48.0}\n", 0),
        ("objects: {keep_hours: 48.0, inline_bytes_max: 300}\n", 300),
        ("objects: {inline_bytes_max: 0}\n", 0),
    ],
)
def test_small_files_are_in_their_messages_unless_somebody_may_read_them(said: str, bytes_max: int) -> None:
    assert file_rules(read(f"{SMALL}{said}")).inline_bytes_max == bytes_max

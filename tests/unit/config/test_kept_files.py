"""How long files are kept that every target has loaded."""

from __future__ import annotations

import pytest
from tests.unit.config.test_load import SMALL, read

from penstock.cli.explain import explain_pipeline
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
    spec = read(f"{SMALL}{said}")

    assert file_rules(spec).inline_bytes_max == bytes_max
    told = f"files of up to {bytes_max:,} bytes are in their batch messages" if bytes_max else "every batch is a file"
    assert f"               {told}" in explain_pipeline(spec)


@pytest.mark.parametrize(
    ("treated", "bytes_max"),
    [
        ("drop: note", 0),
        ("hash: email, salt_env: SALT", 0),
        ("mask: name", 0),
        ("salt_env: SALT", 1024),
    ],
)
def test_rows_whose_columns_a_link_treats_are_in_no_message_unless_the_file_says_so(
    treated: str, bytes_max: int
) -> None:
    text = SMALL.replace("to: warehouse", f"to: warehouse, columns: {{{treated}}}")

    assert read(text).inline_bytes_max == bytes_max
    assert read(f"{text}objects: {{inline_bytes_max: 300}}\n").inline_bytes_max == 300

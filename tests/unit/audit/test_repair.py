"""Keys of rows that are to be repaired, as a snapshot reads them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from penstock.core.audit.repair import RepairKeys, repair_key
from penstock.core.audit.side import AuditColumn
from penstock.core.audit.suspects import Suspects

if TYPE_CHECKING:
    from penstock.core.audit.dialects import Kind


@pytest.mark.parametrize(
    ("kind", "text", "written"),
    [
        ("integer", "-7", "-7"),
        ("text", 'it\'s "é" ', 'it\'s "é" '),
        ("bytes", "00ff", "0x00ff"),
        ("float", "-125e1", "-0.125e1"),
        ("float", "0", "0"),
        ("time", "-10799500000", "-02:59:59.500000"),
        ("datetime", "2024-02-29 23:59:59.000001", "2024-02-29 23:59:59.000001"),
    ],
)
def test_a_key_is_written_as_sql_writes_its_values(kind: Kind, text: str, written: str) -> None:
    line = repair_key([AuditColumn("k", kind)], (text,))

    assert line is not None
    assert json.loads(line) == {"k": written}


def test_no_source_has_a_row_whose_key_is_null() -> None:
    assert repair_key([AuditColumn("a", "text"), AuditColumn("b", "integer")], ("x", None)) is None


def test_rows_with_null_in_their_key_are_not_asked_for() -> None:
    keys = RepairKeys((AuditColumn("id", "integer"),), Suspects.of_keys([("7",), (None,), ("8",)]))

    assert list(keys) == ['{"id": "7"}', '{"id": "8"}']
    assert not list(RepairKeys())

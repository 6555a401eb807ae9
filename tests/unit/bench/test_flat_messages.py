"""What peers read is what our files say."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.bench.programs.load_manifest import SCHEMA
from penstock.bench.warehouse.flat_messages import _messages, _row_messages
from penstock.core.files import file_schema

_ROW = {
    "id": 7,
    "customer": 'quote " and ä',
    "quantity": 3,
    "price": Decimal("-1.05"),
    "ordered_at": datetime(2026, 1, 2, 3, 4, 5, 6),  # noqa: DTZ001 - a DATETIME has no zone
    "remark": "",
    "status": 1,
    "details": None,
}


def _sent(op: str) -> tuple[bytes, bytes | None]:
    row = {**_ROW, "__penstock_op": op, "__penstock_offset": 0}
    ((key, value),) = _messages(pa.Table.from_pylist([row], file_schema(SCHEMA)))
    return key, value


@pytest.mark.parametrize(("op", "is_deleted"), [("u", False), ("d", True)])
def test_a_change_is_a_row_that_says_what_happened_to_it(op: str, is_deleted: bool) -> None:  # noqa: FBT001 - a parameter
    row = {**_ROW, "__penstock_op": op, "__penstock_offset": 41}

    ((key, value),) = _row_messages(pa.Table.from_pylist([row], file_schema(SCHEMA)))

    assert key == b"7"
    as_text = {"price": "-1.05", "ordered_at": "2026-01-02 03:04:05.000006"}
    assert json.loads(value) == {**_ROW, **as_text, "is_deleted": is_deleted, "change_offset": 41}


def test_a_row_that_came_is_a_message_with_its_schema() -> None:
    key, value = _sent("u")
    told = json.loads(value or b"")

    assert json.loads(key)["payload"] == {"id": 7}
    assert [field["field"] for field in told["schema"]["fields"]] == list(told["payload"])
    row = told["payload"]
    assert int.from_bytes(base64.b64decode(row["price"]), "big", signed=True) == -105
    assert row["ordered_at"] == 1_767_323_045_000_006
    assert (row["customer"], row["remark"], row["details"]) == ('quote " and ä', "", None)


def test_a_row_that_went_is_a_key_alone() -> None:
    key, value = _sent("d")

    assert json.loads(key)["payload"] == {"id": 7}
    assert value is None

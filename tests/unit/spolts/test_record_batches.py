"""Records without a schema as one batch: no field of any of them is lost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock.core.spolts.batches import batch_of_records, values_of
from penstock.core.spolts.message import Message
from penstock.core.spolts.raw import RawMessage
from penstock.spolts import spolt
from penstock.spolts.testing import Harness, send

if TYPE_CHECKING:
    from collections.abc import Sequence

FIELDS: list[pa.Field[Any]] = [pa.field("id", pa.int64(), nullable=False), pa.field("note", pa.string())]
OUT = pa.schema(FIELDS)


def batch(values: Sequence[object]) -> pa.RecordBatch:
    raws = [RawMessage("t", 0, index, 0, None, json.dumps(value).encode()) for index, value in enumerate(values)]
    messages = [Message("t", 0, index, 0, None, value) for index, value in enumerate(values)]
    return batch_of_records(raws, messages, None)


@spolt(batches=True, output=OUT)
def with_note(found: pa.RecordBatch) -> pa.RecordBatch:
    return found.select([name for name in found.schema.names if name in OUT.names])


def test_a_field_that_the_first_record_lacks_is_a_column() -> None:
    found = values_of(batch([{"id": 1}, {"note": "x", "id": 2}, {}, {"deep": {"a": 1}}, {"deep": {"b": 2}}]))

    assert found.schema.names == ["id", "note", "deep"]
    assert found.to_pylist() == [
        {"id": 1, "note": None, "deep": None},
        {"id": 2, "note": "x", "deep": None},
        {"id": None, "note": None, "deep": None},
        {"id": None, "note": None, "deep": {"a": 1, "b": None}},
        {"id": None, "note": None, "deep": {"a": None, "b": 2}},
    ]


def test_records_without_fields_are_rows_without_columns() -> None:
    found = batch([{}, {}])

    assert found.num_rows == 2
    assert values_of(found).schema.names == []


def test_a_field_of_a_row_before_its_change_is_not_lost() -> None:
    change = {"op": "u", "before": {"id": 1, "gone": "x"}, "after": {"id": 1, "note": "y"}}
    created = {"op": "c", "before": None, "after": {"id": 2}}

    found = batch([created, change])

    assert found.column("_before").to_pylist() == [None, {"id": 1, "note": None, "gone": "x"}]
    assert values_of(found).to_pylist() == [
        {"id": 2, "note": None, "gone": None},
        {"id": 1, "note": "y", "gone": None},
    ]


def test_values_of_two_types_in_one_field_are_refused() -> None:
    with pytest.raises(pa.ArrowInvalid):
        batch([{"id": 1}, {"id": "one"}])


def test_user_code_gets_the_fields_of_all_messages() -> None:
    harness = Harness.of_function(with_note, given={"topic": "in", "format": "json"})

    result = harness.run([send("in", {"id": 1}), send("in", {"id": 2, "note": "x"})])

    assert not result.letters
    assert result.values("out") == [{"id": 1, "note": None}, {"id": 2, "note": "x"}]

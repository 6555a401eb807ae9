"""One message that no capture wrote is a dead letter of a join, whatever it holds, and the others go on."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.joins.test_tombstones import FIRST, LARGE, NOTE, PARTIAL, Joined

from penstock.core.arrow_types import arrow_schema
from penstock.core.avro.envelope_encode import EncodableTable
from penstock.core.changes import Op, RowBatch
from penstock.core.message_format import encode_changes

FRONT = b'{"__penstock_schema":0,'
NESTED = b"[" * 100_000 + b"]" * 100_000


def assert_dead_letter(joined: Joined, foreign: bytes, why: str) -> None:
    """It is, and a message before it and one behind it are joined."""
    (_, first), (_, last) = (joined.messages(0, Op.CREATE, row)[0] for row in (FIRST, LARGE))

    joined.take(0, [(None, first), (None, foreign), (None, last)])

    assert joined.rows == {1: "one Ulm", 2**60: "two Ulm"}
    (letter,) = joined.letters
    assert (letter.offset, letter.value) == (1, foreign)
    assert why in letter.reason


def avro(note: Any, **said: Any) -> bytes:  # noqa: ANN401 - a table, and fields of a batch
    """A message with other fields than a capture writes."""
    row = pa.RecordBatch.from_pylist([{"id": 5, "part": "a", "shop": 7, "text": "x"}], schema=arrow_schema(note))
    batch = RowBatch(
        schema=note,
        op=Op.UPDATE,
        before=row,
        after=row,
        file="000001",
        offsets=np.array([50], np.int64),
        rows=np.zeros(1, np.int32),
        timestamps_ms=np.zeros(1, np.int64),
        gtids=pa.array([""]),
        server_id=1,
    )
    table = EncodableTable("db", "mysql", note, 100, 0)
    _, values = encode_changes(table, replace(batch, **said), 0)
    return bytes(values[0].as_py() or b"")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"file": "no number"}, "its log file 'no number' has no number"),
        ({"file": ""}, "its log file '' has no number"),
        ({"file": "bin.-1"}, "has no number"),
        ({"file": f"bin.{2**64}"}, "has no number"),
        ({"file": "bin.2097152"}, "beyond what a join can order"),
        ({"offsets": np.array([2**38], np.int64)}, "beyond what a join can order"),
        ({"offsets": np.array([-1], np.int64)}, "beyond what a join can order"),
    ],
)
@pytest.mark.parametrize("note", [NOTE, PARTIAL], ids=["whole", "partial"])
def test_an_envelope_of_a_place_that_no_log_has(note: Any, said: Any, why: str) -> None:  # noqa: ANN401 - see `avro`
    assert_dead_letter(Joined(note), avro(note, **said), why)


@pytest.mark.parametrize("lacks", ["text", '{"text": 1}', "5", '["x"]', '["id"]', '[["text"]]', "[" * 100_000])
def test_an_envelope_that_names_columns_that_no_row_can_lack(lacks: str) -> None:
    message = avro(PARTIAL, after_lacks=("text",))
    own = json.dumps(["text"]).encode()
    assert message.count(bytes([2 * len(own)]) + own) == 1
    foreign = message.replace(bytes([2 * len(own)]) + own, long(len(lacks)) + lacks.encode())

    assert_dead_letter(Joined(PARTIAL), foreign, "it names what no row can lack")


def long(value: int) -> bytes:
    """A long of Avro, not below 0."""
    rest, found = value * 2, []
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*found, rest])


@pytest.mark.parametrize(
    "said",
    [
        {"op": []},
        {"op": {}},
        {"lacks": 5},
        {"lacks": {"text": 1}},
        {"lacks": "text"},
        {"lacks": ["id"]},
        {"ts_ms": 2**70},
        {"row": 2**31},
        {"position": "bin.000001:-1"},
        {"position": f"bin.000001:{2**70}"},
        {"position": "bin.x:4"},
        {"source": "\ud800"},
        {"id": None},
        {"part": None},
    ],
    ids=str,
)
@pytest.mark.parametrize("note", [NOTE, PARTIAL], ids=["whole", "partial"])
def test_a_flat_message_of_another_shape(note: Any, said: dict[str, Any]) -> None:  # noqa: ANN401 - a table
    joined, own = Joined(note), {"id", "part"}
    ((_, value),) = joined.messages(0, Op.CREATE, {"id": 5, "part": "a", "shop": 7, "text": "x"})
    fields = json.loads(value or b"")
    fields |= {name if name in own else f"__penstock_{name}": value for name, value in said.items()}

    assert_dead_letter(joined, json.dumps(fields, separators=(",", ":")).encode(), "")


@pytest.mark.parametrize("member", [b'"text":', b'"__penstock_table":'], ids=["value", "table"])
def test_a_flat_message_that_is_nested_deep(member: bytes) -> None:
    assert_dead_letter(Joined(), FRONT + member + NESTED + b"}", "is nested too deep")

"""What links commit can be read back, whatever is in it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.batches import Batch
from penstock.core.changes import Messages
from penstock.core.positions import BinlogPosition, Heartbeat, binlog_position
from penstock.core.publication import CaptureRecord, StoppedTable, merge_by_topic
from penstock.core.publish_tokens import PublishToken, TokenState
from penstock.core.schema_changes import Move, SchemaChange, SchemaChangeKind
from penstock.core.tables import TableId
from penstock.links.objects.record import ObjectsRecord

names = st.text(min_size=1, max_size=20)
numbers = st.integers(0, 2**62)
orders = st.tuples(numbers, numbers, st.integers(-1, 2**31))
counted = st.dictionaries(names, st.tuples(numbers, numbers), max_size=4)
heartbeats = st.builds(Heartbeat, st.integers(1, 2**62), numbers, names, *[numbers] * 4)
positions = st.builds(
    BinlogPosition,
    st.just("binlog.000042"),
    *(numbers, numbers, names),
    timeline=st.integers(0, 9),
    heartbeat=st.none() | heartbeats,
    file_created=numbers,
)
tables = st.builds(TableId, names.filter(lambda name: "." not in name), names)

moves = st.lists(st.builds(Move, names, names, numbers), max_size=3).map(tuple)
column_renames = st.lists(st.tuples(names, names), max_size=3).map(tuple)


@given(
    st.builds(
        CaptureRecord,
        positions,
        numbers,
        numbers,
        counted,
        st.dictionaries(names, st.builds(StoppedTable, names, names, names), max_size=3),
        st.just("") | names,
        st.none() | st.builds(PublishToken, names, numbers, st.sampled_from(TokenState)),
        st.booleans(),
    )
)
def test_a_captures_record_survives_kafka(record: CaptureRecord) -> None:
    found = CaptureRecord.from_mapping(json.loads(json.dumps(record.to_mapping())))

    assert found == record
    assert found.position.to_mapping() == record.position.to_mapping()


def test_a_record_of_an_earlier_release_knows_no_time_of_its_file() -> None:
    mapping = CaptureRecord(BinlogPosition("binlog.000042", 4, file_created=7), 1, 2).to_mapping()
    del mapping["file_created"]

    assert binlog_position(CaptureRecord.from_mapping(mapping).position).file_created == 0


@given(
    st.builds(
        ObjectsRecord,
        numbers,
        st.dictionaries(st.tuples(names, numbers), st.tuples(numbers, numbers), max_size=5),
        numbers,
        counted,
        st.lists(numbers, max_size=3).map(tuple),
        files_from=numbers,
        deleted_to=numbers,
        kept_from=numbers,
        batches_from=numbers,
    )
)
def test_the_spolts_record_survives_kafka(record: ObjectsRecord) -> None:
    assert ObjectsRecord.from_mapping(json.loads(json.dumps(record.to_mapping()))) == record


def test_a_record_of_an_older_release_is_read() -> None:
    fields = ObjectsRecord(4, {("t", 0): (1, 2)}, 3).to_mapping()
    del fields["passed"], fields["batches_from"]

    assert ObjectsRecord.from_mapping(fields) == ObjectsRecord(4, {("t", 0): (1, 2)}, 3)


@given(
    st.builds(
        SchemaChange,
        names,
        tables,
        names,
        names,
        st.none() | numbers,
        numbers,
        numbers,
        orders,
        st.sampled_from(SchemaChangeKind),
        names,
        numbers,
        moves,
        column_renames,
    )
)
def test_a_schema_change_survives_kafka(schema_change: SchemaChange) -> None:
    assert SchemaChange.from_json(schema_change.to_json()) == schema_change


@given(
    st.builds(
        Batch,
        source=names,
        table=tables,
        topic=names,
        partition=numbers,
        start_offset=numbers,
        end_offset=numbers,
        rows=numbers,
        path=names,
        size_bytes=numbers,
        format=names,
        schema_id=numbers,
        first_order=orders,
        last_order=orders,
        last_timestamp_ms=numbers,
        kind=st.sampled_from(SchemaChangeKind),
        file=names,
        moves=moves,
        column_renames=column_renames,
        content=st.none() | st.binary(max_size=40),
    )
)
def test_a_batch_message_survives_kafka(batch: Batch) -> None:
    assert Batch.from_json(batch.to_json()) == batch


TABLE = TableId("shop", "users")
SCHEMA_CHANGE = SchemaChange("db", TABLE, "t", "", 1, 2, 1, (1, 2, 0), SchemaChangeKind.TRUNCATE, "bin.000001", 7)
BATCH = Batch(
    "db", TABLE, "t", 0, 0, 0, 0, "", 0, "", 2, (1, 2, 0), (1, 2, 0), 7, SchemaChangeKind.TRUNCATE, "bin.000001"
)


@pytest.mark.parametrize(("message", "newest"), [(SCHEMA_CHANGE, 2), (BATCH, 4)])
def test_messages_of_the_release_before_are_schemas_and_those_of_a_later_one_are_refused(
    message: SchemaChange | Batch, newest: int
) -> None:
    fields = json.loads(message.to_json())
    newer = json.dumps({**fields, "version": newest + 1, "kind": "unheard-of"}).encode()
    later = {"kind", "file", "compression", "dialect", "crc32", "written_at_ms"}
    older = {name: value for name, value in fields.items() if name not in later}

    read = type(message).from_json(json.dumps({**older, "version": 1}).encode())

    assert read == replace(message, kind=SchemaChangeKind.SCHEMA, file="")
    with pytest.raises(ValueError, match=f"version {newest + 1}; this release reads versions 1 to {newest}"):
        type(message).from_json(newer)


def test_releases_that_know_no_files_in_messages_read_all_others_and_refuse_these() -> None:
    told = [json.loads(replace(BATCH, content=content).to_json()) for content in (None, b"\xff")]

    assert [fields["version"] for fields in told] == [3, 4]
    assert ["content" in fields for fields in told] == [False, True]


@given(st.lists(st.lists(st.integers(0, 1000), max_size=8).map(sorted), max_size=6))
def test_merging_puts_the_messages_of_a_topic_into_log_order(parts: list[list[int]]) -> None:
    messages = [
        Messages(
            "t",
            pa.array([b"k%d" % n for n in part], pa.binary()),
            pa.array([b"v%d" % n for n in part], pa.binary()),
            np.array(part, np.int64),
        )
        for part in parts
    ]

    merged = merge_by_topic(messages)

    expected = sorted(n for part in parts for n in part)
    assert [n for part in merged for n in part.order.tolist()] == expected
    assert [v for part in merged for v in part.values.to_pylist()] == [b"v%d" % n for n in expected]
    assert [k for part in merged for k in part.keys.to_pylist()] == [b"k%d" % n for n in expected]

"""Merges a topic of flat JSON rows into DuckDB with dlt. Run by the Python of dlt's own environment.

    python dlt_kafka.py BROKERS TOPIC FIRST ROWS DATABASE FOLDER LOADS

The first FIRST messages are loaded before anything is measured; then ROWS of them
in LOADS loads. Messages are read as dlt's own Kafka source does (dlt documentation,
"Kafka": confluent-kafka's `consume`, 3,000 messages at a time), and given to dlt as
Arrow tables: as the dictionaries that their JSON is it takes ten times as long.
Marks: `begin`, `end`, `rows`.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition
from dlt.common.json import json
from dlt_pipeline import mark, merge, open_pipeline

if TYPE_CHECKING:
    from collections.abc import Iterator

_AT_ONCE = 3000
_POLL_SECONDS = 1.0
_SILENCE_SECONDS = 60.0
_JSON: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "customer": pa.string(),
    "quantity": pa.int32(),
    "price": pa.string(),
    "ordered_at": pa.string(),
    "remark": pa.string(),
    "status": pa.int8(),
    "details": pa.string(),
    "is_deleted": pa.bool_(),
    "change_offset": pa.int64(),
}
_ROWS: dict[str, pa.DataType] = {**_JSON, "price": pa.decimal128(12, 2), "ordered_at": pa.timestamp("us")}
"""What is text in JSON is a number and a moment in the table."""


def main(arguments: list[str]) -> None:
    """Merge them."""
    brokers, topic, first, rows, database, folder, loads = arguments
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "dlt", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    pipeline = open_pipeline(database, folder)
    merge(pipeline, _read(consumer, int(first)))
    count = int(rows)
    each = -(-count // int(loads))
    mark("begin", time.monotonic())
    for start in range(0, count, each):
        merge(pipeline, _read(consumer, min(each, count - start)))
    mark("end", time.monotonic())
    mark("rows", count)


def _read(consumer: Consumer, count: int) -> Iterator[pa.Table]:
    """Yield the next `count` rows. TimeoutError when nothing comes for a minute."""
    deadline = time.monotonic() + _SILENCE_SECONDS
    while count:
        messages = consumer.consume(min(_AT_ONCE, count), _POLL_SECONDS)
        if messages:
            deadline = time.monotonic() + _SILENCE_SECONDS
        elif time.monotonic() > deadline:
            raise TimeoutError(count)
        count -= len(messages)
        if messages:
            rows = [json.loadb(message.value()) for message in messages]
            yield pa.Table.from_pylist(rows, pa.schema(_JSON)).cast(pa.schema(_ROWS))


if __name__ == "__main__":
    main(sys.argv[1:])

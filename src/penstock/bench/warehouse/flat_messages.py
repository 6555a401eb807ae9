"""Batch files of ours as topics of flat JSON rows, as peers read them.

For sink connectors a message has the row that came, or nothing where it went. Its
schema comes with it, as Kafka Connect's JsonConverter writes and reads it; types are
those of Debezium's documentation, "Data type mappings". A change of Debezium's own
would have the row before it, too, which a sink only skips over. For dlt a message is
a row alone, which says itself whether it is deleted and which change it is of.
"""

from __future__ import annotations

import base64
import json
from itertools import chain
from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from confluent_kafka import Producer

from penstock.adapters.kafka.cluster import KafkaCluster, create_topics
from penstock.core.errors import PenstockError
from penstock.core.files import OFFSET, OP

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from decimal import Decimal
    from pathlib import Path

MARK_ID: Final = 1 << 40
"""The first of the keys of rows that only say that all before them are in."""

_FLUSH_SECONDS: Final = 120.0
_PRICE: Final = {
    "type": "bytes",
    "optional": False,
    "name": "org.apache.kafka.connect.data.Decimal",
    "version": 1,
    "parameters": {"scale": "2", "connect.decimal.precision": "12"},
}
_FIELDS: Final = (
    ("id", {"type": "int64", "optional": False}),
    ("customer", {"type": "string", "optional": False}),
    ("quantity", {"type": "int32", "optional": False}),
    ("price", _PRICE),
    ("ordered_at", {"type": "int64", "optional": False, "name": "io.debezium.time.MicroTimestamp", "version": 1}),
    ("remark", {"type": "string", "optional": False}),
    ("status", {"type": "int16", "optional": False}),
    ("details", {"type": "string", "optional": True}),
)
_UNSCALED_BYTES: Final = 8


def send_changes(bootstrap_servers: str, topic: str, files: Sequence[Path], mark: int) -> None:
    """Write the changes of `files`, in order, to partition 0 of `topic`, and then row `MARK_ID + mark`."""
    changes = (message for file in files for message in _messages(pq.read_table(file)))
    _send_all(bootstrap_servers, topic, chain(changes, [_marker(MARK_ID + mark)]))


def send_rows(bootstrap_servers: str, topic: str, files: Sequence[Path]) -> int:
    """Write the changes of `files`, in order, to partition 0 of `topic` as rows without schemas; return how many."""
    tables = [pq.read_table(file) for file in files]
    _send_all(bootstrap_servers, topic, (message for table in tables for message in _row_messages(table)))
    return sum(table.num_rows for table in tables)


def _send_all(bootstrap_servers: str, topic: str, messages: Iterable[tuple[bytes, bytes | None]]) -> None:
    create_topics(KafkaCluster(bootstrap_servers), [topic], {}, partitions=1)
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 20, "compression.type": "lz4"})
    for key, value in messages:
        _send(producer, topic, key, value)
    if producer.flush(_FLUSH_SECONDS):
        message = f"Kafka did not take the messages of {topic} within {_FLUSH_SECONDS:.0f} s"
        raise PenstockError(message, "this is a mistake in the bench: report it")


def _send(producer: Producer, topic: str, key: bytes, value: bytes | None) -> None:
    while True:
        try:
            producer.produce(topic, value, key, partition=0)
        except BufferError:
            producer.poll(0.1)
        else:
            producer.poll(0)
            return


def _messages(rows: pa.Table) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield (key, value) of each change; the value of one that deletes is None."""
    prices = _base64_prices(cast("list[Decimal]", rows.column("price").to_pylist()))
    moments = pc.cast(rows.column("ordered_at"), pa.int64()).to_pylist()
    plain = [rows.column(name).to_pylist() for name in ("id", "customer", "quantity", "remark", "status", "details")]
    ops = rows.column(OP).to_pylist()
    for op, price, moment, id_, customer, quantity, remark, status, details in zip(
        ops, prices, moments, *plain, strict=True
    ):
        yield (
            _key(id_),
            None if op == "d" else _value((id_, customer, quantity, price, moment, remark, status, details)),
        )


def _row_messages(rows: pa.Table) -> Iterator[tuple[bytes, bytes]]:
    """Yield (key, value) of each change as a row; decimals and moments as text, of which dlt makes what they are."""
    is_text = {"price", "ordered_at"}
    columns = {name: rows.column(name).cast(pa.string()) if name in is_text else rows.column(name) for name in _NAMES}
    deleted, offsets = [op == "d" for op in rows.column(OP).to_pylist()], rows.column(OFFSET).to_pylist()
    for row, is_deleted, offset in zip(
        pa.Table.from_arrays(list(columns.values()), list(columns)).to_pylist(), deleted, offsets, strict=True
    ):
        whole = {**row, "is_deleted": is_deleted, "change_offset": offset}
        yield str(row["id"]).encode(), json.dumps(whole, separators=(",", ":")).encode()


def _base64_prices(prices: Sequence[Decimal]) -> list[str]:
    """Unscaled values as big-endian bytes, in Base64."""
    unscaled = (int(price.scaleb(2)) for price in prices)
    return [base64.b64encode(value.to_bytes(_UNSCALED_BYTES, "big", signed=True)).decode() for value in unscaled]


def _marker(id_: int) -> tuple[bytes, bytes]:
    price = base64.b64encode(bytes(_UNSCALED_BYTES)).decode()
    return _key(id_), _value((id_, "", 0, price, 0, "", 0, None))


def _schema(fields: Sequence[tuple[str, object]]) -> bytes:
    listed = [{"field": name, **(kind if isinstance(kind, dict) else {})} for name, kind in fields]
    return json.dumps({"type": "struct", "optional": False, "fields": listed}, separators=(",", ":")).encode()


_KEY: Final = b'{"schema":' + _schema(_FIELDS[:1]) + b',"payload":{"id":%d}}'
_VALUE_BEGIN: Final = b'{"schema":' + _schema(_FIELDS) + b',"payload":'
_NAMES: Final = tuple(name for name, _ in _FIELDS)


def _key(id_: int) -> bytes:
    return _KEY % id_


def _value(row: tuple[object, ...]) -> bytes:
    return _VALUE_BEGIN + json.dumps(dict(zip(_NAMES, row, strict=True)), separators=(",", ":")).encode() + b"}"

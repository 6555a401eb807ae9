"""A join's state that is kept in a file with the messages it is of, and a place in which a join goes on from it."""

from __future__ import annotations

import io
import json
import struct
import tarfile
import uuid
from base64 import b64decode, b64encode
from contextlib import closing
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import fastavro
import httpx
import numpy as np
import pyarrow as pa
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.core.avro.schemas import table_schema, value_schema
from penstock.core.changes import Op
from penstock.core.joins.algebra import JoinState
from penstock.core.joins.changes import changes_in_parts, output_changes
from penstock.core.joins.described import Described
from penstock.core.joins.inputs import JoinInput, JoinOutput
from penstock.core.joins.plan import plan_join
from penstock.core.joins.upgrade import MadeJoin, made_join
from penstock.core.tables import Column, IntegerType, TableId, TableSchema, TextType
from penstock.jobs.link import JoinWork
from penstock.links.joins.decode import JoinDecoder, sort_out
from penstock.links.joins.spec import JoinJob, JoinStream
from penstock.spark.join_query import JoinFinisher, start_join_query
from penstock.spark.queries import QueryPlace
from penstock.wiring.open import open_registry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from penstock.config.specs import PipelineSpec
    from penstock.core.joins.changes import OutputRows
    from penstock.core.joins.plan import JoinPlan

Rows = dict[tuple[object, ...], dict[str, object]]

_INT, _LONG, _TEXT = IntegerType(32, unsigned=False), IntegerType(64, unsigned=False), TextType(40, "utf8mb4")
_BUSINESS = (Column("business_id", _INT, nullable=False), Column("name", _TEXT, nullable=True))
_CITY, _PHONE = Column("city", _TEXT, nullable=True), Column("phone", _TEXT, nullable=True)
_REVIEW = (
    Column("review_id", _LONG, nullable=False),
    Column("biz_id", _LONG, nullable=True),
    Column("stars", _INT, nullable=False),
    Column("content", _TEXT, nullable=True),
)
TABLES = (
    TableSchema(TableId("shop", "review"), _REVIEW, ("review_id",)),
    TableSchema(TableId("shop", "business"), (*_BUSINESS, _CITY), ("business_id",)),
    TableSchema(TableId("shop", "business"), (*_BUSINESS, _CITY, _PHONE), ("business_id",)),
)
"""Those of the inputs, and the second one with the column that it gets behind the state."""

ROUNDS, CHANGES = 4, 150
_FRAME = struct.Struct(">bI")
_SOURCE = "db"


@dataclass(frozen=True, slots=True)
class Message:
    """One change: its input, the schema that it is written with, as a number, and its bytes behind the frame."""

    input: int
    schema: int
    body: bytes


@dataclass(frozen=True, slots=True)
class History:
    """The messages of each round, the last of which come behind the state; `made` says what the state is of."""

    prefix: str
    schemas: tuple[str, ...]
    rounds: tuple[tuple[Message, ...], ...]
    made: MadeJoin


def random_rounds(seed: int) -> tuple[tuple[Message, ...], ...]:
    """Creates, updates, deletes and moves between join keys; in the last round businesses have phones, too."""
    rng = Random(seed)  # noqa: S311 - what it makes is no secret
    schemas = [fastavro.parse_schema(json.loads(value_schema(table))) for table in TABLES]
    tables: tuple[dict[int, dict[str, object]], ...] = ({}, {})
    position, rounds = 0, []
    for number in range(ROUNDS):
        messages = []
        for _ in range(CHANGES):
            position += 1
            given = int(rng.random() < 0.3)
            schema = 2 if given and number == ROUNDS - 1 else given
            key = rng.randrange(30 if given else 200)
            before = tables[given].pop(key, None)
            after = None if before is not None and rng.random() < 0.2 else _row(rng, schema, key)
            if after is not None:
                tables[given][key] = after
            op = "d" if after is None else "c" if before is None else "u"
            change = {"before": before, "after": after, "op": op, "ts_ms": 0, "source": _origin(given, position)}
            buffer = io.BytesIO()
            fastavro.schemaless_writer(buffer, schemas[schema], change)
            messages.append(Message(given, schema, buffer.getvalue()))
        rounds.append(tuple(messages))
    return tuple(rounds)


def _row(rng: Random, schema: int, key: int) -> dict[str, object]:
    if schema == 0:
        biz_id = rng.choice([None, *range(33)])
        return {"review_id": key, "biz_id": biz_id, "stars": rng.randrange(6), "content": "é" * rng.randrange(9)}
    row: dict[str, object] = {
        "business_id": key,
        "name": f"name {key}",
        "city": rng.choice([None, "Ulm", "Bonn", "Trier"]),
    }
    return row | {"phone": str(rng.randrange(99))} if schema == TABLES.index(TABLES[-1]) else row


def _origin(given: int, position: int) -> dict[str, object]:
    origin = {
        "version": "1",
        "connector": "mysql",
        "name": _SOURCE,
        "ts_ms": 0,
        "db": "shop",
        "server_id": 1,
        "gtid": None,
    }
    return origin | {"table": TABLES[given].table.name, "file": "binlog.000001", "pos": position, "row": 0}


class KeptJoin:
    """A place with the history's messages in topics of its own, and its schemas in the Schematizer."""

    def __init__(self, spec: PipelineSpec, session: SparkSession, history: History) -> None:
        """Register the schemas, and make empty topics."""
        self._spec = spec
        self._session = session
        self.history = history
        self.prefix = f"kept{uuid.uuid4().hex[:12]}"
        self._ids = [self._register(number, text) for number, text in enumerate(history.schemas)]
        self._topics = [f"{self.prefix}.shop.{table.table.name}" for table in TABLES[:2]]
        servers: dict[str, str | int | float | bool] = {"bootstrap.servers": str(spec.kafka.bootstrap_servers)}
        self._producer = Producer(servers)
        topics = [*self._topics, f"{self.prefix}.schemas"]
        admin = AdminClient(servers)
        for each in admin.create_topics([NewTopic(topic, 1, 1) for topic in topics]).values():
            each.result(30)

    def _register(self, number: int, text: str) -> int:
        subject = f"{self.prefix}.{number}-value"
        assert self._spec.schematizer is not None
        url = f"{self._spec.schematizer.url}/subjects/{subject}/versions"
        return int(httpx.post(url, json={"schema": text}, timeout=30).raise_for_status().json()["id"])

    def publish(self, number: int) -> None:
        """Publish the messages of one round."""
        for message in self.history.rounds[number]:
            self._producer.produce(self._topics[message.input], self._value(message), partition=0)
        assert self._producer.flush(30) == 0

    def _value(self, message: Message) -> bytes:
        return _FRAME.pack(0, self._ids[message.schema]) + message.body

    def job(self, plan: JoinPlan) -> JoinJob:
        """The join of `plan` here."""
        streams = tuple(
            JoinStream(
                _SOURCE,
                TABLES[given].table,
                topic,
                self._ids[given],
                timelines=(((0, 0),),),
                described=tuple(
                    Described((1, 0, number), self._ids[number])
                    for number, each in enumerate(TABLES)
                    if each.table == TABLES[given].table
                ),
            )
            for given, topic in enumerate(self._topics)
        )
        return JoinJob("kept", plan, streams, f"{self.prefix}.schemas")

    def carry(self, plan: JoinPlan, checkpoint: Path) -> list[OutputRows]:
        """Join by Spark what the topics hold and the state has not; return the changes of the output."""
        found: list[OutputRows] = []

        def take(batch: int, places: object, differences: Sequence[pa.Table], unreadable: Sequence[object]) -> None:
            del batch, places
            assert not unreadable
            found.extend(changes_in_parts(plan, differences, 1 << 26))

        work = JoinWork(self.job(plan), checkpoint, {}, -1, lambda _: False, take)
        finish = JoinFinisher(work)
        query = start_join_query(QueryPlace(self._session, once=True), self._spec, work, finish)
        query.awaitTermination()
        return found

    def fresh(self, plan: JoinPlan, rounds: int) -> Rows:
        """What the join of the first so many rounds is, without Spark and without a state."""
        job, events = self.job(plan), []
        with closing(open_registry(self._spec)) as registry:
            decoder = JoinDecoder(job, registry.value_schema)
            for given, topic in enumerate(self._topics):
                messages = [each for part in self.history.rounds[:rounds] for each in part if each.input == given]
                values = pa.array([self._value(each) for each in messages], pa.binary())
                keys = pa.nulls(len(messages), pa.binary())
                decoded, unreadable = sort_out(decoder.decode(topic, 0, np.arange(len(messages)), values, keys))
                assert not unreadable
                events += decoded
        return fold({}, plan, output_changes(plan, JoinState(2, plan.optional).apply(events)))


def plan_of(business: Mapping[str, Any] | None = None) -> JoinPlan:
    """The join of reviews with their businesses; `business` says something else of the second input."""
    said: dict[str, Any] = {"exclude": ("name",), "aliases": (("business_id", "biz_id"),)} | dict(business or {})
    inputs = [
        JoinInput("review", TABLES[0], ("biz_id",), ("content",)),
        JoinInput("business", TABLES[1], ("business_id",), **said),
    ]
    return plan_join(inputs, JoinOutput(TableId("joined", "kept"), ("review_id",)))


def fold(rows: Rows, plan: JoinPlan, changes: Sequence[OutputRows]) -> Rows:
    """The rows that changes leave, each of which must fit what was there before."""
    found = dict(rows)
    for each in changes:
        befores = [None] * len(each) if each.before is None else each.before.to_pylist()
        afters = [None] * len(each) if each.after is None else each.after.to_pylist()
        assert (each.op is Op.CREATE, each.op is Op.DELETE) == (each.before is None, each.after is None)
        for before, after in zip(befores, afters, strict=True):
            key = tuple((before or after or {})[name] for name in plan.output.key)
            assert found.pop(key, None) == before
            if after is not None:
                found[key] = after
    return found


def shown(rows: Rows, made: MadeJoin, plan: JoinPlan) -> Rows:
    """Rows that were published as `made` says, as targets have them once they know of `plan`."""
    names = {place: name for name, place in made.place_of.items()}
    places = made_join(plan).place_of
    return {key: {name: row[names[place]] for name, place in places.items()} for key, row in rows.items()}


def keep(place: KeptJoin, checkpoint: Path, file: Path) -> None:
    """Write a state and its history to one file."""
    history = place.history
    rounds = [[[m.input, m.schema, b64encode(m.body).decode()] for m in part] for part in history.rounds]
    said = {"prefix": place.prefix, "schemas": history.schemas, "rounds": rounds, "made": history.made.to_mapping()}
    text = json.dumps(said).encode()
    with tarfile.open(file, "w:xz") as archive:
        entry = tarfile.TarInfo("history.json")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
        for each in sorted(checkpoint.rglob("*")):
            if each.is_file() and each.suffix != ".crc":
                archive.add(each, f"state/{each.relative_to(checkpoint)}")


def read_kept(file: Path, folder: Path) -> History:
    """Unpack a kept state below `folder`, and read its history."""
    with tarfile.open(file, "r:xz") as archive:
        archive.extractall(folder, filter="data")
    said = json.loads((folder / "history.json").read_text())
    rounds = tuple(
        tuple(Message(given, schema, b64decode(body)) for given, schema, body in part) for part in said["rounds"]
    )
    return History(said["prefix"], tuple(said["schemas"]), rounds, MadeJoin.from_mapping(said["made"]))


def name_topics(state: Path, before: str, now: str) -> None:
    """Have a state read topics of another prefix."""
    for file in (*state.glob("offsets/*"), *state.glob("sources/*/*")):
        file.write_text(file.read_text().replace(before, now))


def history_of(seed: int) -> History:
    """A new one."""
    schemas = tuple(value_schema(table) for table in TABLES)
    assert [table_schema(text).columns for text in schemas] == [table.columns for table in TABLES]
    return History("", schemas, random_rounds(seed), made_join(plan_of()))

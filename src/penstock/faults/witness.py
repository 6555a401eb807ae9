"""What came through, seen from outside: plain confluent-kafka and plain SQL, none of our readers."""

from __future__ import annotations

import io
import json
import struct
import time
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

import fastavro
from confluent_kafka import Consumer, KafkaException, TopicPartition

from penstock.adapters.registry.access import RegistryAccess
from penstock.core.errors import PenstockError, UnavailableError
from penstock.faults.joined import OUTPUT_TOPIC, RECORDS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from confluent_kafka import Message

    from penstock.demo.sources.database import SourceConnection
    from penstock.faults.joined import JoinedOutput

_MAGIC: Final = 0
_FRAME: Final = struct.Struct(">bI")
_REQUEST_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.5
_MESSAGES: Final = 5_000
_BEGINNING: Final = 0


@dataclass(slots=True)
class Tally:
    """What is wrong with what came: how many changes are missing and how many came again; `examples` names some."""

    changes: int = 0
    lost: int = 0
    doubled: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Row:
    """What the messages of one key add up to."""

    version: int = -1
    is_there: bool = False


class Witness:
    """Reads the topics of a workload's tables as anybody can at read_committed, and counts, inside a `with` block.

    It keeps what it has read: each `read` goes on behind the one before.
    """

    def __init__(
        self, bootstrap_servers: str, schematizer: str, prefix: str, joined: JoinedOutput | None = None
    ) -> None:
        """Read the topics `prefix`.accounts and so on of a workload; schemas come from `schematizer`, a URL.

        What a join of them has published is handed to `joined`. What was deleted before
        the tables were copied is known by the copy of `last_versions`.
        """
        self.tally = Tally()
        self._topics: dict[str, Callable[[Mapping[str, object]], None]] = {
            f"{prefix}.last_versions": self._take_last_version,
            f"{prefix}.accounts": self._take_account,
            f"{prefix}.entries": self._take_entry,
        }
        self._joined = joined
        if joined is not None:
            # Records behind the changes, so that none of these is of a state that is not known.
            self._topics |= {OUTPUT_TOPIC: joined.take, RECORDS_TOPIC: joined.take_record}
        self._schematizer = schematizer
        self._schemas: dict[int, object] = {}
        self._accounts: dict[int, _Row] = {}
        self._entries: set[int] = set()
        self._next: dict[tuple[str, int], int] = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "penstock-faults",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,
                "log_level": 0,
            }
        )

    def __enter__(self) -> Self:
        """Read."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of Kafka."""
        self._consumer.close()

    def read(self) -> Tally:
        """Take everything that is committed by now; what is wrong so far. Raises UnavailableError without Kafka."""
        try:
            self._read()
        except KafkaException as error:
            message = f"Kafka does not answer: {error.args[0].str()}"
            raise UnavailableError(message, "try again") from error
        return self.tally

    def _read(self) -> None:
        known = self._consumer.list_topics(timeout=_REQUEST_SECONDS).topics
        for topic in self._topics:
            places = [(topic, number) for number in known[topic].partitions] if topic in known else []
            if places:
                self._consumer.assign([TopicPartition(*place, self._next.get(place, _BEGINNING)) for place in places])
                self._read_to_ends(set(places))
        for wrong in () if self._joined is None else self._joined.fold():
            self._doubled(wrong)

    def lacks(self, source: SourceConnection) -> int:
        """How many of the source's changes have not come; nobody may write meanwhile."""
        with source.cursor() as cursor:
            cursor.execute("SELECT id, version FROM accounts")
            accounts: Mapping[int, int] = dict(cursor.fetchall())
            cursor.execute("SELECT id, version FROM last_versions")
            last = {**dict(cursor.fetchall()), **accounts}
            cursor.execute("SELECT number FROM entries")
            entries = {number for (number,) in cursor.fetchall()}
        lacking = len(entries - self._entries)
        for id_, version in last.items():
            row = self._accounts.get(id_, _Row())
            lacking += max(0, version - row.version) + (row.version == version and row.is_there != (id_ in accounts))
        return lacking

    def count_surplus(self, source: SourceConnection) -> None:
        """Count what came and is not in the source; nobody may write meanwhile."""
        with source.cursor() as cursor:
            cursor.execute("SELECT id, version FROM accounts")
            accounts: Mapping[int, int] = dict(cursor.fetchall())
            cursor.execute("SELECT number FROM entries")
            entries = {number for (number,) in cursor.fetchall()}
        for number in sorted(self._entries - entries):
            self._doubled(f"entry {number} is in Kafka and not in the source")
        for id_, row in sorted(self._accounts.items()):
            if row.is_there and accounts.get(id_, -1) < row.version:
                self._doubled(f"account {id_} has version {row.version} in Kafka and {accounts.get(id_)} in the source")

    def _read_to_ends(self, places: set[tuple[str, int]]) -> None:
        deadline = time.monotonic() + _REQUEST_SECONDS
        while places:
            if time.monotonic() > deadline:
                text = f"the topics have no end: {sorted(places)}"
                raise UnavailableError(text, "is Kafka well?")
            first = self._consumer.poll(_POLL_SECONDS)
            for message in [] if first is None else [first, *self._consumer.consume(_MESSAGES, timeout=0)]:
                place = (str(message.topic()), int(message.partition() or 0))
                error = message.error()
                if error is None:
                    self._take(place, message)
                elif error.name() == "_PARTITION_EOF":
                    self._next[place] = int(message.offset() or 0)
                    places.discard(place)
                else:
                    raise KafkaException(error)

    def _take(self, place: tuple[str, int], message: Message) -> None:
        self._next[place] = int(message.offset() or 0) + 1
        value = message.value() or b""
        if place[0] == RECORDS_TOPIC:
            self._topics[RECORDS_TOPIC](json.loads(value))
            return
        self.tally.changes += 1
        self._topics[place[0]](self._decode(value))

    def _decode(self, value: bytes) -> dict[str, object]:
        magic, schema_id = _FRAME.unpack_from(value)
        if magic != _MAGIC:
            text = f"a message that is not in the Confluent wire format: {value[:20]!r}"
            raise PenstockError(text, "read the topic by hand")
        if schema_id not in self._schemas:
            with closing(RegistryAccess(self._schematizer).open_client(_REQUEST_SECONDS)) as client:
                answer = client.get(f"/schemas/ids/{schema_id}").raise_for_status().json()
            self._schemas[schema_id] = fastavro.parse_schema(json.loads(answer["schema"]))
        decoded = fastavro.schemaless_reader(io.BytesIO(value[_FRAME.size :]), self._schemas[schema_id], None)  # type: ignore[arg-type]
        return decoded if isinstance(decoded, dict) else {}

    def _take_entry(self, change: Mapping[str, object]) -> None:
        number = _int(change["after"], "number")
        if number in self._entries:
            self._doubled(f"entry {number} came again")
        self._entries.add(number)

    def _take_last_version(self, change: Mapping[str, object]) -> None:
        if change["op"] == "r":
            self._accounts.setdefault(_int(change["after"], "id"), _Row(_int(change["after"], "version")))

    def _take_account(self, change: Mapping[str, object]) -> None:
        op, before, after = change["op"], change["before"], change["after"]
        id_ = _int(before if op == "d" else after, "id")
        version = _int(before if op == "d" else after, "version")
        row = self._accounts.setdefault(id_, _Row())
        if op == "r" and not row.is_there:
            row.version = version - 1
        if op == "r" and row.is_there and version == row.version:
            # A snapshot of a running pipeline: the row is as it is.
            return
        expected = row.version if op == "d" else row.version + 1
        if version > expected:
            self._lost(version - expected, f"account {id_}: {op} of version {version} came behind {row.version}")
        elif version < expected or row.is_there == (op in {"c", "r"}):
            self._doubled(f"account {id_}: {op} of version {version} came behind {row.version}")
        row.version = max(row.version, version)
        row.is_there = op != "d"

    def _lost(self, count: int, example: str) -> None:
        self.tally.lost += count
        self.tally.examples.append(example)

    def _doubled(self, example: str) -> None:
        self.tally.doubled += 1
        self.tally.examples.append(example)


def _int(row: object, name: str) -> int:
    return int(row[name]) if isinstance(row, dict) else -1


def topic_ends(bootstrap_servers: str, prefixes: Sequence[str]) -> dict[tuple[str, int], int]:
    """The end of every partition of every topic whose name begins with one of `prefixes`."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "penstock-faults", "log_level": 0})
    try:
        known = consumer.list_topics(timeout=_REQUEST_SECONDS).topics
        return {
            (topic, number): int(
                consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=_REQUEST_SECONDS)[1]
            )
            for topic in sorted(known)
            if topic.startswith(tuple(prefixes))
            for number in known[topic].partitions
        }
    finally:
        consumer.close()

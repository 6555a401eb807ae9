"""The publisher for brokers that cannot do transactions: high watermarks against a checkpoint in the state database.

Messages are sent by an idempotent producer and acknowledged by all replicas.
Then one database transaction saves the record and where every partition ends
that got messages. After a crash in between, what lies behind the checkpoint is
the beginning of what comes next, as long as that is always the same: so it is
held against it, message by message, and not sent again (`tails`). One such
transaction may therefore be for several publications. A link whose messages are
others each time saves what it is about to publish before it does.

Nothing fences an older producer. The checkpoint does, afterwards: an older
publisher cannot save, and a newer one finds messages that are not its own.
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from penstock.adapters.kafka.cluster import REQUEST_TIMEOUT_SECONDS, KafkaCluster, create_topics, explain
from penstock.adapters.kafka.ends import ends_now, settled_ends
from penstock.adapters.kafka.pieces import QUEUE_KIBIBYTES, QUEUE_MESSAGES, ROOM_BYTES, ROOM_MESSAGES, cut
from penstock.adapters.kafka.reader import TopicReader
from penstock.adapters.kafka.tails import TopicTails
from penstock.adapters.kafka.topics import POSITION_SETTINGS, create_own_topics, position_topic
from penstock.config.crash_points import CrashPoint
from penstock.core.changes import Messages
from penstock.core.errors import START_ANEW, PenstockError, PositionError, UnavailableError
from penstock.core.partitions import partitions_of
from penstock.core.topic_fingerprints import NO_TRANSACTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from confluent_kafka import KafkaError
    from confluent_kafka import Message as KafkaMessage

    from penstock.ports.checkpoints import Checkpoints
    from penstock.ports.publisher import MessageCheck

_OWN = "penstock."
"""Topics of Penstock's own begin so; all others have rows."""

_SAVED_AHEAD = CrashPoint("watermarks.saved_ahead", "what is about to be published is saved, nothing of it is sent")
_SENDING = CrashPoint("watermarks.sending", "some of a publication is on its way, nothing is acknowledged")
_FLUSHED = CrashPoint("watermarks.flushed", "everything is acknowledged, the checkpoint is the one before")
_SAVED = CrashPoint("watermarks.saved", "the checkpoint is saved")


@dataclass(frozen=True, slots=True)
class Saving:
    """When checkpoints are saved.

    `is_repeatable` says that after a crash the same messages come again, in the same
    order per partition: then nothing has to be saved before it is sent, and rows that
    are published within `seconds` of a checkpoint are saved with what comes later.
    """

    is_repeatable: bool
    seconds: float = 0.0


class WatermarkPublisher:
    """Publishes for one link of one pipeline (ports/publisher.Publisher), without Kafka's transactions.

    Readers see messages before the record that covers them, and never twice.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        pipeline: str,
        link: str,
        checkpoints: Checkpoints,
        saving: Saving,
        check: MessageCheck | None = None,
    ) -> None:
        """Take the link over, and bring what a crash left to its end.

        Raises PositionError if the topics are not what the checkpoint says, or the
        link was run with transactions before.
        """
        self._cluster = cluster
        self._link = link
        self._position_topic = position_topic(pipeline, link)
        self._checkpoints = checkpoints
        self._saving = saving
        self._known_topics: set[str] = set()
        self._failure: KafkaError | None = None
        self._queued_bytes = 0
        self._admin = AdminClient(cluster.client_settings())
        self._tails = TopicTails(cluster, self._admin, check)
        create_topics(cluster, [self._position_topic], POSITION_SETTINGS, partitions=1)
        self._producer = Producer(_producer_settings(cluster))
        self._saved_at = -math.inf
        self._unsaved: list[Mapping[str, object]] = []
        checkpoint = checkpoints.take_over()
        self._record: Mapping[str, object] | None = json.loads(checkpoint.record) if checkpoint.record else None
        if checkpoint.record or checkpoint.ahead:
            self._tails.recover(checkpoint.topics)
        else:
            self._require_no_transactions()
            self._tails.begin_again(checkpoint.topics)
        if checkpoint.ahead:
            messages, record = _parse_ahead(checkpoint.ahead)
            self._send(messages, lambda: record)

    def position(self) -> Mapping[str, object] | None:
        """Return the record of the newest publication, None before the first."""
        return self._record

    def left_over(self, topic: str) -> int:
        """How many messages of a first publication that broke off are in `topic`."""
        return self._tails.left_over(topic)

    def take_foreign(self) -> Mapping[str, PositionError]:
        """See ports/publisher.CapturePublisher: what others wrote stops the link; it stands among what is to come."""
        return {}

    def partitions(self, topic: str) -> int:
        """See ports/publisher.CapturePublisher."""
        return self._tails.partitions(topic)

    def ends(self, topic: str) -> Sequence[int]:
        """See ports/publisher.CapturePublisher."""
        return ends_now(self._admin, topic, self._tails.partitions(topic))

    def create_topics(self, topics: Iterable[str]) -> None:
        """Create those of `topics` that do not exist; see ports/publisher.Publisher."""
        new = [topic for topic in topics if topic not in self._known_topics]
        if new:
            create_own_topics(self._cluster, new)
            states = self._tails.meet(new)
            if states:
                self._checkpoints.save(states)
            self._known_topics.update(new)

    def publish(self, messages: Iterable[Messages], record: Callable[[], Mapping[str, object]]) -> None:
        """Send `messages`, then save `record`; see ports/publisher.Publisher."""
        if self._saving.is_repeatable:
            self._send(messages, record)
            return
        planned, covered = list(messages), record()
        self.create_topics(part.topic for part in planned)
        self._checkpoints.save({}, ahead=_render_ahead(planned, covered))
        _SAVED_AHEAD.maybe_crash()
        self._send(planned, lambda: covered)

    def save(self) -> None:
        """Save what was left for later; see ports/publisher.Publisher."""
        if not self._unsaved:
            return
        records, self._unsaved = self._unsaved, []
        newest = records[-1]
        with self._explained():
            topics = self._tails.settle(newest)
        self._checkpoints.save(topics, record=json.dumps(newest), ahead="")
        _SAVED.maybe_crash()
        self._saved_at = time.monotonic()
        # For whoever mirrors what is published, and counts what each record adds; nobody goes on from there.
        for record in records:
            mirrored = json.dumps({**record, **NO_TRANSACTIONS}).encode()
            self._producer.produce(self._position_topic, key=self._link.encode(), value=mirrored, partition=0)
        self._producer.poll(0)

    def settle(self) -> None:
        """Save: readers see what is acknowledged, and nothing is published before it is."""
        self.save()

    def close(self) -> None:
        """Drop the connections."""
        # Of a producer that Kafka has given up on, the error that led here is the one worth telling.
        with contextlib.suppress(KafkaException, SystemError):
            self._producer.flush(1.0)
        # What Kafka did not take comes again, from whoever goes on from the checkpoint: it must not be sent then,
        # as the client would for minutes, alive by what it is to call back about each message.
        with contextlib.suppress(KafkaException, SystemError):
            self._producer.purge()
            self._producer.poll(0)
        self._checkpoints.close()

    def _send(self, messages: Iterable[Messages], record: Callable[[], Mapping[str, object]]) -> None:
        topics: set[str] = set()
        with self._explained():
            for part in messages:
                topics.add(part.topic)
                self.create_topics([part.topic])
                self._produce(part)
                _SENDING.maybe_crash()
                if part.topic.startswith(_OWN):
                    # Nobody may find rows before what is announced of them.
                    self._flush()
            self._flush()
        _FLUSHED.maybe_crash()
        self._record = record()
        self._unsaved.append(self._record)
        is_rows = bool(topics) and not any(topic.startswith(_OWN) for topic in topics)
        is_early = time.monotonic() - self._saved_at < self._saving.seconds
        if not (self._saving.is_repeatable and is_rows and is_early):
            self.save()

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise what Kafka's client raises in our words.

        A message that no further attempt would bring to the broker ends the producer.
        The client raises that before it calls back about the message, in the same
        step, and Python complains of the two with a SystemError.
        """
        try:
            yield
        except (KafkaException, SystemError) as error:
            if isinstance(error, SystemError) and self._failure is None:
                raise
            failure = error if isinstance(error, KafkaException) else KafkaException(self._failure)
            self._require_topics(failure)
            # What ended the producer for good only says that a message failed; of that one, the reason was noted.
            raise explain(self._failure or failure, f"publishing for {self._link}") from error

    def _produce(self, part: Messages) -> None:
        keys, values = part.lists()
        chosen = partitions_of(part.keys, self._tails.partitions(part.topic))
        for partition in np.unique(chosen).tolist():
            place = (part.topic, partition)
            messages = [(keys[index], values[index]) for index in np.flatnonzero(chosen == partition).tolist()]
            fresh = messages[self._tails.pass_over(place, messages) :]
            for some_keys, some, size in cut([key for key, _ in fresh], [value for _, value in fresh]):
                chunk = [{"key": key, "value": value} for key, value in zip(some_keys, some, strict=True)]
                self._make_room(len(chunk), size)
                queued = self._producer.produce_batch(part.topic, chunk, partition=partition, on_delivery=self._note)
                if queued != len(chunk):
                    raise KafkaException(next(message["_error"] for message in chunk if "_error" in message))
            if fresh:
                self._tails.count(place, len(fresh))

    def _make_room(self, count: int, size: int) -> None:
        """Wait until the producer's queue takes `count` more of `size` bytes, so that its memory stays bounded."""
        if len(self._producer) + count > ROOM_MESSAGES or self._queued_bytes + size > ROOM_BYTES:
            self._flush()
        self._queued_bytes += size

    def _flush(self) -> None:
        """Wait until everything is acknowledged."""
        left = self._producer.flush(REQUEST_TIMEOUT_SECONDS)
        self._queued_bytes = 0
        if self._failure is not None:
            raise KafkaException(self._failure)
        if left:
            text = f"Kafka has not acknowledged {left} message(s) of {self._link} for {REQUEST_TIMEOUT_SECONDS:.0f} s"
            raise UnavailableError(text, "check that the brokers run and have room on their disks")

    def _note(self, error: KafkaError | None, _message: KafkaMessage) -> None:
        """Remember what went wrong; the producer calls this for messages that failed, and for no others."""
        self._failure = self._failure or error

    def _require_topics(self, failure: KafkaException) -> None:
        """Raise PositionError if publishing failed because a topic was deleted; nothing if that cannot be known now."""
        try:
            self._tails.require_topics()
        except PositionError as error:
            raise error from failure
        except PenstockError:
            return

    def _require_no_transactions(self) -> None:
        """A link without a checkpoint must be a new one, not one that has run with transactions."""
        reader = TopicReader(self._cluster)
        try:
            # The last transaction of a link that has just ended may be on its way to the position topic still.
            settled_ends(reader.admin, [(self._position_topic, 0)])
            newest = reader.newest(self._position_topic)
        finally:
            reader.close()
        if newest is not None:
            message = f"the state database has no checkpoint of {self._link}, but Kafka has a position record of it"
            hint = (
                "it has run with kafka.transactions: true, which stays as it is for a pipeline, or the state database"
            )
            raise PositionError(message, f"{hint} was lost: set it back, restore the database, or {START_ANEW}")


def _producer_settings(cluster: KafkaCluster) -> dict[str, str | int | float | bool]:
    return {
        **cluster.client_settings(),
        "acks": "all",
        "enable.idempotence": True,
        # A message that fails must not let those behind it pass.
        "enable.gapless.guarantee": True,
        "delivery.report.only.error": True,
        "linger.ms": 1,
        "compression.type": "lz4",
        "queue.buffering.max.messages": QUEUE_MESSAGES,
        "queue.buffering.max.kbytes": QUEUE_KIBIBYTES,
        "message.max.bytes": 104_857_600,
    }


def _render_ahead(messages: Sequence[Messages], record: Mapping[str, object]) -> str:
    parts = [[part.topic, *([_text(each) for each in contents] for contents in part.lists())] for part in messages]
    return json.dumps({"messages": parts, "record": record})


def _parse_ahead(text: str) -> tuple[list[Messages], Mapping[str, object]]:
    saved = json.loads(text)
    messages = []
    for topic, keys, values in saved["messages"]:
        arrays = [pa.array([_content(each) for each in column], pa.binary()) for column in (keys, values)]
        messages.append(Messages(topic, arrays[0], arrays[1], np.arange(len(keys), dtype=np.int64)))
    return messages, saved["record"]


def _text(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def _content(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)

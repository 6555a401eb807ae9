"""A producer of Kafka transactions: exactly-once into topics, with as few requests and wake-ups as there can be.

Source: KIP-98. Messages are kept until they are acknowledged, and sent again, with
the same numbers, where a broker or the way to it was away: brokers know numbers
that they have, so nothing comes twice. What nobody answers of a transaction's end
ends the producer instead: said twice, it might end the next transaction. So does
what is not mended within REQUEST_TIMEOUT_SECONDS.
"""

from __future__ import annotations

import math
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from penstock.adapters.kafka.brokers import Brokers
from penstock.adapters.kafka.cluster import REQUEST_TIMEOUT_SECONDS, TOO_LARGE, KafkaCluster, is_fenced
from penstock.core.kafka import requests
from penstock.core.kafka.largest import LARGEST_BYTES
from penstock.core.kafka.records import RECORDS_BYTES_MAX, ProducerIdentity, Records, render_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.adapters.kafka.wire import Wire
    from penstock.core.kafka.requests import Answer, Place

_Value = TypeVar("_Value")

_SENT_MAX: Final = 5
"""Requests without an answer: of so many batches of a partition brokers know the numbers."""
_SENT_BYTES_MAX: Final = 32 << 20
_REPLICAS_MILLISECONDS: Final = 15_000
_PAUSE_SECONDS: Final = 0.1
_BUSY_PAUSE_SECONDS: Final = 0.001
_BUSY_PAUSE_SECONDS_MAX: Final = 0.02
_UNKNOWN_SECONDS: Final = 5.0
"""Longer than all brokers take to hear of a new topic."""
_SEQUENCES: Final = 1 << 31
_TAKEN: Final = frozenset({0, KafkaError.DUPLICATE_SEQUENCE_NUMBER})

_MENDABLE: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)


@dataclass(frozen=True, slots=True)
class _Sent:
    """A request that may have no answer yet, and its batches."""

    wire: Wire
    batches: dict[Place, bytes]


class TransactionalProducer:
    """Produces for one transactional id. One thread at a time.

    Raises KafkaException as confluent-kafka does; after that, `abort`, and open another one.
    """

    def __init__(self, cluster: KafkaCluster, transactional_id: str, timeout_seconds: float) -> None:
        """Fence older producers of the id, and have what they left open aborted.

        Brokers abort a transaction that is open for longer than `timeout_seconds`.
        """
        self._id = transactional_id
        self._brokers = Brokers(cluster, REQUEST_TIMEOUT_SECONDS)
        self._sequences: dict[Place, int] = {}
        self._pending: dict[Place, Records] = {}
        self._pending_bytes = 0
        self._sent: deque[_Sent] = deque()
        self._joined: set[Place] = set()
        self._is_open = False
        self._opened_at = 0.0
        self._timeout_seconds = timeout_seconds
        self._failure: KafkaException | None = None
        try:
            self._identity = self._mend(self._initialize)
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        """Begin a transaction; raise what ended this producer, if anything did."""
        if self._failure is not None:
            raise self._failure

    def produce(self, topic: str, partition: int, records: Records) -> None:
        """Send messages, or keep them until there are more to go with them."""
        place = topic, partition
        size = len(records.content)
        if size > LARGEST_BYTES:
            raise _failure(KafkaError.MSG_SIZE_TOO_LARGE, place, size)
        if place in self._pending or self._pending_bytes + size > RECORDS_BYTES_MAX:
            self._send()
        self._pending[place] = records
        self._pending_bytes += size

    def flush(self) -> None:
        """Send what is kept, and wait until brokers have all of it."""
        self._send()
        self._await_all()

    def commit(self) -> None:
        """Commit the transaction. When it raises, whether it is committed may not be known."""
        self.flush()
        self._end(commit=True)

    def abort(self, failure: KafkaException | None = None) -> KafkaException:
        """Abort the transaction, if one is open, as far as brokers can be told; this producer is done with.

        What they may still append is left to whoever fences this producer. Returns
        what ended it, which `begin` raises from now on: `failure`, unless that says
        less than is known.
        """
        self._pending.clear()
        is_sound = self._failure is None
        if failure is not None and is_fenced(failure) and self._is_late():
            text = f"the transaction was open for longer than {self._timeout_seconds:.0f} s, and the brokers ended it"
            failure = KafkaException(KafkaError(KafkaError._TIMED_OUT, text))  # noqa: SLF001 - a code
        self._failure = failure or self._failure or _failure(KafkaError._STATE)  # noqa: SLF001 - a code
        if is_sound and self._is_open:
            with suppress(OSError, ValueError, KafkaException):
                while self._sent:
                    self._sent.popleft().wire.receive()
                self._end(commit=False)
        return self._failure

    def close(self) -> None:
        """Drop the connections."""
        self._brokers.forget()

    def _is_late(self) -> bool:
        """Whether brokers have ended the open transaction, which is told as they tell an older instance."""
        return self._is_open and time.clock_gettime(time.CLOCK_BOOTTIME) - self._opened_at > self._timeout_seconds

    def _initialize(self) -> ProducerIdentity:
        body = requests.initialize(self._id, int(self._timeout_seconds * 1000))
        code, identity = self._ask_once(requests.INIT_PRODUCER_ID, body, requests.read_identity)
        _require(code)
        return identity

    def _ask_once(self, api: requests.Api, body: bytes, read: Callable[[Answer], _Value]) -> _Value:
        """Ask the coordinator what must not be asked again, if it may have heard it.

        No answer, or one that `read` cannot read, is a KafkaException.
        """
        coordinator = self._brokers.coordinator(self._id)
        try:
            return read(coordinator.ask(api, body))
        except (OSError, ValueError) as error:
            raise _as_kafka(error) from error

    def _send(self) -> None:
        """Send what is pending, each leader's in one request."""
        if not self._pending:
            return
        pending, self._pending, self._pending_bytes = self._pending, {}, 0
        self._join([place for place in pending if place not in self._joined])
        now_ms = time.time_ns() // 1_000_000
        batches = {place: self._batch(place, records, now_ms) for place, records in pending.items()}
        if not self._brokers.know(batches):
            # Who leads them is asked where answers may be on their way.
            self._await_all()
        try:
            by_wire: dict[Wire, dict[Place, bytes]] = {}
            for place, wire in self._brokers.leaders(batches).items():
                by_wire.setdefault(wire, {})[place] = batches[place]
        except (OSError, ValueError, KafkaException) as error:
            self._await_all()
            self._send_anew(list(batches.items()), error)
            return
        for wire, some in by_wire.items():
            self._send_to(wire, some)

    def _send_to(self, wire: Wire, batches: dict[Place, bytes]) -> None:
        size = sum(map(len, batches.values()))
        while len(self._sent) >= _SENT_MAX or (self._sent and self._sent_bytes + size > _SENT_BYTES_MAX):
            self._await_oldest()
        self._sent.append(_Sent(wire, batches))
        try:
            wire.send(requests.PRODUCE, self._produce_body(batches))
        except OSError as error:
            self._send_all_anew(error)

    @property
    def _sent_bytes(self) -> int:
        return sum(len(batch) for sent in self._sent for batch in sent.batches.values())

    def _batch(self, place: Place, records: Records, now_ms: int) -> bytes:
        sequence = self._sequences.get(place, 0)
        self._sequences[place] = (sequence + records.count) % _SEQUENCES
        return render_batch(records, now_ms, self._identity, sequence)

    def _await_all(self) -> None:
        while self._sent:
            self._await_oldest()

    def _await_oldest(self) -> None:
        """Wait until the batches of the oldest request are in."""
        sent = self._sent[0]
        try:
            codes = requests.read_produced(sent.wire.receive(), sent.batches)
        except (OSError, ValueError) as error:
            self._send_all_anew(error)
            return
        self._sent.popleft()
        failed = [(place, batch) for place, batch in sent.batches.items() if codes[place] not in _TAKEN]
        if failed:
            place, batch = failed[0]
            reason = _failure(codes[place], place, len(batch))
            _require_mendable(reason)
            self._send_all_anew(reason, failed)

    def _send_all_anew(self, error: Exception, failed: Sequence[tuple[Place, bytes]] = ()) -> None:
        """Send `failed` and whatever has no answer once more. Brokers know the numbers of batches that they have."""
        waiting = [*failed, *(batch for sent in self._sent for batch in sent.batches.items())]
        if self._sent:
            # Answers that nobody reads any more would be taken for those to what is asked next.
            self._sent.clear()
            self._brokers.forget()
        self._send_anew(waiting, error)

    def _send_anew(self, waiting: list[tuple[Place, bytes]], error: Exception) -> None:
        """Send batches one by one, in their order, until they are in."""

        def send() -> None:
            while waiting:
                place, batch = waiting[0]
                wire = self._brokers.leaders([place])[place]
                answer = wire.ask(requests.PRODUCE, self._produce_body({place: batch}))
                code = requests.read_produced(answer, [place])[place]
                if code not in _TAKEN:
                    raise _failure(code, place, len(batch))
                del waiting[0]

        try:
            self._mend(send, error)
        except KafkaException as failure:
            # Of what was sent, nobody knows what brokers still append: nothing may be said to them before a new epoch.
            self._failure = failure
            raise

    def _join(self, places: Sequence[Place]) -> None:
        """Take partitions into the transaction."""
        if not places:
            return
        self._await_all()
        body = requests.add_partitions(self._id, self._identity, places)

        def add() -> None:
            codes = requests.read_added(self._brokers.coordinator(self._id).ask(requests.ADD_PARTITIONS, body))
            # Where one is refused, the others say no more than that.
            for code in sorted(codes.values(), key=lambda code: code == KafkaError.OPERATION_NOT_ATTEMPTED):
                _require(code)

        if not self._is_open:
            self._is_open, self._opened_at = True, time.clock_gettime(time.CLOCK_BOOTTIME)
        self._mend(add)
        self._joined.update(places)

    def _end(self, *, commit: bool) -> None:
        if not self._is_open:
            return
        body = requests.end_transaction(self._id, self._identity, commit=commit)
        try:
            self._mend(lambda: _require(self._ask_once(requests.END_TRANSACTION, body, requests.read_ended)))
        except KafkaException as error:
            self._failure = self._failure or error
            raise
        self._joined.clear()
        self._is_open = False

    def _mend(self, attempt: Callable[[], _Value], failure: Exception | None = None) -> _Value:
        """Try until it works: at once, or, after `failure`, when that has had time to pass. Nothing is on its way.

        Raises KafkaException for what time does not mend, and for what it has not mended in good time.
        """
        pause, begun, unknown_since = _BUSY_PAUSE_SECONDS, time.monotonic(), math.inf
        while True:
            if failure is not None:
                error, now = _as_kafka(failure), time.monotonic()
                unknown_since = min(unknown_since, now) if _is_unknown(error) else math.inf
                if now - begun > REQUEST_TIMEOUT_SECONDS or now - unknown_since > _UNKNOWN_SECONDS:
                    raise error from failure
                if error.args[0].code() == KafkaError.CONCURRENT_TRANSACTIONS:
                    time.sleep(pause)
                    pause = min(2 * pause, _BUSY_PAUSE_SECONDS_MAX)
                else:
                    self._brokers.forget()
                    time.sleep(_PAUSE_SECONDS)
            try:
                return attempt()
            except (OSError, ValueError, KafkaException) as error:
                _require_mendable(error)
                failure = error

    def _produce_body(self, batches: Mapping[Place, bytes]) -> bytes:
        return requests.produce(self._id, _REPLICAS_MILLISECONDS, batches)


def _failure(code: int, place: Place | None = None, size: int = 0) -> KafkaException:
    """An error of that code; one that is about a batch's size says which batch it is of."""
    if place is None or code not in TOO_LARGE:
        return KafkaException(KafkaError(code))
    topic, partition = place
    text = f"a batch of {size:,} bytes, which may be a single message, is more than {topic}/{partition} takes"
    return KafkaException(KafkaError(code, text))


def _require(code: int) -> None:
    if code:
        raise _failure(code)


def _as_kafka(error: Exception) -> KafkaException:
    if isinstance(error, KafkaException):
        return error
    kind = KafkaError._TIMED_OUT if isinstance(error, TimeoutError) else KafkaError._TRANSPORT  # noqa: SLF001 - codes
    return KafkaException(KafkaError(kind, str(error)))


def _is_unknown(error: Exception) -> bool:
    """Whether a broker says that there is no such topic, which it may not have heard of yet."""
    return isinstance(error, KafkaException) and error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def _require_mendable(error: Exception) -> None:
    """Raise what time does not mend."""
    if isinstance(error, KafkaException) and error.args[0].code() not in _MENDABLE:
        raise error

"""Runs a spolt's user code over messages: what workers do, what a replay does, and what tests of users do.

User code that fails on a message fails on that one alone: nothing of it is
published. A batch that fails is tried again in halves, until the message is found.
To take too long, to make too much and to end the process are failures like others.
"""

from __future__ import annotations

import time
import traceback
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from penstock.core.avro.wire import FRAME_BYTES
from penstock.core.changes import Messages
from penstock.core.errors import PenstockError, SpoltError, TableStoppedError
from penstock.core.spolts.message import DeadLetter, DeadLetterError, Message, Output
from penstock.core.spolts.raw import Letter
from penstock.links.spolts.batch_code import BatchCode
from penstock.links.spolts.bounds import require_bounded
from penstock.links.spolts.decode import MessageDecoder
from penstock.links.spolts.encode import OutputEncoder
from penstock.links.spolts.time_limit import CallTimeoutError, UntimedSubjects, WorkerLimit, time_limit
from penstock.links.spolts.transform_code import TransformCode, Transforms
from penstock.links.spolts.worker_deaths import DEATHS_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.config.spolts import InputSpec
    from penstock.core.spolts.raw import RawMessage
    from penstock.links.spolts.encode import Encoded
    from penstock.links.spolts.spec import LoadedCode, SpoltJob
    from penstock.links.spolts.worker_deaths import WorkerDeaths
    from penstock.ports.subjects import Subjects

_BATCH_MESSAGES = 5_000
_PIECE_BYTES = 4 << 20
"""Where messages make so much, fewer of them are done together."""


@dataclass(slots=True)
class Processed:
    """What became of `count` messages, in their order.

    `failed` are those that went to the dead letters, with the reason.
    """

    encoded: list[Encoded] = field(default_factory=list)
    failed: list[tuple[RawMessage, str]] = field(default_factory=list)
    count: int = 0

    def add(self, other: Processed) -> None:
        """Add what became of later messages."""
        self.count += other.count
        self.encoded += other.encoded
        self.failed += other.failed

    def size_bytes(self) -> int:
        """How large the messages are that were made, dead letters included."""
        made = sum(len(each.key or b"") + len(each.value or b"") for each in self.encoded)
        return made + sum(_size(raw) for raw, _ in self.failed)

    def messages(self, partition_hint: int) -> list[Messages]:
        """What is to be published, by topic; messages without a key go into the partition of `partition_hint`."""
        by_topic: dict[str, list[Encoded]] = defaultdict(list)
        for each in self.encoded:
            by_topic[each.topic].append(each)
        return [
            Messages(
                topic=topic,
                keys=pa.array([each.key for each in parts], pa.binary()),
                values=pa.array([each.value for each in parts], pa.binary()),
                order=np.zeros(len(parts), np.int64),
                partition_hints=np.full(len(parts), partition_hint, np.int32),
            )
            for topic, parts in by_topic.items()
        ]

    def letters(self, spolt: str) -> list[Letter]:
        """The dead letters, as of now."""
        now_ms = time.time_ns() // 1_000_000
        return [Letter(raw, spolt, reason, now_ms) for raw, reason in self.failed]


class SpoltRunner:
    """A spolt, ready to be run over messages of one input."""

    def __init__(
        self,
        job: SpoltJob,
        code: LoadedCode,
        given: InputSpec,
        subjects: Subjects,
        deaths: WorkerDeaths | None = None,
    ) -> None:
        """Run `code` over messages that are written as `given` says; `deaths` knows those that ended workers.

        Without it nobody would know which message did it: then none ends the process that takes too long.
        """
        self._job = job
        self._deaths = deaths
        self._worker_limit = None if deaths is None else WorkerLimit(job.spolt.timeout_seconds)
        self._function = code.function
        subjects = UntimedSubjects(subjects, self._worker_limit)
        self._is_avro = given.format == "avro"
        self._decoder = MessageDecoder(given, subjects)
        self._encoder = OutputEncoder(job, code.traits, subjects)
        self._batches: BatchCode | TransformCode | None = None
        if isinstance(code.function, Transforms):
            self._batches = TransformCode(code.function, job.spolt.topics[0], self._decoder, subjects)
        elif code.traits.batches:
            self._batches = BatchCode(code.function, self._decoder, self._encoder)

    def run(self, raws: Sequence[RawMessage]) -> Iterator[Processed]:
        """Process messages of one partition, in their order; yield what became of those that are done, part by part.

        Raises SpoltError, with topic, partition and offset, for a message that user code
        fails on where that is to stop the spolt, once it has yielded all that come before
        it; and UnavailableError while the registry is away.
        """
        for start in range(0, len(raws), _BATCH_MESSAGES):
            done, size = Processed(), 0
            for run in self._runs(raws[start : start + _BATCH_MESSAGES]):
                more = Processed()
                try:
                    self._attempt_limited(run, more)
                except SpoltError:
                    done.add(more)
                    yield done
                    raise
                done.add(more)
                size += more.size_bytes()
                if size >= _PIECE_BYTES:
                    self._lift_limit()
                    yield done
                    done, size = Processed(), 0
            self._lift_limit()
            yield done

    def _attempt_limited(self, raws: Sequence[RawMessage], done: Processed) -> None:
        try:
            self._attempt(raws, done)
        except BaseException:
            self._lift_limit()
            raise

    def _lift_limit(self) -> None:
        """What is done between calls of user code has limits of its own."""
        if self._worker_limit is not None:
            self._worker_limit.lift()

    def _runs(self, raws: Sequence[RawMessage]) -> Iterator[Sequence[RawMessage]]:
        """Messages one by one; or, for code that takes batches, those together that have one schema."""
        if self._batches is None:
            yield from ([raw] for raw in raws)
            return
        frame_bytes = FRAME_BYTES if self._is_avro else 0
        for _, group in groupby(raws, key=lambda raw: None if raw.value is None else raw.value[:frame_bytes]):
            yield list(group)

    def _attempt(self, raws: Sequence[RawMessage], done: Processed) -> None:
        """Process messages, and add what became of them to `done`: also of those ahead of one that stops the spolt."""
        start, end = raws[0].offset, raws[-1].offset + 1
        if self._deaths is not None:
            if len(raws) > 1 and self._deaths.is_suspect(start, end):
                self._one_by_one(raws, done)
                return
            if self._deaths.is_at_fault(start):
                done.add(self._give_up(raws[0], WorkerEndedError()))
                return
            self._deaths.begin(start, end)
        if self._worker_limit is not None:
            self._worker_limit.extend()
        try:
            with time_limit(self._job.spolt.timeout_seconds):
                made = self._call(raws)
        except PenstockError as error:
            if error.retryable:
                raise
            fault: BaseException = error
        except (Exception, SystemExit, CallTimeoutError) as error:  # noqa: BLE001 - user code may raise anything
            fault = error
        else:
            done.add(made)
            return
        if len(raws) > 1:
            middle = len(raws) // 2
            self._attempt(raws[:middle], done)
            self._attempt(raws[middle:], done)
        else:
            done.add(self._give_up(raws[0], fault))

    def _one_by_one(self, raws: Sequence[RawMessage], done: Processed) -> None:
        """Process messages of which one ended a worker, so that it is known which."""
        for raw in raws:
            self._attempt([raw], done)

    def _call(self, raws: Sequence[RawMessage]) -> Processed:
        if self._batches is None:
            return self._process(raws[0])
        return Processed(self._batches.process(raws), count=len(raws))

    def _process(self, raw: RawMessage) -> Processed:
        decoded = self._decoder.decode(raw)
        done, size = Processed(count=1), 0
        for each in _listed(self._function(decoded.message)):
            match each:
                case DeadLetter(reason):
                    done.failed.append((raw, reason))
                case Output() | Message():
                    encoded = self._encoder.encode(each, decoded)
                    done.encoded.append(encoded)
                    size += len(encoded.key or b"") + len(encoded.value or b"")
                case _:
                    text = f"a spolt gives Output, Message or DeadLetter, not {type(each).__name__}"
                    raise TypeError(text)
            require_bounded(len(done.encoded) + len(done.failed), size, _size(raw))
        return done

    def _give_up(self, raw: RawMessage, fault: BaseException) -> Processed:
        """Put a message aside, or stop, as the file says."""
        if isinstance(fault, DeadLetterError):
            return Processed(failed=[(raw, str(fault) or "without a reason")], count=1)
        reason = explain_fault(fault)
        if self._job.spolt.on_error == "dead_letter":
            return Processed(failed=[(raw, reason)], count=1)
        if self._deaths is not None:
            self._deaths.forget(raw.offset)
        message = f"spolt {self._job.spolt.name} failed on {raw.place}: {reason}"
        mend = fault.hint if isinstance(fault, PenstockError) else "correct the code"
        if not isinstance(fault, TableStoppedError):
            mend = f"{mend}, or set on_error: dead_letter"
        hint = f"{mend}; then run again: it goes on with this message"
        raise SpoltError(message, hint) from fault


class WorkerEndedError(Exception):
    """A message has ended workers."""

    def __init__(self) -> None:
        """Say what may have been."""
        super().__init__(
            f"{DEATHS_MAX} workers ended while they processed it: "
            "user code called os._exit or ignored timeout_seconds, a library crashed or hung, or memory ran out"
        )


def _size(raw: RawMessage) -> int:
    return len(raw.key or b"") + len(raw.value or b"")


def explain_fault(fault: BaseException) -> str:
    """Say what user code raised, and where."""
    frames = traceback.extract_tb(fault.__traceback__)
    text = fault.message if isinstance(fault, PenstockError) else f"{type(fault).__name__}: {fault}"
    if not frames or "penstock/links/spolts" in frames[-1].filename:
        return text
    return f"{text} ({frames[-1].filename}, line {frames[-1].lineno})"


def _listed(given: object) -> Iterable[object]:
    match given:
        case None:
            return []
        case Output() | Message() | DeadLetter():
            return [given]
        case Iterable() if not isinstance(given, str | bytes | dict):
            return cast("Iterable[object]", given)
        case _:
            text = f"a spolt gives Output, Message or DeadLetter, or several, not {type(given).__name__}"
            raise TypeError(text)

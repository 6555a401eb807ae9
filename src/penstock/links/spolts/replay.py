"""Reads dead letters, and replays them: each is processed again and published once.

The replay is a link of its own: it has its own transactional id, and its record
says which letters it has published, in the transaction of what came of them. So
it may run beside the spolt, and a letter that was replayed is not replayed again.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from penstock.core.errors import PenstockError
from penstock.core.spolts.raw import Letter
from penstock.core.topic_fingerprints import foreign_message
from penstock.links.spolts.record import ReplayRecord
from penstock.links.spolts.run import Processed, SpoltRunner

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from penstock.config.spolts import InputSpec
    from penstock.links.spolts.spec import LoadedCode, SpoltJob
    from penstock.ports.messages import MessageLog
    from penstock.ports.publisher import Publisher
    from penstock.ports.subjects import Subjects
    from penstock.ports.topics import TopicLog

_READ_BYTES_MAX = 16 << 20
_TOGETHER_LETTERS = 500


@dataclass(frozen=True, slots=True)
class FoundLetter:
    """A dead letter, its offset in their topic, and whether it was replayed."""

    offset: int
    letter: Letter
    replayed: bool


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a replay did: letters that are published now, that were before, and that failed again, with the reason."""

    published: list[int]
    before: list[int]
    failed: dict[int, str]


def read_letters(log: TopicLog, messages: MessageLog, topic: str, record: ReplayRecord) -> Iterator[FoundLetter]:
    """Yield the letters of a topic, oldest first. Raises PositionError for a message that is none of ours."""
    place = (topic, 0)
    at, end = messages.begins([place]).get(place, 0), log.ends([place]).get(place, 0)
    while at < end:
        found = messages.read_messages({place: (at, end)}, _READ_BYTES_MAX)[place]
        for raw in found:
            try:
                letter = Letter.read(raw)
            except ValueError as error:
                raise foreign_message(topic, 0, raw.offset, str(error)) from error
            yield FoundLetter(raw.offset, letter, record.has(raw.offset))
        size = sum(len(raw.key or b"") + len(raw.value or b"") for raw in found)
        at = found[-1].offset + 1 if found and size >= _READ_BYTES_MAX else end


class LetterReplay:
    """Replays the letters of one spolt."""

    def __init__(self, job: SpoltJob, code: LoadedCode, publisher: Publisher, subjects: Subjects) -> None:
        """Take the replays of the spolt over from whoever replays now, who is fenced."""
        self._job = job
        self._code = code
        self._publisher = publisher
        self._subjects = subjects
        record = publisher.position()
        self._record = ReplayRecord() if record is None else ReplayRecord.from_mapping(record)

    @property
    def record(self) -> ReplayRecord:
        """What was replayed by now."""
        return self._record

    def replay(self, found: Iterable[tuple[FoundLetter, InputSpec]], *, again: bool) -> Replayed:
        """Process letters, and publish those that user code takes now; each with the input that it came by.

        Letters that were replayed are left out, unless they are wanted `again`. Those
        that fail stay as they are. Raises FencedError if another replay takes over.
        """
        done = Replayed([], [], {})
        rest = iter(found)
        while part := list(islice(rest, _TOGETHER_LETTERS)):
            made: list[tuple[FoundLetter, Processed]] = []
            for each, entry in part:
                if each.replayed and not again:
                    done.before.append(each.offset)
                    continue
                outcome = self._process(each, entry)
                if isinstance(outcome, Processed):
                    made.append((each, outcome))
                else:
                    done.failed[each.offset] = outcome
            if made:
                self._publish(made)
                done.published.extend(each.offset for each, _ in made)
        return done

    def _process(self, found: FoundLetter, entry: InputSpec) -> Processed | str:
        """Return what user code makes of a letter, or why it fails."""
        runner = SpoltRunner(self._job, self._code, entry, self._subjects)
        made = Processed()
        try:
            for done in runner.run([found.letter.message]):
                made.add(done)
        except PenstockError as error:
            if error.retryable:
                raise
            return error.message
        return made.failed[0][1] if made.failed else made

    def _publish(self, made: Collection[tuple[FoundLetter, Processed]]) -> None:
        record = self._record.with_offsets([found.offset for found, _ in made])
        messages = [part for found, done in made for part in done.messages(found.letter.message.partition)]
        self._publisher.publish(messages, record.to_mapping)
        self._publisher.settle()
        self._record = record

    def close(self) -> None:
        """Let go of Kafka."""
        self._publisher.close()

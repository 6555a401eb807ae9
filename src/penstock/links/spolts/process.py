"""Processes ranges of topics: reads them, runs user code, and packs what came of it for the publisher."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.errors import SpoltError
from penstock.links.spolts.run import Processed, SpoltRunner
from penstock.links.spolts.worker_deaths import open_deaths

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from penstock.core.changes import Messages
    from penstock.core.spolts.raw import Letter, RawMessage
    from penstock.links.spolts.plan import InputRange
    from penstock.links.spolts.spec import LoadedCode, SpoltJob
    from penstock.ports.messages import MessageLog
    from penstock.ports.subjects import Subjects

_READ_BYTES_MAX = 32 << 20
_MADE_BYTES_MAX = 32 << 20
"""What a task reads, and what it makes, at most, give or take a message."""


@dataclass(frozen=True, slots=True)
class RangeProcessed:
    """What came of a range, as far as `read_to`, which may be short of its end.

    `count` messages were read, the newest of them of `newest_ms` (Kafka's time, Unix ms).
    `fault` is what the message at `read_to` stops the spolt with, once all of this is published.
    """

    range: InputRange
    read_to: int
    messages: tuple[Messages, ...]
    letters: tuple[Letter, ...]
    count: int
    newest_ms: int
    fault: SpoltError | None = None


class RangeProcessor:
    """Processes ranges for one spolt."""

    def __init__(
        self, job: SpoltJob, code: LoadedCode, log: MessageLog, subjects: Subjects, deaths: Path | None = None
    ) -> None:
        """Read from `log`, decode and encode with the schemas of `subjects`; `deaths` is a folder for WorkerDeaths."""
        self._deaths = deaths
        self._job = job
        self._code = code
        self._log = log
        self._subjects = subjects

    def process(self, ranges: Sequence[InputRange]) -> Iterator[RangeProcessed]:
        """Process each range, in order. One with too many bytes for one go is left early, and one with a fault there.

        Raises UnavailableError as `SpoltRunner.run`, and what `MessageLog.read_messages` raises.
        """
        asked = {(each.topic, each.partition): (each.start, each.end) for each in ranges}
        share = max(1, _READ_BYTES_MAX // max(1, len(ranges)))
        read = self._log.read_messages(asked, share)
        room = _MADE_BYTES_MAX
        for each in ranges:
            raws = read[each.topic, each.partition]
            size = sum(len(raw.key or b"") + len(raw.value or b"") for raw in raws)
            done = self._process(each, raws, raws[-1].offset + 1 if size >= share else each.end, room)
            room -= sum(part.keys.nbytes + part.values.nbytes for part in done.messages)
            room -= sum(len(each.message.key or b"") + len(each.message.value or b"") for each in done.letters)
            yield done
            if room <= 0:
                return

    def _process(self, given: InputRange, raws: Sequence[RawMessage], end: int, room: int) -> RangeProcessed:
        made = Processed()
        fault: SpoltError | None = None
        with (None if self._deaths is None else open_deaths(self._deaths, given)) or nullcontext() as deaths:
            runner = SpoltRunner(self._job, self._code, given.input, self._subjects, deaths)
            try:
                for done in runner.run(raws):
                    made.add(done)
                    if made.size_bytes() >= room and made.count < len(raws):
                        end = raws[made.count].offset
                        break
            except SpoltError as error:
                fault, end = error, raws[made.count].offset
        return RangeProcessed(
            range=given,
            read_to=end,
            messages=tuple(made.messages(given.partition)),
            letters=tuple(made.letters(self._job.spolt.name)),
            count=made.count,
            newest_ms=max((raw.timestamp_ms for raw in raws[: made.count]), default=0),
            fault=fault,
        )

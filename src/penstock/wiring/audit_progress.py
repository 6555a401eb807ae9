"""Waits until a target has passed a place in its source's log, as every link on the way says itself."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from penstock.core.batches import Batch
from penstock.core.publication import CaptureRecord
from penstock.links.objects.record import ObjectsRecord
from penstock.wiring.batch_messages import read_batch_messages, read_objects_record
from penstock.wiring.open import OBJECTS_LINK, batch_topic, committed_end, committed_position, open_topic_log
from penstock.wiring.table_topics import TableTopics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.config.specs import LinkSpec, PipelineSpec
    from penstock.core.audit.findings import Stage
    from penstock.core.positions import Position

_POLL_SECONDS: Final = 0.2


class LinkProgress:
    """How far the links between a source and a target are. Its Kafka must be reachable."""

    def __init__(self, spec: PipelineSpec, link: LinkSpec, loaded_to: Callable[[], int]) -> None:
        """Connect. `loaded_to` asks the target from which offset of the batch topic it reads on."""
        self._spec = spec
        self._link = link
        self._loaded_to = loaded_to
        self._log = open_topic_log(spec)
        self._announced = TableTopics(spec, self._log)

    def close(self) -> None:
        """Drop the connection to Kafka."""
        self._log.close()

    def await_passed(self, position: Position, seconds: float, stage: Stage = "target") -> str:
        """Wait, at most `seconds`, until the stage has all that was committed before `position`.

        Return "", or what is behind. Raises UnavailableError when Kafka does not answer.
        """
        deadline = time.monotonic() + seconds
        if not self._wait(lambda: self._is_captured(position), deadline):
            return f"the capture of {self._link.source} has not reached {position} in {seconds:g} s"
        if stage == "topic":
            return ""
        self._announced.read()
        tables = self._announced.by_table(ObjectsRecord())
        ends = self._log.ends([place for places in tables.values() for place in places])
        if not self._wait(lambda: self._is_in_files(ends), deadline):
            return f"what was captured before {position} was not in files in {seconds:g} s"
        if stage == "files":
            return ""
        end = committed_end(self._spec, self._log, OBJECTS_LINK, batch_topic(self._spec))
        if not self._wait(lambda: self._is_loaded(end), deadline):
            return f"{self._link.sink} has not loaded what was committed before {position} in {seconds:g} s"
        return ""

    def _wait(self, is_done: Callable[[], bool], deadline: float) -> bool:
        while not is_done():
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def _is_captured(self, position: Position) -> bool:
        record = committed_position(self._spec, self._log, self._link.source)
        if record is None:
            return False
        found = CaptureRecord.from_mapping(record)
        # The place is of the server that is read now: a capture that does not read it yet is in an older timeline.
        return not found.is_snapshotting and found.position.order >= position.order

    def _is_in_files(self, ends: Mapping[tuple[str, int], int]) -> bool:
        found = read_objects_record(self._spec, self._log)
        # What is not read into files is waited for by nobody: its table is told as stopped.
        read = {place for places in self._announced.by_table(found).values() for place in places}
        return all(found.places.get(place, (0, 0))[1] >= end for place, end in ends.items() if place in read)

    def _is_loaded(self, end: int) -> bool:
        """Whether nothing of the link lies before `end` that the target has not: other sources' batches may."""
        loaded_to = self._loaded_to()
        if loaded_to < read_objects_record(self._spec, self._log).batches_from:
            # A target that has not begun: what it will have begins behind that.
            return False
        for messages in read_batch_messages(self._spec, self._log, loaded_to, end):
            for _, value in messages:
                batch = Batch.from_json(value)
                if batch.source == self._link.source and self._link.patterns.matches(batch.table):
                    return False
        return True

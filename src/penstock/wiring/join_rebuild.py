"""A join that is made again beside what it has published: who asks for it, and how it is opened.

`rebuild.json` beside the states of a join asks for it. While it is there, a new state is
made in the folder of the next generation, and the output stays as it is.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock.adapters.kafka.topics import letters_topic
from penstock.core.avro.schemas import table_schema
from penstock.core.errors import FencedError, UnavailableError, UsageError
from penstock.core.joins.replaced import JoinedRows, can_take_the_place, replacing_changes
from penstock.core.joins.upgrade import made_join, stays_in_topic
from penstock.core.schema_changes import SchemaChangeKind
from penstock.links.joins.publish import Announcement, JoinLetters
from penstock.links.joins.record import NO_BATCH, JoinRecord
from penstock.links.joins.resolve import resolve_join
from penstock.links.joins.spec import StandingState
from penstock.wiring.join_states import (
    checkpoint_of,
    empty_checkpoint,
    has_state,
    keep_job,
    kept_job,
    later_steps,
    planned_batches,
    states_of,
)
from penstock.wiring.joins import (
    PUBLISHING_SECONDS,
    open_join_publisher,
    read_join,
    register_output,
    require_whole,
    with_topics,
)
from penstock.wiring.open import open_registry, open_topic_log, schema_changes_topic
from penstock.wiring.whole_files import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from penstock.adapters.kafka.reader import TopicReader
    from penstock.config.specs import PipelineSpec
    from penstock.core.schema_changes import SchemaChange
    from penstock.links.joins.spec import JoinJob
    from penstock.ports.registry import Registry

_PART_BYTES = 64 << 20
_EMPTY_IT = (
    f"if the brokers ran all of those {PUBLISHING_SECONDS / 60:.0f} minutes, it is too much for one transaction: "
    "have the table emptied and filled, penstock joinery rebuild FILE JOIN --empty"
)


@dataclass(frozen=True, slots=True)
class OpenedRebuild:
    """A join that is made again: its new state is that of `job` in `checkpoint`.

    It has to come to `reaches` at least. `standing` is the state whose rows stay in the
    output; None where the table is made anew. Until it is there, only `letters` publishes.
    """

    spec: PipelineSpec
    job: JoinJob
    checkpoint: Path
    reaches: Mapping[tuple[str, int], int]
    standing: StandingState | None
    letters: JoinLetters
    next_record: JoinRecord
    announcement: Announcement | None

    def switch(
        self,
        batch: int,
        places: Mapping[tuple[str, int], int],
        before: Sequence[pa.Table],
        after: Sequence[pa.Table],
    ) -> int:
        """Publish what the new state makes of the output, in one transaction; return how many rows changed.

        `before` and `after` are all joined rows of both states. The new one is that of `batch`, and came to `places`.
        """
        record = replace(self.next_record, batch=batch, places=dict(places))
        with closing(open_topic_log(self.spec)) as log, closing(open_registry(self.spec)) as registry:
            announced = read_join(self.spec, log, self.job.name).announced
            old = None if self.standing is None else JoinedRows(self.standing.job.plan, before)
            shown = _shown(announced, self.job.name, registry)
            changes = replacing_changes(old, JoinedRows(self.job.plan, after), _PART_BYTES, shown)
            # Not before: it may open a topic, and who takes the rebuild back would go on in one that nobody knows.
            target = register_output(self.spec, self.job, self.letters.publisher, log, registry, announced)
        begun = time.monotonic()
        try:
            return self.letters.go_over(target).switch(record, self.announcement, changes)
        except (UnavailableError, FencedError) as error:
            if time.monotonic() - begun < PUBLISHING_SECONDS:
                raise
            message = f"what a rebuild changes of {self.job.name} took longer than brokers leave a transaction open"
            raise UsageError(message, _EMPTY_IT) from error


def _shown(announced: Sequence[SchemaChange], name: str, registry: Registry) -> frozenset[str]:
    """Every field that the output of a join had at some time."""
    ids = {told.value_schema_id for told in announced if told.source == name}
    return frozenset(column.name for each in ids for column in table_schema(registry.value_schema(each)).columns)


def _require_topic_that_steps_read(
    spec: PipelineSpec, job: JoinJob, announced: Sequence[SchemaChange], registry: Registry
) -> None:
    """Raise UsageError if the output would go on in another topic, and another step reads the one that there is."""
    later = next(later_steps(spec, job.name), None)
    told = [each for each in announced if each.source == job.name]
    ids = {each.value_schema_id for each in told if each.topic == told[-1].topic}
    if later is not None and not stays_in_topic(job.plan.output, [registry.value_schema(each) for each in ids]):
        message = f"as its file is now, {job.name} needs a new topic, and the step {later} reads the one that there is"
        hint = "give the output another `source` to make it beside this one, or put the file back and use --cancel"
        raise UsageError(message, hint)


def ask_for_rebuild(spec: PipelineSpec, name: str) -> None:
    """Have the next run make a join again, and the steps that read it. Whoever calls holds the leader's lock."""
    # The last one first: if this ends halfway, no step is made again without those that read it.
    for each in reversed([name, *later_steps(spec, name)]):
        _write(spec, each, {})


def take_back_rebuild(spec: PipelineSpec, name: str) -> None:
    """Have the next run go on with the states that there were. Whoever calls holds the leader's lock.

    Raises UsageError for a step that reads another one which is made again.
    """
    before = spec.join(name).step_before
    if before is not None and _file(spec, before).is_file():
        message = f"{name} reads {before}, which is made again, and its state is of the rows of before"
        raise UsageError(message, f"take that back: penstock joinery rebuild FILE {before} --cancel")
    for each in (name, *later_steps(spec, name)):
        end_rebuild(spec, each)


def end_rebuild(spec: PipelineSpec, name: str) -> None:
    """Note that a join has gone over to its new state."""
    _file(spec, name).unlink(missing_ok=True)


def open_rebuild(spec: PipelineSpec, name: str, epoch: int) -> OpenedRebuild | None:
    """Take a join over that is to be made again; None where nobody asks for that. Raises as `open_join`."""
    if not _file(spec, name).is_file():
        return None
    with ExitStack() as opened:
        log = opened.enter_context(closing(open_topic_log(spec)))
        registry = opened.enter_context(closing(open_registry(spec)))
        read = read_join(spec, log, name)
        record = read.record
        if record is None or not _is_asked_for(spec, name, record):
            end_rebuild(spec, name)
            return None
        _require_step_before(spec, name)

        def planned(pinned: Mapping[str, int]) -> JoinJob:
            return resolve_join(
                spec.join(name), read.announced, registry.value_schema, schema_changes_topic(spec), pinned
            )

        job, partitions = with_topics(spec, log, _begun(spec, name, record, planned), read)
        generation = _replaced(spec, name, record) + 1
        checkpoint = checkpoint_of(spec, name, generation)
        if not planned_batches(checkpoint):
            require_whole(log, job, partitions)
        _require_topic_that_steps_read(spec, job, read.announced, registry)
        standing = _standing(spec, job, record)
        next_record, announcement = _next(job, replace(record, epoch=epoch), generation, standing)
        keep_job(checkpoint, job)
        reaches = {place: offset for place, offset in record.places.items() if place[0] in job.topics}
        letters = _open_letters(spec, name, record, epoch, log)
        return OpenedRebuild(spec, job, checkpoint, reaches, standing, letters, next_record, announcement)


def _open_letters(spec: PipelineSpec, name: str, record: JoinRecord, epoch: int, log: TopicReader) -> JoinLetters:
    """Fence everybody else who publishes for the join, also those who sleep: the next record may be hours away."""
    publisher = open_join_publisher(spec, name, epoch, log)
    letters = JoinLetters(publisher, name, letters_topic(spec.pipeline, name), replace(record, epoch=epoch))
    try:
        if record.epoch != epoch:
            letters.claim()
    except BaseException:
        letters.close()
        raise
    return letters


def _replaced(spec: PipelineSpec, name: str, record: JoinRecord) -> int:
    """The generation whose place the new state takes."""
    return int(_read(spec, name).get("replaces", record.generation))


def _is_asked_for(spec: PipelineSpec, name: str, record: JoinRecord) -> bool:
    """Whether the rebuild that was asked for is not done yet."""
    replaced = _replaced(spec, name, record)
    return replaced == record.generation or _is_announced(record, replaced)


def _is_announced(record: JoinRecord, replaced: int) -> bool:
    """Whether the table was made anew for the new state, and its rows were not published."""
    return replaced == record.generation - 1 and record.batch == NO_BATCH


def _require_step_before(spec: PipelineSpec, name: str) -> None:
    """Raise UnavailableError while the step that a join reads is made again itself."""
    before = spec.join(name).step_before
    if before is not None and _file(spec, before).is_file():
        message = f"the join {name} waits for {before}, which is made again"
        raise UnavailableError(message, "it begins by itself when that is done")


def _begun(
    spec: PipelineSpec, name: str, record: JoinRecord, planned: Callable[[Mapping[str, int]], JoinJob]
) -> JoinJob:
    """The join as its new state was begun, which begins now where there is none, or the file has changed since."""
    said = _read(spec, name)
    if "digest" in said:
        job = planned(said["schema_ids"])
        if job.plan.digest == said["digest"]:
            return job
    generation = record.generation + 1
    empty_checkpoint(checkpoint_of(spec, name, generation))
    job = planned({})
    schema_ids = {stream.topic: stream.schema_id for stream in job.streams}
    _write(spec, name, {"replaces": record.generation, "digest": job.plan.digest, "schema_ids": schema_ids})
    return job


def _standing(spec: PipelineSpec, job: JoinJob, record: JoinRecord) -> StandingState | None:
    checkpoint = checkpoint_of(spec, job.name, record.generation)
    old = kept_job(checkpoint, record)
    if old is None or record.batch == NO_BATCH or not has_state(spec, job.name, record):
        return None
    if not can_take_the_place(old.plan, job.plan):
        return None
    return StandingState(old, checkpoint, record.batch, record.places)


def _next(
    job: JoinJob, record: JoinRecord, generation: int, standing: StandingState | None
) -> tuple[JoinRecord, Announcement | None]:
    """The record of the new state, but for what it comes to, and what is announced with it, unless it was."""
    fresh = JoinRecord(
        epoch=record.epoch,
        generation=generation,
        batch=NO_BATCH,
        digest=job.plan.digest,
        schema_ids=tuple(stream.schema_id for stream in job.streams),
        ids={stream.topic: stream.topic_id for stream in job.streams},
        made=made_join(job.plan),
    )
    if generation == record.generation:
        return fresh, None
    order = (generation, 0, 0)
    if standing is not None:
        return replace(fresh, follows=record.follows + 1), Announcement(SchemaChangeKind.SCHEMA, order)
    kind = SchemaChangeKind.TRUNCATE if record.digest == job.plan.digest else SchemaChangeKind.CREATE
    return fresh, Announcement(kind, order)


def _file(spec: PipelineSpec, name: str) -> Path:
    return states_of(spec, name) / "rebuild.json"


def _read(spec: PipelineSpec, name: str) -> dict[str, Any]:
    """What the mark says; nothing where it cannot be read: then the new state is begun anew."""
    try:
        said: dict[str, Any] = json.loads(_file(spec, name).read_text(encoding="utf-8"))
    except ValueError:
        return {}
    return said


def _write(spec: PipelineSpec, name: str, said: Mapping[str, object]) -> None:
    write_whole(_file(spec, name), json.dumps(said))

"""A join that is made again beside what it has published: how that is opened, and how it goes over to its new state.

While `rebuild_marks` asks for it, a new state is made in the folder of the next
generation, and the join as it was goes on with the state that it has.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from penstock.adapters.kafka.topics import letters_topic
from penstock.core.avro.schemas import table_schema
from penstock.core.errors import FencedError, PenstockError, UnavailableError, UnknownStreamError, UsageError
from penstock.core.joins.replaced import JoinedRows, can_take_the_place, replacing_changes
from penstock.core.joins.upgrade import made_join, stays_in_topic
from penstock.core.schema_changes import SchemaChangeKind
from penstock.links.joins.columns import widened
from penstock.links.joins.publish import Announcement, JoinLetters, JoinPublisher, in_one_transaction
from penstock.links.joins.record import NO_BATCH, JoinRecord
from penstock.links.joins.resolve import resolve_join, with_described
from penstock.links.joins.spec import StandingState
from penstock.wiring.join_states import (
    checkpoint_of,
    empty_checkpoint,
    has_state,
    keep_job,
    kept_job,
    later_steps,
    newest_places,
    planned_batches,
)
from penstock.wiring.join_topics import require_kept, require_whole
from penstock.wiring.joins import (
    OpenedJoin,
    open_join_publisher,
    read_join,
    register_output,
    with_topics,
)
from penstock.wiring.open import open_registry, open_topic_log, schema_changes_topic
from penstock.wiring.rebuild_marks import (
    RebuildMark,
    end_rebuild,
    is_marked,
    note_refused,
    note_standing_still,
    read_mark,
    write_mark,
)
from penstock.wiring.standing_join import plan_as_it_was
from penstock.wiring.step_waits import is_step_made_again, lacks_rows_of_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from penstock.adapters.kafka.reader import TopicReader
    from penstock.config.specs import PipelineSpec
    from penstock.core.schema_changes import SchemaChange
    from penstock.links.joins.spec import JoinJob
    from penstock.ports.registry import Registry
    from penstock.wiring.joins import ReadJoin

_Found: TypeAlias = "tuple[TopicReader, Registry, ReadJoin]"
"""What Kafka is asked by, what schemas are asked of, and what Kafka has of the join."""
_Planned: TypeAlias = "tuple[JoinJob, Sequence[tuple[str, int]]]"
"""A join, and the partitions of its inputs."""

_PART_BYTES = 64 << 20
_EMPTY_IT = "have the table emptied and filled, penstock joinery rebuild FILE JOIN --empty"
_IS_EMPTY = (
    "; it was begun anew and is empty by now, so that --cancel fills it from the topics, too, as the file is then"
)


@dataclass(frozen=True, slots=True)
class OpenedRebuild:
    """A join that is made again: its new state is that of `job` in `checkpoint`.

    It has to come to `reaches` at least. `standing` is the state whose rows stay in the
    output; None where the table is made anew. `as_it_was` goes on until then, and publishes by
    way of `letters`, too; where it cannot, those alone do, what cannot be read and nothing else.
    """

    spec: PipelineSpec
    job: JoinJob
    checkpoint: Path
    reaches: Mapping[tuple[str, int], int]
    standing: StandingState | None
    as_it_was: OpenedJoin | None
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
        hint = _EMPTY_IT + (_IS_EMPTY if self.standing is None else "")
        with in_one_transaction(f"what a rebuild changes of {self.job.name}", hint):
            return self.letters.go_over(target).switch(record, self.announcement, changes)


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


@dataclass(frozen=True, slots=True)
class RefusedRebuild:
    """A join that cannot be made again, for which there is an `error`, and that goes on as it was."""

    as_it_was: OpenedJoin
    error: PenstockError


def open_rebuild(spec: PipelineSpec, name: str, epoch: int) -> OpenedRebuild | OpenedJoin | RefusedRebuild | None:
    """Take a join over that is to be made again; None where nobody asks for that. Raises as `open_join`.

    A step that reads another one which is made again, or new, waits for it, and goes on as it was. So does
    a join that cannot be made again, until another instance tries that.
    """
    if not is_marked(spec, name):
        return None
    with ExitStack() as opened:
        log = opened.enter_context(closing(open_topic_log(spec)))
        registry = opened.enter_context(closing(open_registry(spec)))
        read = read_join(spec, log, name)
        record = read.record
        if record is None or not _is_asked_for(spec, name, record):
            end_rebuild(spec, name)
            return None
        if is_step_made_again(spec, name) or lacks_rows_of_steps(spec, name, record, log, registry):
            return _open_waiting(spec, name, epoch, (log, registry, read))
        refused = read_mark(spec, name).refused
        if refused is not None and refused.epoch == epoch:
            error: PenstockError = UsageError(refused.reason, refused.hint)
            return RefusedRebuild(_open_refused(spec, name, epoch, (log, registry, read), error), error)
        try:
            begun = _plan_rebuild(spec, name, record, (log, registry, read))
            job = widened(begun, registry.value_schema)
        except UnknownStreamError:
            # It may be announced in a moment.
            raise
        except PenstockError as error:
            if error.retryable or isinstance(error, FencedError):
                raise
            return RefusedRebuild(_open_refused(spec, name, epoch, (log, registry, read), error), error)
        generation = _replaced(spec, name, record) + 1
        checkpoint = checkpoint_of(spec, name, generation)
        standing = _standing(spec, job, record, (log, registry, read))
        next_record, announcement = _next((begun, job), replace(record, epoch=epoch), generation, standing)
        keep_job(checkpoint, job)
        reaches = {**read_mark(spec, name).ends, **record.places}
        reaches = {place: offset for place, offset in reaches.items() if place[0] in job.topics}
        as_it_was = _open_as_it_was(spec, name, epoch, (log, registry, read), newest_places(checkpoint))
        letters = _open_letters(spec, name, record, epoch, log) if as_it_was is None else as_it_was.publisher
        return OpenedRebuild(spec, job, checkpoint, reaches, standing, as_it_was, letters, next_record, announcement)


def _plan_rebuild(spec: PipelineSpec, name: str, record: JoinRecord, found: _Found) -> JoinJob:
    """The join of the new state. Raises UsageError where it cannot be made."""
    log, registry, read = found

    def planned(pinned: Mapping[str, int]) -> _Planned:
        topic = schema_changes_topic(spec)
        job = resolve_join(spec.join(name), read.announced, registry.value_schema, topic, pinned)
        job, partitions = with_topics(spec, log, job, read)
        require_kept(log, job)
        return job, partitions

    job, partitions = _begun(spec, name, record, planned, log)
    if not planned_batches(checkpoint_of(spec, name, _replaced(spec, name, record) + 1)):
        require_whole(log, job, partitions)
    _require_topic_that_steps_read(spec, job, read.announced, registry)
    return job


def _open_refused(spec: PipelineSpec, name: str, epoch: int, found: _Found, error: PenstockError) -> OpenedJoin:
    """Open a join as it was, which cannot be made again. Raises `error` where it cannot go on either."""
    as_it_was = _open_as_it_was(spec, name, epoch, found, {})
    if as_it_was is None:
        raise error
    note_refused(spec, name, epoch, error)
    return as_it_was


def _open_waiting(spec: PipelineSpec, name: str, epoch: int, found: _Found) -> OpenedJoin:
    """Open a join as it was. Raises UnavailableError where it cannot go on."""
    as_it_was = _open_as_it_was(spec, name, epoch, found, {})
    if as_it_was is None:
        message = f"the join {name} waits for {spec.join(name).step_before}, which is being made"
        raise UnavailableError(message, "it begins by itself when that is done")
    return as_it_was


def _open_as_it_was(
    spec: PipelineSpec, name: str, epoch: int, found: _Found, begun: Mapping[tuple[str, int], int]
) -> OpenedJoin | None:
    """What goes on while a join is made again; None where nothing does, which is noted for `penstock status`.

    The state that is made has come to `begun`.
    """
    still = read_mark(spec, name).still
    if still is not None and still.epoch == epoch:
        return None
    log, registry, read = found
    try:
        planned = plan_as_it_was(spec, name, log, registry, read)
        require_kept(log, planned.job)
    except PenstockError as error:
        if error.retryable:
            raise
        note_standing_still(spec, name, epoch, error.message)
        return None
    record = planned.record
    publisher = open_join_publisher(spec, name, epoch, log, record)
    letters = JoinPublisher(publisher, planned.target, replace(record, epoch=epoch), None, begun)
    _claim(letters, record)
    return OpenedJoin(planned.job, letters, planned.checkpoint)


def _open_letters(spec: PipelineSpec, name: str, record: JoinRecord, epoch: int, log: TopicReader) -> JoinLetters:
    publisher = open_join_publisher(spec, name, epoch, log, record)
    letters = JoinLetters(publisher, name, letters_topic(spec.pipeline, name), replace(record, epoch=epoch))
    _claim(letters, record)
    return letters


def _claim(letters: JoinLetters, before: JoinRecord) -> None:
    """Fence everybody else who publishes for the join, also those who sleep: the next record may be hours away."""
    try:
        if letters.record.epoch != before.epoch:
            letters.claim()
    except BaseException:
        letters.close()
        raise


def _replaced(spec: PipelineSpec, name: str, record: JoinRecord) -> int:
    """The generation whose place the new state takes."""
    mark = read_mark(spec, name)
    return mark.replaces if mark.digest else record.generation


def _is_asked_for(spec: PipelineSpec, name: str, record: JoinRecord) -> bool:
    """Whether the rebuild that was asked for is not done yet."""
    replaced = _replaced(spec, name, record)
    return replaced == record.generation or _is_announced(record, replaced)


def _is_announced(record: JoinRecord, replaced: int) -> bool:
    """Whether the table was made anew for the new state, and its rows were not published."""
    return replaced == record.generation - 1 and record.batch == NO_BATCH


def _begun(
    spec: PipelineSpec,
    name: str,
    record: JoinRecord,
    planned: Callable[[Mapping[str, int]], _Planned],
    log: TopicReader,
) -> _Planned:
    """The join as its new state was begun, which begins now where there is none, or the file has changed since."""
    mark = read_mark(spec, name)
    if mark.digest:
        job, partitions = planned(mark.schema_ids)
        if job.plan.digest == mark.digest:
            return job, partitions
    generation = record.generation + 1
    empty_checkpoint(checkpoint_of(spec, name, generation))
    job, partitions = planned({})
    ends = log.ends([place for place in partitions if place[0] not in record.ids])
    begun = RebuildMark(record.generation, job.plan.digest, job.schemas, dict(ends), step_ends=mark.step_ends)
    write_mark(spec, name, begun)
    return job, partitions


def _standing(spec: PipelineSpec, job: JoinJob, record: JoinRecord, found: _Found) -> StandingState | None:
    _, registry, read = found
    checkpoint = checkpoint_of(spec, job.name, record.generation)
    old = kept_job(checkpoint, record)
    if old is None or record.batch == NO_BATCH or not has_state(spec, job.name, record):
        return None
    old = with_described(old, read.announced)
    try:
        old = widened(old, registry.value_schema)
    except PenstockError as error:
        if error.retryable:
            raise
        # A column is another one by now, which may be what the join is made again for.
    if not can_take_the_place(old.plan, job.plan):
        return None
    return StandingState(old, checkpoint, record.batch, record.places)


def _next(
    jobs: tuple[JoinJob, JoinJob], record: JoinRecord, generation: int, standing: StandingState | None
) -> tuple[JoinRecord, Announcement | None]:
    """The record of the new state, but for what it comes to, and what is announced with it, unless it was.

    `jobs` are the join as the state was begun, and with what is wider by now.
    """
    begun, job = jobs
    fresh = JoinRecord(
        epoch=record.epoch,
        generation=generation,
        batch=NO_BATCH,
        digest=job.plan.digest,
        schema_ids=tuple(job.schemas.values()),
        ids={stream.topic: stream.topic_id for stream in job.streams},
        made=replace(made_join(job.plan), basis=made_join(begun.plan).basis),
    )
    if generation == record.generation:
        return fresh, None
    order = (generation, 0, 0)
    if standing is not None:
        return replace(fresh, follows=record.follows + 1), Announcement(SchemaChangeKind.SCHEMA, order)
    kind = SchemaChangeKind.TRUNCATE if record.digest == job.plan.digest else SchemaChangeKind.CREATE
    return fresh, Announcement(kind, order)

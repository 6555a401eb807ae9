"""Opens what joins work with."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.adapters.kafka.topics import letters_topic
from penstock.config.join_steps import as_begun
from penstock.core.avro.schemas import table_schema, value_schema
from penstock.core.errors import UsageError
from penstock.core.joins.upgrade import REBUILD, column_renames, fit_plan, made_join
from penstock.core.positions import timeline_of
from penstock.core.schema_changes import SchemaChange, SchemaChangeKind
from penstock.core.timelines import TimelineBegan, timeline_starts
from penstock.core.topic_fingerprints import require_id, require_partitions
from penstock.links.joins.columns import widened
from penstock.links.joins.estimate import estimate_state
from penstock.links.joins.publish import (
    PUBLISHING_SECONDS,
    Announcement,
    JoinPublisher,
    JoinTarget,
    require_own_output,
    require_standing,
)
from penstock.links.joins.record import NO_BATCH, JoinRecord
from penstock.links.joins.resolve import resolve_join
from penstock.wiring.join_states import (
    checkpoint_of,
    empty_checkpoint,
    has_state,
    is_ahead,
    keep_job,
    later_steps,
)
from penstock.wiring.join_topics import require_kept, require_whole
from penstock.wiring.open import (
    committed_position,
    failovers_topic,
    open_publisher,
    open_registry,
    open_topic_log,
    schema_changes_topic,
)
from penstock.wiring.schemas_topic import read_schemas_topic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from penstock.adapters.kafka.reader import TopicReader
    from penstock.config.specs import PipelineSpec
    from penstock.core.tables import ColumnType
    from penstock.links.joins.estimate import InputEstimate
    from penstock.links.joins.spec import JoinJob
    from penstock.ports.publisher import CapturePublisher, Publisher
    from penstock.ports.registry import Registry

_UPGRADE_ROW = 1 << 30
"""Announcements of upgrades stand behind so many rows of a micro-batch, more than one can have."""


NOT_MADE = -1
"""The schema id of what a step has not made yet."""


@dataclass(frozen=True, slots=True)
class OpenedJoin:
    """A join that this instance has taken over. `checkpoint` is where its state is, or will be."""

    job: JoinJob
    publisher: JoinPublisher
    checkpoint: Path


def plan_of_join(spec: PipelineSpec, name: str, log: TopicReader, registry: Registry) -> JoinJob:
    """How a join is made now, of what was announced so far. Raises as `resolve_join`."""
    return _plan(spec, name, read_join(spec, log, name), registry)


@dataclass(frozen=True, slots=True)
class ReadJoin:
    """What Kafka has of a join: its record, and the schema-change events of all tables. And whether it has a state."""

    record: JoinRecord | None
    announced: Sequence[SchemaChange]
    has_state: bool = False


def output_topics(announced: Sequence[SchemaChange], name: str) -> Sequence[str]:
    """The topics of a join's output that readers were told of, the newest last."""
    return [told.topic for told in announced if told.source == name]


def read_join(spec: PipelineSpec, log: TopicReader, name: str) -> ReadJoin:
    """Read it. Raises as `has_state`."""
    record = read_join_record(spec, log, name)
    return ReadJoin(record, _announced(spec, log), record is not None and has_state(spec, name, record))


def _plan(spec: PipelineSpec, name: str, read: ReadJoin, registry: Registry) -> JoinJob:
    # Without its state a join is made again, of what its inputs are now.
    record = read.record if read.has_state else None
    join, pinned = spec.join(name), {} if record is None else record.schemas
    if record is not None and record.made is not None:
        join = as_begun(join, record.made.place_of)
    return resolve_join(join, read.announced, registry.value_schema, schema_changes_topic(spec), pinned)


def plan_ahead(spec: PipelineSpec, name: str, log: TopicReader, registry: Registry) -> JoinJob:
    """How a join will be made, even before the step that it reads has made anything. Raises as `resolve_join`."""
    join, announced = spec.join(name), _announced(spec, log)
    topic = join.inputs[0].topic or ""
    if join.step_before is None or any(told.topic == topic for told in announced):
        return plan_of_join(spec, name, log, registry)
    step = plan_ahead(spec, join.step_before, log, registry)
    table = step.plan.output
    told = SchemaChange(step.name, table.table, topic, "", None, NOT_MADE, 1, (1, 0, 0))

    def schema_of(schema_id: int) -> str:
        return value_schema(table) if schema_id == NOT_MADE else registry.value_schema(schema_id)

    return resolve_join(join, [*announced, told], schema_of, schema_changes_topic(spec))


def _require_next_steps(spec: PipelineSpec, name: str, log: TopicReader, registry: Registry) -> None:
    """Raise as `resolve_join` for what comes after a step, before the step makes anything."""
    for later in later_steps(spec, name):
        plan_ahead(spec, later, log, registry)


def _require_no_later_step(spec: PipelineSpec, name: str) -> None:
    """Raise UsageError if another step reads a join whose fields change: its state is of those that were before."""
    for later in later_steps(spec, name):
        message = f"the fields of {name} changed, and the state of the step {later} is of those before"
        raise UsageError(message, REBUILD)


@dataclass(frozen=True, slots=True)
class StandingJoin:
    """A join as it stands, to be looked at while it runs.

    `outputs` are its topics, the newest last, `partitions` are those of its inputs, and
    its join keys are of `join_key_types` in the first of them. `renames` say what fields
    of the output are called now, by the schema that they were written with. `counting` are those of
    `outputs` that the table had since it began anew last, in that order, and where each partition ended then; ()
    where that is not known, or the topic came later.
    """

    job: JoinJob
    record: JoinRecord
    outputs: tuple[str, ...]
    partitions: Sequence[tuple[str, int]]
    join_key_types: Sequence[ColumnType]
    renames: Mapping[int, Mapping[str, str]]
    counting: Mapping[str, Sequence[int]]


def standing_join(spec: PipelineSpec, name: str, log: TopicReader, registry: Registry) -> StandingJoin:
    """What a join has come to. Raises UsageError before its first record, and what `plan_of_join` raises."""
    read = read_join(spec, log, name)
    job, record = _plan(spec, name, read, registry), read.record
    own = [told for told in read.announced if told.source == name]
    if record is None or not own:
        message = f"the join {name} has published nothing yet"
        raise UsageError(message, "run the pipeline first: penstock run FILE")
    job, partitions = with_topics(spec, log, _on_its_state(job, read, registry), read)
    if record.digest != job.plan.digest:
        message = f"the file of the join {name} was changed, and nothing was published since"
        raise UsageError(message, "run the pipeline first: penstock run FILE; or put the file back as it was")
    first = table_schema(registry.value_schema(job.streams[0].schema_id))
    types = [first.column(key).type for key in job.plan.inputs[0].join_keys]
    topics = tuple(dict.fromkeys(told.topic for told in own))
    return StandingJoin(job, record, topics, partitions, types, _renames(own), _counting(own, record))


def _counting(own: Sequence[SchemaChange], record: JoinRecord) -> Mapping[str, Sequence[int]]:
    """The topics that the table had since it began anew last, and where the first one ended then."""
    # What was told of since the record was read counts with the next one.
    known = [told for told in own if told.order[0] <= record.generation]
    anew = [number for number, told in enumerate(known) if told.kind is not SchemaChangeKind.SCHEMA]
    first, *later = known[max(anew, default=0) :]
    return {first.topic: first.begins, **{told.topic: () for told in later if told.topic != first.topic}}


def _renames(own: Sequence[SchemaChange]) -> Mapping[int, Mapping[str, str]]:
    """What fields of the output that have another name now are called, by the schema that they were written with."""
    renames: dict[int, dict[str, str]] = {}
    for told in own:
        for before in renames.values():
            pairs = dict(told.column_renames)
            known = {old: pairs.get(new, new) for old, new in before.items()}
            renamed = {old: new for old, new in pairs.items() if old not in before.values() and old not in before}
            before.update({**known, **renamed})
        renames[told.value_schema_id] = {}
    return renames


def open_join(spec: PipelineSpec, name: str, epoch: int) -> OpenedJoin:
    """Take a join over, as wiring.open.open_publisher does, and register its output.

    Raises UsageError for a join that cannot be made, before anything of it is written:
    UnknownStreamError for tables that nobody has announced yet.
    """
    with ExitStack() as opened:
        log = opened.enter_context(closing(open_topic_log(spec)))
        registry = opened.enter_context(closing(open_registry(spec)))
        read = read_join(spec, log, name)
        record = read.record
        if record is not None and is_ahead(spec, name, record):
            read = replace(read, has_state=False)
        job = _plan(spec, name, read, registry)
        if record is None:
            _require_next_steps(spec, name, log, registry)
        job, partitions = with_topics(spec, log, _on_its_state(job, read, registry), read)
        require_kept(log, job)
        next_record, announcement = _next_record(job, epoch, read)
        if announcement is not None and announcement.kind is SchemaChangeKind.SCHEMA and _shows_others(read, job):
            _require_no_later_step(spec, name)
        checkpoint = checkpoint_of(spec, name, next_record.generation)
        begins = record is None or next_record.generation != record.generation
        # It is sure now that no newer record is on its way, which the state would be that of.
        publisher = open_join_publisher(spec, name, epoch, log, record, begins=begins)
        failed = opened.enter_context(ExitStack())
        failed.callback(publisher.close)
        if begins or next_record.batch == NO_BATCH:
            require_whole(log, job, partitions)
        made = register_output(spec, job, publisher, log, registry, read.announced)
        told = output_topics(read.announced, name)
        if record is not None and announcement is None and made.registered.topic not in told[-1:]:
            next_record, announcement = _upgraded(next_record)
        if next_record.batch == NO_BATCH:
            # Nothing of it was published, and a machine that went down may have left a part of it.
            empty_checkpoint(checkpoint)
        result = OpenedJoin(job, JoinPublisher(publisher, made, next_record, announcement), checkpoint)
        keep_job(checkpoint, job)
        failed.pop_all()
        return result


def _shows_others(read: ReadJoin, job: JoinJob) -> bool:
    """Whether an output has other fields than it had; wider ones are those that it had."""
    before = None if read.record is None else read.record.made
    return before is not None and before.fields != made_join(job.plan).fields


def open_join_publisher(
    spec: PipelineSpec, name: str, epoch: int, log: TopicReader, record: JoinRecord | None, *, begins: bool = False
) -> CapturePublisher:
    """Fence everybody else who publishes for a join, and see to the topics that all joins have.

    Raises UnavailableError if it stands elsewhere than at `record` by now, and PositionError if somebody
    else has written to its output, unless that `begins` anew behind all that is there.
    """
    publisher = open_publisher(spec, name, epoch, PUBLISHING_SECONDS, log)
    try:
        require_standing(publisher, name, record)
        require_own_output(publisher, name, begins=begins)
        publisher.create_topics([schema_changes_topic(spec), letters_topic(spec.pipeline, name)])
    except BaseException:
        publisher.close()
        raise
    return publisher


def register_output(
    spec: PipelineSpec,
    job: JoinJob,
    publisher: Publisher,
    log: TopicReader,
    registry: Registry,
    announced: Sequence[SchemaChange],
) -> JoinTarget:
    """Register what a join makes, and see to its topic: what is published from now on has to be announced with it."""
    registered = registry.register(job.name, job.plan.output)
    outputs = output_topics(announced, job.name)
    if outputs and registered.topic not in outputs:
        # The registry's newest one may be of a shape that came to nothing, and nobody was told of.
        registered = replace(registered, follows=outputs[-1])
    publisher.create_topics([registered.topic])
    _, partitions = log.shapes([registered.topic])[registered.topic]
    letters = letters_topic(spec.pipeline, job.name)
    return JoinTarget(job.name, job.plan, registered, partitions, schema_changes_topic(spec), letters)


def estimate_of_join(log: TopicReader, registry: Registry, job: JoinJob) -> Sequence[InputEstimate]:
    """How large its state will be, input by input. Raises what `estimate_state` raises."""
    shapes = log.shapes([stream.topic for stream in job.streams])
    places = [(topic, number) for topic, (_, count) in shapes.items() for number in range(count)]
    return estimate_state(job, log.scan, log.begins(places), log.ends(places), registry.value_schema)


def read_join_record(spec: PipelineSpec, log: TopicReader, name: str) -> JoinRecord | None:
    """Where a join stands, None before its first record."""
    record = committed_position(spec, log, name)
    return None if record is None else JoinRecord.from_mapping(record)


def _next_record(job: JoinJob, epoch: int, read: ReadJoin) -> tuple[JoinRecord, Announcement | None]:
    """The record to go on from, and what is announced with it: a new table, an empty one, or other columns."""
    record = read.record
    ids = {stream.topic: stream.topic_id for stream in job.streams}
    schema_ids = tuple(job.schemas.values())
    made, digest = made_join(job.plan), job.plan.digest
    fresh = JoinRecord(epoch, 1, NO_BATCH, digest, schema_ids, ids=ids, made=made)
    if record is None:
        return fresh, Announcement(SchemaChangeKind.SCHEMA, (1, 0, 0))
    if read.has_state and not (record.batch == NO_BATCH and record.digest != digest):
        # It fits the state that it is of, whatever is wider by now.
        made = made if record.made is None else replace(made, basis=record.made.basis)
        going_on = replace(record, epoch=epoch, digest=digest, schema_ids=schema_ids, made=made)
        if record.digest == digest:
            return going_on, None
        if record.made is None:
            message = f"the file of the join {job.name} was changed, and its state is of an older release"
            raise UsageError(message, REBUILD)
        return _upgraded(going_on, column_renames(job.plan, record.made))
    # The state is lost, or of another micro-batch than the output: it is made again from the topics.
    generation = record.generation + 1
    kind = SchemaChangeKind.TRUNCATE if record.digest == digest else SchemaChangeKind.CREATE
    return replace(fresh, generation=generation), Announcement(kind, (generation, 0, 0))


def _upgraded(record: JoinRecord, renames: tuple[tuple[str, str], ...] = ()) -> tuple[JoinRecord, Announcement]:
    """The record of an output that goes on with another schema, or in another topic, and what is announced with it."""
    # Behind all rows of the newest micro-batch, and before those of the next one.
    order = (record.generation, record.batch + 1, _UPGRADE_ROW + record.upgrades)
    return replace(record, upgrades=record.upgrades + 1), Announcement(SchemaChangeKind.SCHEMA, order, renames)


def _on_its_state(job: JoinJob, read: ReadJoin, registry: Registry) -> JoinJob:
    """The join on the state that it has, which may keep more than its file asks for. Raises as `fit_plan`."""
    record = read.record
    if record is None or record.batch == NO_BATCH or not read.has_state:
        return job
    if list(record.ids) != list(dict.fromkeys(stream.topic for stream in job.streams)):
        message = f"the inputs of the join {job.name} are others, or in another order, than those its state is of"
        raise UsageError(message, REBUILD)
    if record.made is None:
        return job
    tables = [table_schema(registry.value_schema(stream.schema_id)) for stream in job.streams]
    return widened(replace(job, plan=fit_plan(job.plan, tables, record.made)), registry.value_schema)


def _announced(spec: PipelineSpec, log: TopicReader) -> list[SchemaChange]:
    return [schema_change for _, schema_change in read_schemas_topic(spec, log)]


def with_topics(
    spec: PipelineSpec, log: TopicReader, job: JoinJob, read: ReadJoin
) -> tuple[JoinJob, Sequence[tuple[str, int]]]:
    """Add what the brokers know of the inputs' topics, and return their partitions, too."""
    shapes = log.shapes([stream.topic for stream in job.streams])
    topic = failovers_topic(spec)
    end = log.ends([(topic, 0)]).get((topic, 0), 0)
    timelines = [TimelineBegan.from_json(value) for messages in log.read(topic, 0, 0, end) for _, value in messages]
    streams = []
    for stream in job.streams:
        if stream.topic not in shapes:
            message = f"the topic {stream.topic}, which the join {job.name} reads, is not there"
            raise UsageError(message, "restore it, or correct the join's file: a deleted topic cannot be joined")
        topic_id, count = shapes[stream.topic]
        if read.record is not None and stream.topic in read.record.ids:
            require_id(stream.topic, read.record.ids[stream.topic], topic_id)
            before = sum(topic == stream.topic for topic, _ in read.record.places)
            require_partitions(stream.topic, before or count, count)
        own = [timeline for timeline in timelines if timeline.source == stream.source]
        first = min(timeline_of(told.order) for told in read.announced if told.topic == stream.topic)
        starts = tuple(timeline_starts(own, stream.topic, partition, first) for partition in range(count))
        streams.append(replace(stream, topic_id=topic_id, timelines=starts))
    partitions = [(name, number) for name, (_, count) in shapes.items() for number in range(count)]
    return replace(job, streams=tuple(streams)), partitions

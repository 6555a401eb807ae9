"""Opens what joins work with."""

from __future__ import annotations

import shutil
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.adapters.kafka.described import forgetful_topics
from penstock.adapters.kafka.topics import letters_topic
from penstock.core.avro.schemas import table_schema, value_schema
from penstock.core.errors import UnavailableError, UnknownStreamError, UsageError
from penstock.core.positions import timeline_of
from penstock.core.schema_changes import SchemaChange, read_schema_change
from penstock.core.timelines import TimelineBegan, timeline_starts
from penstock.core.topic_fingerprints import require_id
from penstock.links.joins.estimate import estimate_state
from penstock.links.joins.publish import JoinPublisher, JoinTarget
from penstock.links.joins.record import NO_BATCH, JoinRecord
from penstock.links.joins.resolve import resolve_join
from penstock.wiring.open import (
    committed_position,
    failovers_topic,
    open_publisher,
    open_registry,
    open_topic_log,
    schema_changes_topic,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from penstock.adapters.kafka.reader import TopicReader
    from penstock.config.specs import PipelineSpec
    from penstock.core.tables import ColumnType
    from penstock.links.joins.estimate import InputEstimate
    from penstock.links.joins.spec import JoinJob
    from penstock.ports.registry import Registry


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
    record = read_join_record(spec, log, name)
    pinned = () if record is None else record.schema_ids
    announced = _announced(spec, log)
    return resolve_join(spec.join(name), announced, registry.value_schema, schema_changes_topic(spec), pinned)


def plan_ahead(spec: PipelineSpec, name: str, log: TopicReader, registry: Registry) -> JoinJob:
    """How a join will be made, even before the step that it reads has made anything. Raises as `resolve_join`."""
    join, announced = spec.join(name), _announced(spec, log)
    topic = join.inputs[0].topic or ""
    if not join.inputs[0].is_step or any(told.topic == topic for told in announced):
        return plan_of_join(spec, name, log, registry)
    step = plan_ahead(spec, topic.partition(".")[0], log, registry)
    table = step.plan.output
    told = SchemaChange(step.name, table.table, topic, "", None, NOT_MADE, 1, (1, 0, 0))

    def schema_of(schema_id: int) -> str:
        return value_schema(table) if schema_id == NOT_MADE else registry.value_schema(schema_id)

    return resolve_join(join, [*announced, told], schema_of, schema_changes_topic(spec))


def _require_next_steps(spec: PipelineSpec, name: str, log: TopicReader, registry: Registry) -> None:
    """Raise as `resolve_join` for what comes after a step, before the step makes anything."""
    for join in spec.joins:
        if join.inputs[0].is_step and (join.inputs[0].topic or "").partition(".")[0] == name:
            plan_ahead(spec, join.name, log, registry)
            _require_next_steps(spec, join.name, log, registry)


@dataclass(frozen=True, slots=True)
class StandingJoin:
    """A join as it stands, to be looked at while it runs.

    `output` is its topic, `partitions` are those of its inputs, and its join keys are
    of `join_key_types` in the first of them.
    """

    job: JoinJob
    record: JoinRecord
    output: str
    partitions: Sequence[tuple[str, int]]
    join_key_types: Sequence[ColumnType]


def standing_join(spec: PipelineSpec, name: str, log: TopicReader, registry: Registry) -> StandingJoin:
    """What a join has come to. Raises UsageError before its first record, and what `plan_of_join` raises."""
    job = plan_of_join(spec, name, log, registry)
    record = read_join_record(spec, log, name)
    own = [told.topic for told in _announced(spec, log) if told.source == name]
    if record is None or not own:
        message = f"the join {name} has published nothing yet"
        raise UsageError(message, "run the pipeline first: penstock run FILE")
    if record.digest != job.plan.digest:
        raise _changed(name)
    job, partitions = _with_topics(spec, log, job, record)
    first = table_schema(registry.value_schema(job.streams[0].schema_id))
    types = [first.column(key).type for key in job.plan.inputs[0].join_keys]
    return StandingJoin(job, record, own[-1], partitions, types)


def _changed(name: str) -> UsageError:
    message = f"the file of the join {name} was changed, and its state is of the join as it was"
    hint = "give the output another `source`, and it is made beside this one; or put the file back as it was"
    return UsageError(message, hint)


def open_join(spec: PipelineSpec, name: str, epoch: int, *, may_wait: bool) -> OpenedJoin:
    """Take a join over, as wiring.open.open_publisher does, and register its output.

    Raises UsageError for a join that cannot be made, before anything is written; where
    it `may_wait` for tables that nobody has announced yet, UnavailableError for those.
    """
    with ExitStack() as opened:
        log = opened.enter_context(closing(open_topic_log(spec)))
        registry = opened.enter_context(closing(open_registry(spec)))
        record = read_join_record(spec, log, name)
        try:
            job = plan_of_join(spec, name, log, registry)
            if record is None:
                _require_next_steps(spec, name, log, registry)
        except UnknownStreamError as error:
            if may_wait:
                raise UnavailableError(error.message, error.hint) from error
            raise
        job, partitions = _with_topics(spec, log, job, record)
        next_record, is_new = _next_record(spec, job, epoch, record)
        if next_record.batch == NO_BATCH and not _offsets(checkpoint_of(spec, name, next_record.generation)):
            _require_whole(log, job, partitions)
        target = registry.register(name, job.plan.output)
        publisher = open_publisher(spec, name, epoch, log=log)
        failed = opened.enter_context(ExitStack())
        failed.callback(publisher.close)
        letters = letters_topic(spec.pipeline, name)
        publisher.create_topics([target.topic, schema_changes_topic(spec), letters])
        shape = log.shapes([target.topic])[target.topic]
        made = JoinTarget(name, job.plan, target, shape[1], schema_changes_topic(spec), letters)
        checkpoint = checkpoint_of(spec, name, next_record.generation)
        result = OpenedJoin(job, JoinPublisher(publisher, made, next_record, is_new=is_new), checkpoint)
        failed.pop_all()
        return result


def estimate_of_join(log: TopicReader, registry: Registry, job: JoinJob) -> Sequence[InputEstimate]:
    """How large its state will be, input by input. Raises what `estimate_state` raises."""
    shapes = log.shapes([stream.topic for stream in job.streams])
    places = [(topic, number) for topic, (_, count) in shapes.items() for number in range(count)]
    return estimate_state(job, log.scan, log.begins(places), log.ends(places), registry.value_schema)


def forgetful_inputs(log: TopicReader, job: JoinJob) -> Sequence[str]:
    """The topics of a join from which it could not be made again for ever. Raises UnavailableError."""
    return forgetful_topics(log.admin, {stream.topic for stream in job.streams})


def checkpoint_of(spec: PipelineSpec, name: str, generation: int) -> Path:
    """Where a state of a join is kept. Unlike other links' checkpoints it is needed."""
    return spec.home / "joins" / name / str(generation)


def read_join_record(spec: PipelineSpec, log: TopicReader, name: str) -> JoinRecord | None:
    """Where a join stands, None before its first record."""
    record = committed_position(spec, log, name)
    return None if record is None else JoinRecord.from_mapping(record)


def _next_record(spec: PipelineSpec, job: JoinJob, epoch: int, record: JoinRecord | None) -> tuple[JoinRecord, bool]:
    """The record to go on from, and whether it is new: the first one, or that of a state in the place of a lost one."""
    ids = {stream.topic: stream.topic_id for stream in job.streams}
    schema_ids = tuple(stream.schema_id for stream in job.streams)
    fresh = JoinRecord(epoch, 1, NO_BATCH, job.plan.digest, schema_ids, ids=ids)
    if record is None:
        return fresh, True
    if record.digest != job.plan.digest:
        raise _changed(job.name)
    if record.batch == NO_BATCH or record.batch in _offsets(checkpoint_of(spec, job.name, record.generation)):
        return replace(record, epoch=epoch), False
    # The state is lost, or older than the output: it is made again from the topics.
    generation = record.generation + 1
    return replace(fresh, generation=generation), True


def _offsets(checkpoint: Path) -> set[int]:
    """The micro-batches that Spark has written down in a checkpoint, the newest ones."""
    folder = checkpoint / "offsets"
    return {int(file.name) for file in folder.iterdir() if file.name.isdigit()} if folder.is_dir() else set()


def forget_older_states(spec: PipelineSpec, name: str, generation: int) -> None:
    """Delete the states that were there before this one."""
    folder = spec.home / "joins" / name
    for each in folder.iterdir() if folder.is_dir() else ():
        if each.name.isdigit() and int(each.name) < generation:
            shutil.rmtree(each, ignore_errors=True)


def _announced(spec: PipelineSpec, log: TopicReader) -> list[SchemaChange]:
    topic = schema_changes_topic(spec)
    end = log.ends([(topic, 0)]).get((topic, 0), 0)
    return [read_schema_change(topic, *each) for messages in log.read(topic, 0, 0, end) for each in messages]


def _with_topics(
    spec: PipelineSpec, log: TopicReader, job: JoinJob, record: JoinRecord | None
) -> tuple[JoinJob, Sequence[tuple[str, int]]]:
    """Add what the brokers know of the inputs' topics, and return their partitions, too."""
    shapes = log.shapes([stream.topic for stream in job.streams])
    topic = failovers_topic(spec)
    end = log.ends([(topic, 0)]).get((topic, 0), 0)
    timelines = [TimelineBegan.from_json(value) for messages in log.read(topic, 0, 0, end) for _, value in messages]
    announced = _announced(spec, log)
    streams = []
    for stream in job.streams:
        if stream.topic not in shapes:
            message = f"the topic {stream.topic}, which the join {job.name} reads, is not there"
            raise UsageError(message, "see what became of it; a topic that is gone cannot be joined")
        topic_id, count = shapes[stream.topic]
        if record is not None:
            require_id(stream.topic, record.ids[stream.topic], topic_id)
        own = [timeline for timeline in timelines if timeline.source == stream.source]
        first = min(timeline_of(told.order) for told in announced if told.topic == stream.topic)
        starts = tuple(timeline_starts(own, stream.topic, partition, first) for partition in range(count))
        streams.append(replace(stream, topic_id=topic_id, timelines=starts))
    partitions = [(name, number) for name, (_, count) in shapes.items() for number in range(count)]
    return replace(job, streams=tuple(streams)), partitions


def _require_whole(log: TopicReader, job: JoinJob, partitions: Sequence[tuple[str, int]]) -> None:
    """Raise UsageError unless every message of the inputs is there: without the first ones rows are missing."""
    begins: Mapping[tuple[str, int], int] = log.begins(partitions)
    for (topic, partition), offset in begins.items():
        if offset:
            message = f"the join {job.name} needs all of {topic}, and its messages before {partition}/{offset} are gone"
            hint = f"join the table in a new pipeline, and set retention.ms=-1 and retention.bytes=-1 on {topic}"
            raise UsageError(message, hint)

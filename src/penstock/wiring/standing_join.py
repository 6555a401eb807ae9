"""A join as it was before its file changed: what it was made of is kept beside its state, so that it can go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.adapters.kafka.topics import letters_topic
from penstock.core.avro.schemas import table_schema
from penstock.core.errors import UsageError
from penstock.core.joins.upgrade import REBUILD
from penstock.links.joins.columns import widened
from penstock.links.joins.publish import JoinTarget
from penstock.links.joins.record import NO_BATCH
from penstock.links.joins.resolve import with_described
from penstock.ports.registry import RegisteredTable
from penstock.wiring.join_states import checkpoint_of, has_state, kept_job
from penstock.wiring.joins import with_topics
from penstock.wiring.open import schema_changes_topic

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.adapters.kafka.reader import TopicReader
    from penstock.config.specs import PipelineSpec
    from penstock.core.schema_changes import SchemaChange
    from penstock.core.tables import TableSchema
    from penstock.links.joins.record import JoinRecord
    from penstock.links.joins.spec import JoinJob
    from penstock.ports.registry import Registry
    from penstock.wiring.joins import ReadJoin


@dataclass(frozen=True, slots=True)
class AsItWas:
    """A join on the state that it has, in `checkpoint`, where its newest `record` says, and what it publishes."""

    job: JoinJob
    checkpoint: Path
    record: JoinRecord
    target: JoinTarget


def plan_as_it_was(spec: PipelineSpec, name: str, log: TopicReader, registry: Registry, read: ReadJoin) -> AsItWas:
    """How a join goes on as its newest record says, whatever its file says by now.

    Raises UsageError, or what `with_topics` does, where it cannot.
    """
    record = read.record
    told = [each for each in read.announced if each.source == name]
    if record is None or not told or record.batch == NO_BATCH:
        raise _cannot(name, "none of its rows was published")
    checkpoint = checkpoint_of(spec, name, record.generation)
    if not has_state(spec, name, record):
        raise _cannot(name, "its state is lost, or older than its output")
    job = kept_job(checkpoint, record)
    if job is None or job.plan.digest != record.digest:
        raise _cannot(name, "another release has made its state")
    if _columns(table_schema(registry.value_schema(told[-1].value_schema_id))) != _columns(job.plan.output):
        raise _cannot(name, "its output has other columns by now")
    job, _ = with_topics(spec, log, with_described(job, read.announced), read)
    if widened(job, registry.value_schema).plan != job.plan:
        # Readers were told of narrower columns, and are told of others when the new state is there.
        raise _cannot(name, "a column of its inputs is wider by now")
    return AsItWas(job, checkpoint, record, _target(spec, job, told[-1]))


def _target(spec: PipelineSpec, job: JoinJob, told: SchemaChange) -> JoinTarget:
    """What it has published so far: as readers were told, and not what the registry would make of it now."""
    output = job.plan.output
    registered = RegisteredTable(output, told.topic, told.key_schema_id, told.value_schema_id, told.follows)
    letters = letters_topic(spec.pipeline, job.name)
    return JoinTarget(job.name, job.plan, registered, told.partitions, schema_changes_topic(spec), letters)


def _columns(table: TableSchema) -> list[tuple[str, str, bool]]:
    return [(column.name, repr(column.type), column.nullable) for column in table.columns]


def _cannot(name: str, reason: str) -> UsageError:
    message = f"the join {name} cannot go on as it was: {reason}"
    return UsageError(message, REBUILD)

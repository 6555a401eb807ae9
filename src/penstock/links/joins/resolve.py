"""Which streams a join's file means: by what was announced in the pipeline, and by the registry."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.core.avro.schemas import table_schema
from penstock.core.errors import START_ANEW, UnknownStreamError, UsageError
from penstock.core.joins.described import described
from penstock.core.joins.inputs import JoinInput, JoinOutput
from penstock.core.joins.plan import plan_join
from penstock.core.tables import TableId
from penstock.links.joins.spec import JoinJob, JoinStream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.config.joins import JoinInputSpec, JoinSpec
    from penstock.core.schema_changes import SchemaChange


def resolve_join(
    join: JoinSpec,
    announced: Sequence[SchemaChange],
    value_schema: Callable[[int], str],
    schemas_topic: str,
    pinned: Mapping[str, int] | None = None,
) -> JoinJob:
    """Find the streams of a join and plan it; where it has a state, topics that it knows have the schemas `pinned`.

    Raises UnknownStreamError for streams that nobody has announced, UsageError for a
    join that cannot be made, and what `value_schema` raises.
    """
    streams = [_find(join, each, announced) for each in join.inputs]
    streams = [replace(each, schema_id=(pinned or {}).get(each.topic, each.schema_id)) for each in streams]
    inputs = [
        JoinInput(
            name=stream.topic,
            table=table_schema(value_schema(stream.schema_id)),
            join_keys=given.join_keys,
            exclude=given.exclude_fields,
            aliases=tuple((each.old, each.new) for each in given.aliases),
            is_optional=given.type == "left",
            where=given.where,
            is_step=given.is_step,
        )
        for given, stream in zip(join.inputs, streams, strict=True)
    ]
    output = JoinOutput(TableId(join.output.namespace, join.output.source), join.output.pkey, join.output.doc)
    return with_described(JoinJob(join.name, plan_join(inputs, output), tuple(streams), schemas_topic), announced)


def with_described(job: JoinJob, announced: Sequence[SchemaChange]) -> JoinJob:
    """Add what was announced of the columns of each input, so that messages of all their schemas can be read."""
    streams = []
    for stream in job.streams:
        own = (described(each) for each in announced if (each.source, each.table) == (stream.source, stream.table))
        streams.append(replace(stream, described=tuple(each for each in own if each is not None)))
    return replace(job, streams=tuple(streams))


def _find(join: JoinSpec, given: JoinInputSpec, announced: Sequence[SchemaChange]) -> JoinStream:
    """The stream that an input names: by topic, by its table's name, or by a schema that the table has or had."""
    found = {
        (each.source, each.table)
        for each in announced
        if (given.schema_id == each.value_schema_id if given.topic is None else given.topic in _names(each))
        and each.source != join.name
    }
    if not found:
        message = f"the join {join.name} reads {given.named}, and this pipeline carries no such table"
        topics = sorted({each.topic for each in announced if each.source != join.name})
        raise UnknownStreamError(
            message, f"its topics are: {', '.join(topics) or 'none yet; start it with penstock run'}"
        )
    if len(found) > 1:
        message = f"{given.named} of the join {join.name} may be: {', '.join(f'{s}.{t}' for s, t in sorted(found))}"
        raise UsageError(message, "name the topic")
    ((source, table),) = found
    told = [each for each in announced if (each.source, each.table) == (source, table)]
    topics = list(dict.fromkeys(each.topic for each in told))
    if len(topics) > 1:
        message = f"a column of {table} changed to a type that is not compatible, so its newer rows are in {topics[-1]}"
        hint = f"a join needs all rows of a table in one topic: take {table} out of the join, or {START_ANEW}"
        raise UsageError(message, hint)
    newest = told[-1]
    return JoinStream(source, table, newest.topic, newest.value_schema_id)


def _names(schema_change: SchemaChange) -> tuple[str, ...]:
    return schema_change.topic, f"{schema_change.source}.{schema_change.table}", str(schema_change.table)

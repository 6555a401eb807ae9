"""A join as JSON, kept beside its state: a file that was changed does not say any more what the state is of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.core.avro.schemas import table_schema, value_schema
from penstock.core.joins.plan import JoinPlan, PlannedInput
from penstock.core.tables import TableId, TableSchema
from penstock.links.joins.spec import JoinJob, JoinStream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.core.tables import Column


def job_to_mapping(job: JoinJob) -> dict[str, object]:
    """The join as JSON values."""
    plan = job.plan
    return {
        "name": job.name,
        "schemas_topic": job.schemas_topic,
        "streams": [
            [each.source, str(each.table), each.topic, each.schema_id, each.topic_id, each.timelines]
            for each in job.streams
        ],
        "inputs": [_input_to_mapping(each) for each in plan.inputs],
        "output": value_schema(plan.output),
        "origins": plan.origins,
        "stand_ins": plan.stand_ins,
    }


def job_from_mapping(said: Mapping[str, Any]) -> JoinJob:
    """Read it back, but for what only `penstock joinery check` tells; KeyError, TypeError or ValueError for others."""
    plan = JoinPlan(
        inputs=tuple(_input_from_mapping(each) for each in said["inputs"]),
        output=table_schema(said["output"]),
        origins=tuple((int(index), int(number)) for index, number in said["origins"]),
        is_declared_key=True,
        kept=(),
        stand_ins=tuple(said["stand_ins"]),
    )
    streams = tuple(
        JoinStream(source, TableId.parse(table), topic, schema_id, topic_id, _timelines(timelines))
        for source, table, topic, schema_id, topic_id, timelines in said["streams"]
    )
    return JoinJob(said["name"], plan, streams, said["schemas_topic"])


def _input_to_mapping(given: PlannedInput) -> dict[str, object]:
    return {
        "name": given.name,
        "join_keys": given.join_keys,
        "row_key": given.row_key,
        "stored": value_schema(given.stored),
        "remembered": given.remembered,
        "is_optional": given.is_optional,
        "keeps_nulls": given.keeps_nulls,
        "where": given.where,
        "tested": value_schema(_table("tested", given.tested)),
        "needed": value_schema(_table("needed", given.needed)) if given.is_partial else None,
        "padded": given.padded,
    }


def _input_from_mapping(said: Mapping[str, Any]) -> PlannedInput:
    return PlannedInput(
        name=said["name"],
        join_keys=tuple(said["join_keys"]),
        row_key=tuple(said["row_key"]),
        stored=table_schema(said["stored"]),
        remembered=said["remembered"],
        is_optional=said["is_optional"],
        keeps_nulls=said["keeps_nulls"],
        where=said["where"],
        tested=table_schema(said["tested"]).columns,
        # Releases that joined whole rows alone did not say it.
        needed=table_schema(said["needed"]).columns if said.get("needed") else (),
        padded=tuple(said.get("padded", ())),
    )


def _timelines(said: list[list[list[int]]]) -> tuple[tuple[tuple[int, int], ...], ...]:
    return tuple(tuple((start, timeline) for start, timeline in partition) for partition in said)


def _table(name: str, columns: tuple[Column, ...]) -> TableSchema:
    return TableSchema(TableId("state", name), columns, ())

"""A join's output held against SQL at each of its position records, of all states that it was made from."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

from penstock.adapters.duckdb.database import DuckdbLimits
from penstock.adapters.duckdb.scratch import open_scratch
from penstock.links.joins.kept_job import job_from_mapping
from penstock.links.joins.record import NO_BATCH, JoinRecord
from penstock.links.joins.resolve import with_described
from penstock.links.joins.verify import JoinTopics, verify_join
from penstock.wiring.joins import read_join, standing_join
from penstock.wiring.open import open_registry, open_topic_log

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.adapters.kafka.reader import TopicReader
    from penstock.config.specs import PipelineSpec
    from penstock.links.joins.spec import JoinJob

_LIMITS = DuckdbLimits(memory_mb=1024, threads=1)


def job_of(spec: PipelineSpec, name: str, generation: int) -> JoinJob:
    """What a state is of: to be asked before it goes."""
    file = spec.home / "joins" / name / str(generation) / "penstock-join.json"
    return job_from_mapping(json.loads(file.read_text()))


def assert_joined_at_every_record(spec: PipelineSpec, name: str, before: Mapping[int, JoinJob]) -> Sequence[JoinRecord]:
    """At every micro-batch the output, folded, is SQL's join of its inputs as far as the record says; return records.

    `before` are the jobs of the generations that are gone.
    """
    with closing(open_topic_log(spec)) as log, closing(open_registry(spec)) as registry:
        standing = standing_join(spec, name, log, registry)
        announced = read_join(spec, log, name).announced
        gone = {generation: with_described(job, announced) for generation, job in before.items()}
        jobs = {**gone, standing.record.generation: standing.job}
        own = [(topic, number) for topic in standing.outputs for number in range(log.shapes([topic])[topic][1])]
        begins, ends = log.begins(own), log.ends(own)
        records = _records(spec, name, log)
        for record in records:
            inputs = list(record.places)
            topics = JoinTopics(
                scan=log.scan,
                begins=log.begins(inputs),
                output={place: (begins[place], ends[place]) for place in own},
                value_schema=registry.value_schema,
                renames=standing.renames,
            )
            with open_scratch(spec.home, _LIMITS) as scratch:
                found = verify_join(jobs[record.generation], record, topics, scratch, None, 0)
            assert not found.differing, (record.generation, record.batch, found.shown)
    return records


def _records(spec: PipelineSpec, name: str, log: TopicReader) -> list[JoinRecord]:
    """The newest record of each micro-batch."""
    topic = f"penstock.{spec.pipeline}.position.{name}"
    end = log.ends([(topic, 0)])[topic, 0]
    said = [json.loads(value) for part in log.read(topic, 0, 0, end) for _, value in part]
    records = [JoinRecord.from_mapping(each) for each in said]
    return list({(each.generation, each.batch): each for each in records if each.batch != NO_BATCH}.values())

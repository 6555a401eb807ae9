"""What a state is of can be read again when the file says something else."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.unit.joins.joined_streams import random_inputs, random_plan

from penstock.core.errors import UsageError
from penstock.core.joins.upgrade import made_join
from penstock.core.tables import TableId
from penstock.links.joins.kept_job import job_from_mapping, job_to_mapping
from penstock.links.joins.record import NO_BATCH, JoinRecord
from penstock.links.joins.spec import JoinJob, JoinStream
from penstock.wiring.join_states import keep_job, kept_job

if TYPE_CHECKING:
    from pathlib import Path


def job_of(seed: int) -> JoinJob:
    rng = Random(seed)  # noqa: S311 - what it makes is no secret
    while True:
        try:
            plan = random_plan(rng, random_inputs(rng))
            break
        except UsageError:
            continue  # names that collide, or everything is excluded
    timelines = (((0, 0), (7, 1)), ((0, 0),))
    streams = tuple(
        JoinStream("db", TableId("shop", each.name), each.name, index, "id", timelines)
        for index, each in enumerate(plan.inputs)
    )
    return JoinJob("joined", plan, streams, "schemas")


@pytest.mark.parametrize("seed", range(20))
def test_a_join_that_was_written_down_is_read_as_it_was(seed: int) -> None:
    job = job_of(seed)

    read = job_from_mapping(json.loads(json.dumps(job_to_mapping(job))))

    assert replace(read, plan=replace(read.plan, is_declared_key=job.plan.is_declared_key, kept=job.plan.kept)) == job


def test_a_join_that_is_not_the_one_of_the_record_is_not_known(tmp_path: Path) -> None:
    job, other = job_of(1), job_of(2)
    keep_job(tmp_path / "1", job)
    record = JoinRecord(1, 1, NO_BATCH, job.plan.digest, (), made=made_join(job.plan))

    found = kept_job(tmp_path / "1", record)

    assert found is not None
    assert found.streams == job.streams
    assert kept_job(tmp_path / "1", replace(record, made=made_join(other.plan))) is None
    assert kept_job(tmp_path / "2", record) is None
    # It is the one of the record, and a column of its condition was narrower when its state was begun.
    assert record.made is not None
    assert kept_job(tmp_path / "1", replace(record, made=replace(record.made, basis="as it was"))) == found

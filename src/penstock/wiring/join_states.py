"""The states of joins below a pipeline's home: where they are, whether they are there, and what they are of."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from penstock.core.joins.upgrade import made_join
from penstock.links.joins.kept_job import job_from_mapping, job_to_mapping
from penstock.links.joins.record import NO_BATCH

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.config.specs import PipelineSpec
    from penstock.links.joins.record import JoinRecord
    from penstock.links.joins.spec import JoinJob

_JOB_FILE = "penstock-join.json"


def states_of(spec: PipelineSpec, name: str) -> Path:
    """The folder that has all states of a join."""
    return spec.home / "joins" / name


def checkpoint_of(spec: PipelineSpec, name: str, generation: int) -> Path:
    """Where a state of a join is kept. Unlike other links' checkpoints it is needed."""
    return states_of(spec, name) / str(generation)


def has_state(spec: PipelineSpec, name: str, record: JoinRecord) -> bool:
    """Whether the state that a record is of is there, or was not begun."""
    checkpoint = checkpoint_of(spec, name, record.generation)
    if record.batch == NO_BATCH:
        return not committed_batches(checkpoint)
    return record.batch in planned_batches(checkpoint)


def planned_batches(checkpoint: Path) -> set[int]:
    """The micro-batches that Spark has written down in a checkpoint, the newest ones."""
    return _numbers(checkpoint / "offsets")


def committed_batches(checkpoint: Path) -> set[int]:
    """Those of them that are done."""
    return _numbers(checkpoint / "commits")


def _numbers(folder: Path) -> set[int]:
    return {int(file.name) for file in folder.iterdir() if file.name.isdigit()} if folder.is_dir() else set()


def forget_older_states(spec: PipelineSpec, name: str, generation: int) -> None:
    """Delete the states that were there before this one."""
    folder = states_of(spec, name)
    for each in folder.iterdir() if folder.is_dir() else ():
        if each.name.isdigit() and int(each.name) < generation:
            shutil.rmtree(each, ignore_errors=True)


def remove_states(spec: PipelineSpec, name: str) -> None:
    """Remove all states of a join and of the steps that read it, so that the next run makes them again.

    Whoever calls holds the leader's lock.
    """
    for each in (name, *later_steps(spec, name)):
        shutil.rmtree(states_of(spec, each), ignore_errors=True)


def later_steps(spec: PipelineSpec, name: str) -> Iterator[str]:
    """The joins of the same file that read what `name` makes, one by way of the other."""
    for join in spec.joins:
        if join.step_before == name:
            yield join.name
            yield from later_steps(spec, join.name)


def keep_job(checkpoint: Path, job: JoinJob) -> None:
    """Write beside a state what it is of, unless that is there."""
    file, text = checkpoint / _JOB_FILE, json.dumps(job_to_mapping(job))
    if file.is_file() and file.read_text(encoding="utf-8") == text:
        return
    checkpoint.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.replace(file)


def kept_job(checkpoint: Path, record: JoinRecord) -> JoinJob | None:
    """The join that a state is of; None where that is not known, as with what older releases have left."""
    try:
        job = job_from_mapping(json.loads((checkpoint / _JOB_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return job if record.made == made_join(job.plan) else None

"""The states of joins below a pipeline's home: where they are, whether they are there, and what they are of."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.core.errors import PositionError, UnavailableError
from penstock.core.joins.upgrade import made_join
from penstock.links.joins.kept_job import job_from_mapping, job_to_mapping
from penstock.links.joins.record import NO_BATCH
from penstock.wiring.whole_files import flush_files, write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
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


def newest_generation(spec: PipelineSpec, name: str) -> int:
    """The newest generation of which there is a state, or what is left of one; 0 where there is none."""
    return max(_numbers(states_of(spec, name)), default=0)


def has_state(spec: PipelineSpec, name: str, record: JoinRecord) -> bool:
    """Whether the state that a record is of is there, or was not begun.

    A state of the same generation may be what is left of a rebuild that was taken back, or
    of another instance: its micro-batches end elsewhere. Raises as `read_places`.
    """
    checkpoint = checkpoint_of(spec, name, record.generation)
    if record.batch == NO_BATCH:
        return not committed_batches(checkpoint)
    return record.batch in planned_batches(checkpoint) and read_places(checkpoint, record.batch) == record.places


def is_ahead(spec: PipelineSpec, name: str, record: JoinRecord) -> bool:
    """Whether Spark went on behind the micro-batch of a record, as where Kafka was restored, and `home` was not.

    What those micro-batches made was published nowhere that is there now. To be asked while nobody runs the join:
    whoever does goes on behind what was read. Spark begins one only when the one before it is published, and done.
    """
    checkpoint = checkpoint_of(spec, name, record.generation)
    done, begun = committed_batches(checkpoint), planned_batches(checkpoint)
    return max(done, default=NO_BATCH) > record.batch or max(begun, default=NO_BATCH) > record.batch + 1


def flush_state(checkpoint: Path) -> None:
    """Have a state on the disk, before a record names its micro-batch: a power cut takes it no further back.

    Raises UnavailableError if that cannot be.
    """
    try:
        flush_files(checkpoint)
    except OSError as error:
        message = f"{checkpoint} cannot be brought to its disk: {error.strerror or error}"
        raise UnavailableError(
            message, "see that the disk is there and has room; the join tries again by itself"
        ) from error


def planned_batches(checkpoint: Path) -> set[int]:
    """The micro-batches that Spark has written down in a checkpoint, the newest ones."""
    return _written(checkpoint / "offsets")


def committed_batches(checkpoint: Path) -> set[int]:
    """Those of them that are done."""
    return _written(checkpoint / "commits")


def read_places(checkpoint: Path, batch: int) -> Mapping[tuple[str, int], int]:
    """Where a micro-batch ends in each partition, as Spark has written it down before it began it.

    Source: Spark's OffsetSeqLog: a version, a line of metadata, and a line per source.
    """
    lines = (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
    try:
        ends = json.loads(lines[-1])
        return {(topic, int(partition)): int(end) for topic, each in ends.items() for partition, end in each.items()}
    except (ValueError, AttributeError, IndexError) as error:
        message = f"{checkpoint}/offsets/{batch} is not as Spark writes it: {error}"
        raise PositionError(message, f"remove {checkpoint}: the join is made again from its topics") from error


def newest_places(checkpoint: Path) -> Mapping[tuple[str, int], int]:
    """Where the newest micro-batch that is done ends; nothing before the first one. Raises as `read_places`."""
    batches = committed_batches(checkpoint)
    return read_places(checkpoint, max(batches)) if batches else {}


def _written(folder: Path) -> set[int]:
    """The numbered files of a folder, but for empty ones: a power cut has left those."""
    return {number for number in _numbers(folder) if _size(folder / str(number))}


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        # Spark throws away what is old.
        return 0


def _numbers(folder: Path) -> set[int]:
    return {int(file.name) for file in folder.iterdir() if file.name.isdigit()} if folder.is_dir() else set()


def forget_other_states(spec: PipelineSpec, name: str, generation: int) -> None:
    """Delete the states that were there before this one, what was begun and taken back, and what is left of either."""
    folder = states_of(spec, name)
    differences = folder / "differences"
    states = [each for each in folder.iterdir() if each.name.isdigit()] if folder.is_dir() else []
    for each in [*states, *(differences.iterdir() if differences.is_dir() else ())]:
        if each.name != str(generation):
            shutil.rmtree(each, ignore_errors=True)


def empty_checkpoint(checkpoint: Path) -> None:
    """Have a state begin with nothing, whatever stands in its folder. Raises UnavailableError if that cannot go."""
    with _explained(checkpoint):
        shutil.rmtree(checkpoint)


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        return
    except OSError as error:
        message = f"{folder}, which is no state of the join any more, cannot be removed: {error.strerror or error}"
        raise UnavailableError(message, "let the user who runs Penstock write there (`ls -l`), or remove it") from error


def remove_states(spec: PipelineSpec, name: str) -> None:
    """Remove all states of a join and of the steps that read it, so that the next run makes them again.

    Whoever calls holds the leader's lock. Raises UnavailableError for what cannot go: the states are
    gone then that could be moved aside, which is one step, and nothing goes on with a part of one.
    """
    # The last one first: no step is made again without those that read it.
    for each in reversed([name, *later_steps(spec, name)]):
        states = states_of(spec, each)
        aside = states.with_name(f".{each}.removed")
        with _explained(aside):
            shutil.rmtree(aside)
        with _explained(states):
            states.rename(aside)
        with _explained(aside):
            shutil.rmtree(aside)


def later_steps(spec: PipelineSpec, name: str) -> Iterator[str]:
    """The joins of the same file that read what `name` makes, one by way of the other."""
    for join in spec.joins:
        if join.step_before == name:
            yield join.name
            yield from later_steps(spec, join.name)


def earlier_steps(spec: PipelineSpec, name: str) -> Sequence[str]:
    """The joins of the same file whose rows come into `name`, one by way of the other; the first one first."""
    before = spec.join(name).step_before
    return [] if before is None else [*earlier_steps(spec, before), before]


def keep_job(checkpoint: Path, job: JoinJob) -> None:
    """Write beside a state what it is of, unless that is there."""
    file, text = checkpoint / _JOB_FILE, json.dumps(job_to_mapping(job))
    if file.is_file() and file.read_text(encoding="utf-8") == text:
        return
    write_whole(file, text)


def kept_job(checkpoint: Path, record: JoinRecord) -> JoinJob | None:
    """The join that a state is of; None where that is not known, as with what older releases have left."""
    try:
        job = job_from_mapping(json.loads((checkpoint / _JOB_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    made = made_join(job.plan)
    if record.made is not None and record.digest == job.plan.digest:
        # The state was begun before a column that a condition asks for became wider.
        made = replace(made, basis=record.made.basis)
    return job if record.made == made else None

"""The mark that asks for a join to be made again: `rebuild.json` beside its states, as long as that is not done."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.core.errors import UsageError
from penstock.wiring.join_states import later_steps, states_of
from penstock.wiring.whole_files import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from penstock.config.specs import PipelineSpec
    from penstock.core.errors import PenstockError


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a join is not made again, and goes on as it was. Another instance, which has another `epoch`, tries again."""

    epoch: int
    reason: str
    hint: str


@dataclass(frozen=True, slots=True)
class StandingStill:
    """Why the join as it was does not go on meanwhile. Another instance, which has another `epoch`, tries again."""

    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class RebuildMark:
    """What a rebuild was begun with; nothing yet where `digest` is "".

    The new state takes the place of the generation `replaces`, and is of a plan with
    `digest` and the schemas `schema_ids` of its topics. `ends` are those of inputs that
    the join did not have before, as they were then. `step_ends` are those of inputs of steps
    whose rows the join did not read before, as they were when it was first to be made again.
    """

    replaces: int = 0
    digest: str = ""
    schema_ids: Mapping[str, int] = field(default_factory=dict)
    ends: Mapping[tuple[str, int], int] = field(default_factory=dict)
    still: StandingStill | None = None
    step_ends: Mapping[tuple[str, int], int] = field(default_factory=dict)
    refused: Refused | None = None


def is_marked(spec: PipelineSpec, name: str) -> bool:
    """Whether a join is to be made again."""
    return _file(spec, name).is_file()


def read_mark(spec: PipelineSpec, name: str) -> RebuildMark:
    """What the mark says; nothing where there is none, or it cannot be read: then the new state is begun anew."""
    try:
        said = json.loads(_file(spec, name).read_text(encoding="utf-8"))
        still, refused = said.get("still"), said.get("refused")
        return RebuildMark(
            int(said["replaces"]),
            str(said["digest"]),
            {str(topic): int(schema_id) for topic, schema_id in said["schema_ids"].items()},
            _read_places(said.get("ends", [])),
            None if still is None else StandingStill(int(still["epoch"]), str(still["reason"])),
            _read_places(said.get("step_ends", [])),
            None if refused is None else Refused(int(refused[0]), str(refused[1]), str(refused[2])),
        )
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return RebuildMark()


def write_mark(spec: PipelineSpec, name: str, mark: RebuildMark) -> None:
    """Ask for a join to be made again, or note what that was begun with."""
    still = None if mark.still is None else {"epoch": mark.still.epoch, "reason": mark.still.reason}
    said = {
        "replaces": mark.replaces,
        "digest": mark.digest,
        "schema_ids": dict(mark.schema_ids),
        "ends": _written_places(mark.ends),
        "still": still,
        "step_ends": _written_places(mark.step_ends),
        "refused": None if mark.refused is None else [mark.refused.epoch, mark.refused.reason, mark.refused.hint],
    }
    write_whole(_file(spec, name), json.dumps(said))


def note_standing_still(spec: PipelineSpec, name: str, epoch: int, reason: str) -> None:
    """Note for `penstock status` why a join publishes nothing while it is made again."""
    write_mark(spec, name, replace(read_mark(spec, name), still=StandingStill(epoch, reason)))


def note_refused(spec: PipelineSpec, name: str, epoch: int, error: PenstockError) -> None:
    """Note for `penstock status`, and for this instance, that a join cannot be made again, and why."""
    write_mark(spec, name, replace(read_mark(spec, name), refused=Refused(epoch, error.message, error.hint)))


def ask_for_rebuild(spec: PipelineSpec, name: str) -> None:
    """Have the next run make a join again, and the steps that read it. Whoever calls holds the leader's lock."""
    # The last one first: if this ends halfway, no step is made again without those that read it.
    for each in reversed([name, *later_steps(spec, name)]):
        write_mark(spec, each, RebuildMark())


def take_back_rebuild(spec: PipelineSpec, name: str) -> None:
    """Have the next run go on with the states that there were. Whoever calls holds the leader's lock.

    Raises UsageError for a step that reads another one which is made again.
    """
    before = spec.join(name).step_before
    if before is not None and is_marked(spec, before):
        message = f"{name} reads {before}, which is made again, and its state is of the rows of before"
        raise UsageError(message, f"take that back: penstock joinery rebuild FILE {before} --cancel")
    for each in (name, *later_steps(spec, name)):
        end_rebuild(spec, each)


def end_rebuild(spec: PipelineSpec, name: str) -> None:
    """Note that a join has gone over to its new state."""
    _file(spec, name).unlink(missing_ok=True)


def _file(spec: PipelineSpec, name: str) -> Path:
    return states_of(spec, name) / "rebuild.json"


def _read_places(said: Iterable[tuple[object, object, object]]) -> Mapping[tuple[str, int], int]:
    return {(str(topic), int(str(partition))): int(str(end)) for topic, partition, end in said}


def _written_places(places: Mapping[tuple[str, int], int]) -> list[list[str | int]]:
    return [[topic, partition, end] for (topic, partition), end in sorted(places.items())]

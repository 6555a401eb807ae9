"""The dead letters of a pipeline's spolts and joins: read, and those of spolts replayed."""

from __future__ import annotations

from collections import deque
from contextlib import closing
from typing import TYPE_CHECKING

from penstock.core.errors import UsageError
from penstock.links.spolts.load import load_code
from penstock.links.spolts.plan import SpoltPlanner
from penstock.links.spolts.record import ReplayRecord
from penstock.links.spolts.replay import LetterReplay, Replayed, read_letters
from penstock.links.spolts.spec import spolt_job
from penstock.wiring.open import (
    committed_position,
    open_publisher,
    open_subjects,
    open_topic_log,
    schema_changes_topic,
)
from penstock.wiring.spolts import dead_letters_topic

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from penstock.adapters.kafka.reader import TopicReader
    from penstock.config.specs import PipelineSpec
    from penstock.config.spolts import InputSpec
    from penstock.links.spolts.replay import FoundLetter


def find_letters(spec: PipelineSpec, spolt: str, last: int) -> Sequence[FoundLetter]:
    """The `last` dead letters of a spolt or a join, oldest first. Raises UsageError if there is none of that name."""
    is_join = spolt in {join.name for join in spec.joins}
    replay_link = None if is_join else spolt_job(spec, spolt).spolt.replay_link
    with closing(open_topic_log(spec)) as log:
        found = None if replay_link is None else committed_position(spec, log, replay_link)
        record = ReplayRecord() if found is None else ReplayRecord.from_mapping(found)
        return deque(read_letters(log, log, dead_letters_topic(spec, spolt), record), maxlen=last)


def require_replayable(spec: PipelineSpec, spolt: str) -> None:
    """Raise UsageError for what is no spolt, and for one with expressions: a replay has no Spark to evaluate them."""
    if spolt_job(spec, spolt).spolt.has_expressions:
        message = f"spolt {spolt} has expressions, for which its dead letters would need Spark: they cannot be replayed"
        hint = (
            "mend what the letters say, restart the pipeline, and have their rows read again: "
            f"penstock snapshot FILE TABLE --keys KEYS (penstock deadletters show FILE {spolt} --json has the messages)"
        )
        raise UsageError(message, hint)


def replay_letters(spec: PipelineSpec, spolt: str, offsets: Collection[int], *, again: bool) -> Replayed:
    """Replay the letters at `offsets`, or all; those that were replayed only if they are wanted `again`.

    Loads the user code as it is now. `require_replayable` comes before. Raises UsageError
    for an offset without a letter, and FencedError if another replay of the spolt takes over.
    """
    job = spolt_job(spec, spolt)
    code = load_code(job.spolt)
    with (
        closing(open_topic_log(spec)) as log,
        closing(open_subjects(spec)) as subjects,
        closing(LetterReplay(job, code, open_publisher(spec, job.spolt.replay_link, 0), subjects)) as replay,
    ):
        topic, before = dead_letters_topic(spec, spolt), replay.record
        if offsets:
            missing = sorted(set(offsets) - {each.offset for each in read_letters(log, log, topic, before)})
            if missing:
                message = f"spolt {spolt} has no dead letter at offset {missing[0]}"
                raise UsageError(message, f"penstock deadletters show FILE {spolt} lists them")
        entries = _entries(spec, spolt, log)
        letters = (each for each in read_letters(log, log, topic, before) if not offsets or each.offset in offsets)
        return replay.replay(((each, _entry(entries, each, spolt)) for each in letters), again=again)


def _entries(spec: PipelineSpec, spolt: str, log: TopicReader) -> dict[str, InputSpec]:
    planner = SpoltPlanner(spec.spolt(spolt), [each.name for each in spec.sources], schema_changes_topic(spec))
    return dict(planner.input_topics(log))


def _entry(entries: dict[str, InputSpec], found: FoundLetter, spolt: str) -> InputSpec:
    topic = found.letter.message.topic
    if topic not in entries:
        message = f"the dead letter at offset {found.offset} came by {topic}, which spolt {spolt} no longer reads"
        raise UsageError(message, "add the topic to `from`, or choose letters with --offset")
    return entries[topic]

"""Opens what spolts work with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.adapters.kafka.topics import letters_topic
from penstock.links.spolts.load import load_code
from penstock.links.spolts.plan import SpoltPlanner
from penstock.links.spolts.publish import SpoltPublisher
from penstock.links.spolts.record import SpoltRecord
from penstock.links.transforms import open_column_rules
from penstock.wiring.open import committed_position, open_publisher, open_topic_log, schema_changes_topic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.adapters.kafka.reader import TopicReader
    from penstock.config.specs import PipelineSpec
    from penstock.config.spolts import SpoltSpec
    from penstock.links.spolts.plan import InputRange


def require_spolts_load(spec: PipelineSpec) -> None:
    """Load every spolt's user code and the links' salts here, so that what is wrong is told before anything starts."""
    for link in spec.links:
        open_column_rules(link.columns)
    for spolt in spec.spolts:
        load_code(spolt)


def dead_letters_topic(spec: PipelineSpec, spolt: str) -> str:
    """Where a spolt puts what it could not process."""
    return letters_topic(spec.pipeline, spolt)


def open_spolt_publisher(spec: PipelineSpec, spolt: str, epoch: int) -> SpoltPublisher:
    """Take a spolt over, as wiring.open.open_publisher does, and make the topic of its dead letters."""
    publisher = open_publisher(spec, spolt, epoch)
    try:
        letters = dead_letters_topic(spec, spolt)
        publisher.create_topics([letters, *spec.spolt(spolt).topics])
        return SpoltPublisher(publisher, letters, epoch)
    except BaseException:
        publisher.close()
        raise


class SpoltPlanning:
    """Plans from a spolt's committed record and the ends of its topics."""

    def __init__(self, spec: PipelineSpec, spolt: SpoltSpec) -> None:
        """Connect to nothing yet."""
        self._spec = spec
        self._spolt = spolt
        self._log = open_topic_log(spec)
        self._planner = SpoltPlanner(spolt, [each.name for each in spec.sources], schema_changes_topic(spec))

    def plan(self) -> Sequence[InputRange]:
        """What is to be read next; nothing if nothing is. Raises as SpoltPlanner.plan."""
        return self._planner.plan(self._log, self._log, read_spolt_record(self._spec, self._log, self._spolt.name))


def read_spolt_record(spec: PipelineSpec, log: TopicReader, spolt: str) -> SpoltRecord:
    """Where a spolt stands: at the beginning, before its first record."""
    record = committed_position(spec, log, spolt)
    return SpoltRecord() if record is None else SpoltRecord.from_mapping(record)


def reads_foreign_topics(spec: PipelineSpec, spolt: SpoltSpec) -> bool:
    """Whether a spolt reads a topic that no source and no spolt of the pipeline writes."""
    sources = [each.name for each in spec.sources]
    written = {topic for each in spec.spolts for topic in each.topics}
    return any(each.tables(sources) is None and each.topic not in written for each in spolt.inputs)


def spolt_stages(spec: PipelineSpec) -> list[list[SpoltSpec]]:
    """The spolts in stages: each reads what sources and earlier stages write. The file has no circles."""
    stages: list[list[SpoltSpec]] = []
    waiting = list(spec.spolts)
    while waiting:
        unmade = {topic for spolt in waiting for topic in spolt.topics}
        stage = [spolt for spolt in waiting if unmade.isdisjoint(each.topic for each in spolt.inputs)]
        stages.append(stage)
        waiting = [spolt for spolt in waiting if spolt not in stage]
    return stages

"""The number of an instance of a pipeline: whoever has the highest has taken over."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from penstock.core.publication import CaptureRecord
from penstock.links.objects.record import ObjectsRecord
from penstock.links.spolts.record import SpoltRecord
from penstock.wiring.joins import read_join_record
from penstock.wiring.open import OBJECTS_LINK, committed_position, open_topic_log

if TYPE_CHECKING:
    from penstock.config.specs import PipelineSpec


def next_epoch(spec: PipelineSpec) -> int:
    """One more than the highest number of an instance that ever published for this pipeline."""
    with closing(open_topic_log(spec)) as log:
        epochs = [0]
        for source in spec.sources:
            record = committed_position(spec, log, source.name)
            epochs.extend([] if record is None else [CaptureRecord.from_mapping(record).epoch])
        record = committed_position(spec, log, OBJECTS_LINK)
        epochs.extend([] if record is None else [ObjectsRecord.from_mapping(record).epoch])
        for spolt in spec.spolts:
            record = committed_position(spec, log, spolt.name)
            epochs.extend([] if record is None else [SpoltRecord.from_mapping(record).epoch])
        for join in spec.joins:
            joined = read_join_record(spec, log, join.name)
            epochs.extend([] if joined is None else [joined.epoch])
    return max(epochs) + 1

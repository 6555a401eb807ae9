"""Joins in this process, without Spark: the state is made anew from the topics, as far as the join had come."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.core.errors import PenstockError
from penstock.core.joins.algebra import JoinState
from penstock.core.joins.completing import RowCompleter
from penstock.links.joins.decode import JoinDecoder, sort_out, to_join
from penstock.wiring.open import open_registry, open_topic_log

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from penstock.config.specs import PipelineSpec
    from penstock.core.joins.unreadable import Unreadable
    from penstock.jobs.link import JoinWork, RebuildWork
    from penstock.links.joins.spec import JoinJob
    from penstock.ports.messages import MessageLog

Places: TypeAlias = "Mapping[tuple[str, int], int]"

_BYTES_MAX = 1 << 30


def join_in_process(spec: PipelineSpec, work: JoinWork) -> None:
    """Join what the topics hold now, once through: one micro-batch, if anything is new."""
    try:
        _join(spec, work)
    except PenstockError as error:
        if not work.gives_up(error):
            raise


def _join(spec: PipelineSpec, work: JoinWork) -> None:
    with closing(open_topic_log(spec)) as log, closing(open_registry(spec)) as registry:
        job, decoder = work.job, JoinDecoder(work.job, registry.value_schema)
        shapes = log.shapes(job.topics)
        partitions = [(topic, number) for topic, (_, count) in shapes.items() for number in range(count)]
        begins, ends = log.begins(partitions), log.ends(partitions)
        known = {place: work.places.get(place, begin) for place, begin in begins.items()}
        completer, state = RowCompleter(job.plan), JoinState(len(job.streams), job.plan.optional)
        state.apply(_events(log, decoder, completer, (begins, known))[0])
        if any(ends[place] > known[place] for place in partitions):
            events, unreadable = _events(log, decoder, completer, (known, ends))
            differences = state.apply(events)
            _write_down(work.checkpoint, work.batch + 1, ends)
            work.take(work.batch + 1, dict(ends), [differences], unreadable)


def rebuild_in_process(spec: PipelineSpec, work: RebuildWork) -> None:
    """Join all that the topics hold now, and go over to it."""
    with closing(open_topic_log(spec)) as log, closing(open_registry(spec)) as registry:
        shapes = log.shapes(work.job.topics)
        partitions = [(topic, number) for topic, (_, count) in shapes.items() for number in range(count)]
        ends = dict(log.ends(partitions))
        old, before = work.standing, list[pa.Table]()
        if old is not None:
            decoder = JoinDecoder(old.job, registry.value_schema)
            events, _ = _events(log, decoder, RowCompleter(old.job.plan), (dict.fromkeys(old.places, 0), old.places))
            before = [_joined(old.job, events)]
        decoder = JoinDecoder(work.job, registry.value_schema)
        events, unreadable = _events(log, decoder, RowCompleter(work.job.plan), (dict.fromkeys(partitions, 0), ends))
        work.set_aside(unreadable)
        _write_down(work.checkpoint, 0, ends)
        work.switch(0, ends, before, [_joined(work.job, events)])


def _joined(job: JoinJob, events: list[pa.RecordBatch]) -> pa.Table:
    return JoinState(len(job.streams), job.plan.optional).apply(events)


def _write_down(checkpoint: Path, batch: int, ends: Mapping[tuple[str, int], int]) -> None:
    """Leave the trace of a micro-batch that Spark would leave, by which a state is known to be that of the output."""
    file = checkpoint / "offsets" / str(batch)
    file.parent.mkdir(parents=True, exist_ok=True)
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), end in ends.items():
        topics.setdefault(topic, {})[str(partition)] = end
    file.write_text(f"v1\n{{}}\n{json.dumps(topics)}", encoding="utf-8")


def _events(
    log: MessageLog, decoder: JoinDecoder, completer: RowCompleter, between: tuple[Places, Places]
) -> tuple[list[pa.RecordBatch], list[Unreadable]]:
    """What messages are to the join, from the places of `between` to the others."""
    start, end = between
    ranges = {place: (start[place], end[place]) for place in start if start[place] < end[place]}
    decoded: list[pa.RecordBatch | Unreadable] = []
    for (topic, partition), raws in log.read_messages(ranges, _BYTES_MAX).items() if ranges else ():
        offsets = np.array([raw.offset for raw in raws], np.int64)
        values = pa.array([raw.value for raw in raws], pa.binary())
        keys = pa.array([raw.key if raw.value is None else None for raw in raws], pa.binary())
        decoded += decoder.decode(topic, partition, offsets, values, keys)
    events, unreadable = sort_out(decoded)
    completed, orphans = sort_out(to_join(decoder.job, completer.take(events)))
    return completed, [*unreadable, *orphans]

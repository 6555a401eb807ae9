"""Verifies joins with DuckDB, below the pipeline's home."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.adapters.duckdb.database import DuckdbLimits
from penstock.adapters.duckdb.scratch import open_scratch
from penstock.core.errors import UsageError
from penstock.links.joins.verify import JoinTopics, verify_join
from penstock.wiring.join_topics import require_kept
from penstock.wiring.joins import standing_join
from penstock.wiring.open import open_registry, open_topic_log

if TYPE_CHECKING:
    from penstock.config.specs import PipelineSpec
    from penstock.links.joins.record import JoinRecord
    from penstock.links.joins.verify import Verified

_LIMITS = DuckdbLimits(memory_mb=1024, threads=2)


@dataclass(frozen=True, slots=True)
class JoinVerification:
    """A join that was verified as it was at `record`."""

    record: JoinRecord
    verified: Verified


def run_verification(spec: PipelineSpec, name: str, keys: int | None, salt: int) -> JoinVerification:
    """Compare a join's output with the join of its topics; see `links.joins.verify.verify_join`.

    What differs is compared once more, as it is by then: brokers may throw away, while
    we read, what a newer message replaces, and show the end of a transaction in one
    partition sooner than in another.
    """
    found = _verify(spec, name, keys, salt)
    return _verify(spec, name, keys, salt) if found.verified.differing else found


def _verify(spec: PipelineSpec, name: str, keys: int | None, salt: int) -> JoinVerification:
    with closing(open_topic_log(spec)) as log, closing(open_registry(spec)) as registry:
        standing = standing_join(spec, name, log, registry)
        require_kept(log, standing.job)
        shapes = log.shapes(standing.counting)
        gone = [topic for topic in standing.counting if topic not in shapes]
        if gone:
            message = f"the topic {gone[0]} of the join {name} does not exist, so it cannot be compared"
            raise UsageError(message, "restore it, or make the join again: give its output another `source`")
        own = [(topic, number) for topic in standing.counting for number in range(shapes[topic][1])]
        begins, ends = log.begins(own), log.ends(own)
        topics = JoinTopics(
            scan=log.scan,
            begins=log.begins(standing.partitions),
            output={place: (begins[place], ends[place]) for place in own},
            value_schema=registry.value_schema,
            renames=standing.renames,
            anew={
                (topic, number): offset
                for topic, offsets in standing.counting.items()
                for number, offset in enumerate(offsets)
            },
        )
        spec.home.mkdir(parents=True, exist_ok=True)
        with open_scratch(spec.home, _LIMITS) as scratch:
            verified = verify_join(standing.job, standing.record, topics, scratch, keys, salt)
    return JoinVerification(standing.record, verified)

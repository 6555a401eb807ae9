"""Topics whose size is limited: Kafka would throw away what a link has not read yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from penstock.adapters.kafka.preflight import judge_size, read_durability
from penstock.core.errors import PenstockError
from penstock.wiring.open import kafka_cluster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.adapters.kafka.preflight import Durability, Weakness
    from penstock.config.specs import PipelineSpec

_TOLD_MAX = 5
_log = structlog.get_logger()


def own_prefixes(spec: PipelineSpec) -> list[str]:
    """Return what the names of a pipeline's topics begin with."""
    return [f"penstock.{spec.pipeline}.", *(f"{source.name}." for source in spec.sources)]


def size_limits(found: Sequence[Durability]) -> tuple[list[Weakness], int]:
    """Return what is told of topics whose size is limited, and of how many more nothing is."""
    limited = [weakness for weakness in map(judge_size, found) if weakness is not None]
    return limited[:_TOLD_MAX], len(limited[_TOLD_MAX:])


def warn_of_size_limits(spec: PipelineSpec) -> None:
    """Log which topics have limits. Where that cannot be asked, whoever publishes next meets the same."""
    try:
        limits, more = size_limits(read_durability(kafka_cluster(spec), own_prefixes(spec)))
    except PenstockError:
        return
    for weakness in limits:
        _log.warning("a topic's size is limited", error=weakness.message, hint=weakness.hint, more_topics=more)

"""What a pipeline's file may say of how its topics are kept (docs/police.md)."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from penstock.config.audits import read_period
from penstock.config.spec import Positive, Spec
from penstock.core.topic_policy import TopicRule

_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SPAN = re.compile(r"([1-9]\d{0,8})([smhd])")
_FOREVER, _UNLIMITED = "forever", "unlimited"
_WEEK_MS = 7 * _MS["d"]
_MEBIBYTE = 1 << 20
_PATTERN = r"^[A-Za-z0-9._*?-]{1,249}$"


def _read_retention(said: object) -> object:
    """Read how long messages stay, in milliseconds; -1 for `forever`."""
    return -1 if said == _FOREVER else _read_span(said)


def _read_span(said: object) -> object:
    """Read a span of time as `7d` says it, in milliseconds."""
    found = _SPAN.fullmatch(said) if isinstance(said, str) else None
    if found is None:
        text = "should be a whole number and a unit, as in 30m, 24h or 7d; a retention may be forever"
        raise ValueError(text)
    return int(found[1]) * _MS[found[2]]


def _read_size(said: object) -> object:
    if said == _UNLIMITED:
        return -1
    if isinstance(said, int) and not isinstance(said, bool) and said >= 1:
        return said
    text = "should be a whole number of mebibytes from 1 on, or unlimited"
    raise ValueError(text)


class TopicRuleSpec(Spec):
    """How the topics are kept whose names `topics` matches, unless a rule before this one matches them.

    `retention` is how long messages stay, `retention_mebibytes` how many of a
    partition at most. A topic that is compacted keeps the newest message of each key;
    none is compacted away before `compaction_lag`, in which links must have read it.
    """

    topics: Annotated[str, Field(pattern=_PATTERN)]
    partitions: Positive | None = None
    replication: Positive | None = None
    cleanup: Literal["delete", "compact", "compact,delete"] | None = None
    retention: Annotated[int | None, BeforeValidator(_read_retention)] = None
    retention_mebibytes: Annotated[int | None, BeforeValidator(_read_size)] = None
    compaction_lag: Annotated[int | None, BeforeValidator(_read_span)] = None

    @model_validator(mode="after")
    def _require_compaction(self) -> TopicRuleSpec:
        if self.compaction_lag is not None and "compact" not in (self.cleanup or ""):
            text = "compaction_lag is of no use without cleanup: compact"
            raise ValueError(text)
        return self

    @property
    def rule(self) -> TopicRule:
        """What the core knows of it."""
        lag = _WEEK_MS if self.compaction_lag is None else self.compaction_lag
        size = self.retention_mebibytes
        return TopicRule(
            pattern=self.topics,
            partitions=self.partitions,
            replication=self.replication,
            cleanup=self.cleanup,
            retention_ms=self.retention,
            retention_bytes=size if size is None or size < 0 else size * _MEBIBYTE,
            compaction_lag_ms=lag if self.cleanup is not None and "compact" in self.cleanup else None,
        )


class PoliceSpec(Spec):
    """How a pipeline's topics are kept: the first of `rules` that matches a topic's name is that topic's.

    With `every` the running pipeline corrects what drifts by itself, once in so many seconds.
    """

    rules: Annotated[tuple[TopicRuleSpec, ...], Field(min_length=1)]
    every: Annotated[int | None, BeforeValidator(read_period)] = None

    @property
    def topic_rules(self) -> tuple[TopicRule, ...]:
        """The rules, in their order."""
        return tuple(each.rule for each in self.rules)

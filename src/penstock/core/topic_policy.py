"""How topics are to be kept, by rules of the config, and what of it can be set on topics that are there.

Nothing is ever taken away: a rule that would lose messages, or the order of a key's
messages, is not applied to a topic that has them, and that is told.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

RETENTION_MS: Final = "retention.ms"
RETENTION_BYTES: Final = "retention.bytes"
CLEANUP: Final = "cleanup.policy"
COMPACTION_LAG_MS: Final = "min.compaction.lag.ms"
_FOR_EVER: Final = -1
_SPANS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, " ms": 1}
_SIZES: Final = {" GiB": 1 << 30, " MiB": 1 << 20, " KiB": 1 << 10, " bytes": 1}

Outcome: TypeAlias = Literal["set", "drift", "refused"]
OUTCOMES: tuple[Outcome, ...] = ("set", "drift", "refused")


@dataclass(frozen=True, slots=True)
class TopicRule:
    """What is wanted of topics that `pattern` matches; None where a rule says nothing. -1 is without limit."""

    pattern: str
    partitions: int | None = None
    replication: int | None = None
    cleanup: str | None = None
    retention_ms: int | None = None
    retention_bytes: int | None = None
    compaction_lag_ms: int | None = None

    @property
    def settings(self) -> Mapping[str, str]:
        """The topic's settings of Kafka that the rule says something of."""
        wanted = {
            CLEANUP: self.cleanup,
            RETENTION_MS: self.retention_ms,
            RETENTION_BYTES: self.retention_bytes,
            COMPACTION_LAG_MS: self.compaction_lag_ms,
        }
        return {name: str(value) for name, value in wanted.items() if value is not None}

    @property
    def settings_at_birth(self) -> Mapping[str, str]:
        """Those of `settings` that a topic is made with: compaction waits until it is known to have keys."""
        compacts = self.cleanup is not None and "compact" in self.cleanup
        return {name: value for name, value in self.settings.items() if name != CLEANUP or not compacts}


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic as it is. `has_keys` says whether all of its messages have one; `rule` is what is wanted of it.

    `may_lack_columns`: rows there may have values that an older message of their key alone has.
    """

    name: str
    partitions: int
    replication: int
    settings: Mapping[str, str]
    has_keys: bool
    rule: TopicRule
    may_lack_columns: bool = False


@dataclass(frozen=True, slots=True)
class PolicyFinding:
    """One thing about a topic that is not as its rule says, and what became of it.

    `set`: it was changed; `drift`: it can be; `refused`: it cannot be, for `reason`, and
    `hint` says what to do.
    """

    topic: str
    what: str
    found: str
    wanted: str
    outcome: Outcome
    reason: str = ""
    hint: str = ""

    @property
    def text(self) -> str:
        """What is not as it should be, or was not, in words."""
        if self.outcome == "set":
            return f"{self.what} was set from {self.found_in_words} to {self.wanted_in_words}"
        rest = f", and stays so: {self.reason}" if self.outcome == "refused" else ""
        return f"{self.what} is {self.found_in_words}, and its rule says {self.wanted_in_words}{rest}"

    @property
    def found_in_words(self) -> str:
        """What was found, in the units of the config where Kafka counts milliseconds or bytes."""
        return _in_words(self.what, self.found)

    @property
    def wanted_in_words(self) -> str:
        """What is wanted, likewise."""
        return _in_words(self.what, self.wanted)


def _in_words(what: str, value: str) -> str:
    """Write `604800000` of `retention.ms` as 7d, and what is no such number as it is."""
    if not value:
        return "not set"
    if not what.endswith((".ms", ".bytes")) or not value.lstrip("-").isdecimal():
        return value
    number = int(value)
    if number < 0:
        return "forever" if what.endswith(".ms") else "unlimited"
    units = _SPANS if what.endswith(".ms") else _SIZES
    return next((f"{number // size}{unit}" for unit, size in units.items() if number and number % size == 0), value)


@dataclass(frozen=True, slots=True)
class PolicyReport:
    """What a look at the topics of a pipeline found: how many there are, those without a rule, and the findings."""

    topics: int
    without_rule: tuple[str, ...] = ()
    findings: tuple[PolicyFinding, ...] = ()

    def count(self, outcome: Outcome) -> int:
        """How many findings came out so."""
        return sum(each.outcome == outcome for each in self.findings)


@dataclass(frozen=True, slots=True)
class PolicyLook:
    """When somebody looked last (Unix ms), and what that found."""

    at_ms: int
    report: PolicyReport


@dataclass(frozen=True, slots=True)
class _Refusal:
    reason: str
    hint: str


def rule_of(topic: str, rules: Sequence[TopicRule]) -> TopicRule | None:
    """The first of `rules` whose pattern matches `topic`, with `*` for any characters and `?` for one."""
    return next((rule for rule in rules if fnmatchcase(topic, rule.pattern)), None)


def find_drift(facts: TopicFacts) -> Iterator[PolicyFinding]:
    """Yield what of a topic is not as its rule says: drift that can be corrected, and what cannot be."""
    rule = facts.rule
    if rule.partitions not in {None, facts.partitions}:
        yield _refused(facts, "partitions", str(facts.partitions), str(rule.partitions), _partitions(facts))
    if rule.replication not in {None, facts.replication}:
        yield _refused(facts, "replication", str(facts.replication), str(rule.replication), _replication(facts))
    for name, wanted in rule.settings.items():
        found = facts.settings.get(name, "")
        if _parts(found) != _parts(wanted):
            refusal = _setting(facts, name, found, wanted)
            if refusal is not None:
                yield _refused(facts, name, found, wanted, refusal)
            else:
                yield PolicyFinding(facts.name, name, found, wanted, "drift")


def _refused(facts: TopicFacts, what: str, found: str, wanted: str, refusal: _Refusal) -> PolicyFinding:
    return PolicyFinding(facts.name, what, found, wanted, "refused", refusal.reason, refusal.hint)


def _partitions(facts: TopicFacts) -> _Refusal:
    if facts.partitions > (facts.rule.partitions or 0):
        return _Refusal("Kafka takes no partition away from a topic", "write partitions as they are into the rule")
    if facts.has_keys:
        reason = "messages of one key would be in two partitions, out of order"
    else:
        reason = "the links that read it know how many partitions it has"
    return _Refusal(reason, "write partitions as they are into the rule; new topics get what it says")


def _replication(facts: TopicFacts) -> _Refusal:
    if facts.replication > (facts.rule.replication or 0):
        return _Refusal("copies would be deleted", "write replication as it is into the rule, or take copies away")
    command = "kafka-reassign-partitions.sh --reassignment-json-file FILE --execute"
    return _Refusal("which brokers get the new copies is for the owner of the cluster to say", f"type: {command}")


def _setting(facts: TopicFacts, name: str, found: str, wanted: str) -> _Refusal | None:
    """Why a setting is not changed; None if it may be."""
    if name == CLEANUP:
        return _cleanup(facts, found, wanted)
    if _amount(name, wanted) >= _amount(name, found):
        return None
    what = "messages would be compacted" if name == COMPACTION_LAG_MS else "messages would be deleted"
    reason = f"{what} that a link may not have read yet"
    return _Refusal(reason, f"raise it in the rule; or type: {_alter(facts.name, name, wanted)}")


def _cleanup(facts: TopicFacts, found: str, wanted: str) -> _Refusal | None:
    if "compact" in _parts(wanted) and not facts.has_keys:
        reason = (
            "a compacted topic takes no message without a key, and here are such: of a table without, or of a spolt"
        )
        return _Refusal(reason, "leave the topic to another rule, which stands before this one")
    if "compact" in _parts(wanted) - _parts(found) and facts.may_lack_columns:
        reason = (
            "a row there may lack columns that an update did not touch, and compaction would delete the message that "
            "has them"
        )
        hint = (
            "leave the topic to another rule, which stands before this one; or, if the table had REPLICA IDENTITY "
            f"FULL (binlog_row_image=FULL) from its first message on, type: {_alter(facts.name, CLEANUP, wanted)}"
        )
        return _Refusal(reason, hint)
    if "delete" in _parts(wanted) and "delete" not in _parts(found):
        reason = "messages that compaction has kept would be deleted once they are old"
        return _Refusal(reason, f"write cleanup: compact into the rule; or type: {_alter(facts.name, CLEANUP, wanted)}")
    return None


def _alter(topic: str, name: str, value: str) -> str:
    # Kafka's tool takes lists in brackets.
    given = f"[{value}]" if "," in value else value
    return f"kafka-configs.sh --alter --entity-type topics --entity-name {topic} --add-config {name}={given}"


def _amount(name: str, value: str) -> float:
    """How much a setting keeps; -1 is for ever, or as much as there is."""
    try:
        number = int(value)
    except ValueError:
        return 0.0
    return math.inf if number == _FOR_EVER and name != COMPACTION_LAG_MS else number


def _parts(value: str) -> frozenset[str]:
    return frozenset(part.strip() for part in value.split(","))

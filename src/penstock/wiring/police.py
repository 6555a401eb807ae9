"""Looks how the topics of a pipeline are kept, and sets what is not as the file says."""

from __future__ import annotations

import json
import time
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import structlog

from penstock.adapters.kafka.topic_policy import TopicKeeper
from penstock.adapters.kafka.topics import POSITION_SETTINGS, fingerprint_topic, position_topic
from penstock.config.places import has_state
from penstock.core.avro.schemas import table_schema
from penstock.core.errors import PenstockError, UnavailableError, UsageError
from penstock.core.topic_policy import PolicyLook, PolicyReport, TopicFacts, TopicRule, find_drift, rule_of
from penstock.wiring.open import kafka_cluster, open_history, open_subjects, open_topic_log, topic_rules
from penstock.wiring.schemas_topic import read_schemas_topic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.config.specs import PipelineSpec
    from penstock.config.spolts import SpoltSpec
    from penstock.core.schema_changes import SchemaChange
    from penstock.core.topic_policy import PolicyFinding
    from penstock.ports.subjects import Subjects

_log = structlog.get_logger()

_COMPACTED = TopicRule("*", cleanup="compact", compaction_lag_ms=int(POSITION_SETTINGS["min.compaction.lag.ms"]))
_KEPT = TopicRule("*", cleanup="delete", retention_ms=-1, retention_bytes=-1)


def police_topics(spec: PipelineSpec, *, apply: bool) -> PolicyReport:
    """Hold each topic that the pipeline writes against its rule, and set what may be set where `apply` says so.

    Raises UsageError where the file has no rules, UnavailableError while the brokers or the registry are away.
    """
    if spec.police is None:
        message = f"the file of pipeline {spec.pipeline} does not say how its topics are to be kept"
        raise UsageError(message, 'add it: police: {rules: [{topics: "*", retention: 7d}]}')
    keeper = TopicKeeper(kafka_cluster(spec))
    with closing(open_topic_log(spec)) as log:
        written = written_topics(spec, [told for _, told in read_schemas_topic(spec, log)])
    rules = {topic: rule_of(topic, topic_rules(spec)) for topic in written}
    own = {topic: _own_rule(spec, topic) for topic in keeper.names(f"penstock.{spec.pipeline}.")}
    kept = keeper.read({*written, *own})
    findings: list[PolicyFinding] = []
    with closing(open_subjects(spec)) as subjects:
        for topic, found in kept.items():
            rule = own.get(topic) or rules.get(topic)
            if rule is not None:
                what = written.get(topic, WrittenTopic(has_keys=True))
                # Whoever compacts nothing need not wait for the registry.
                lacks = "compact" in (rule.cleanup or "") and what.may_lack_columns(subjects)
                facts = TopicFacts(
                    topic, found.partitions, found.replication, found.settings, what.has_keys, rule, lacks
                )
                findings += _corrected(keeper, list(find_drift(facts)), apply=apply)
    without = tuple(topic for topic in kept if topic in rules and rules[topic] is None)
    report = PolicyReport(len(kept), without, tuple(findings))
    _remember(spec, report)
    return report


def _remember(spec: PipelineSpec, report: PolicyReport) -> None:
    """Write down what was found, for `penstock status` and the page; a look from the command line counts as well."""
    if not has_state(spec):
        return
    try:
        with closing(open_history(spec)) as history:
            history.save_police(PolicyLook(time.time_ns() // 1_000_000, report))
    except UnavailableError as error:
        # Whoever asked is told all the same.
        _log.warning("what was found of topics could not be written down", error=error.message, hint=error.hint)


def _corrected(keeper: TopicKeeper, findings: Sequence[PolicyFinding], *, apply: bool) -> Iterator[PolicyFinding]:
    """Set what of one topic has drifted, and tell what became of each finding. What Kafka refuses stops no other."""
    drift = [each for each in findings if each.outcome == "drift"]
    done = drift
    if apply and drift:
        try:
            keeper.change(drift[0].topic, {each.what: each.wanted for each in drift})
            done = [replace(each, outcome="set") for each in drift]
        except PenstockError as error:
            if error.retryable:
                raise
            refused = {"reason": error.message, "hint": error.hint}
            done = [replace(each, outcome="refused", **refused) for each in drift]
    yield from done
    yield from (each for each in findings if each.outcome != "drift")


@dataclass(frozen=True, slots=True)
class WrittenTopic:
    """Whether each message of a topic has a key, and the ids of the schemas of the tables whose rows are there."""

    has_keys: bool
    schema_ids: frozenset[int] = frozenset()

    def beside(self, other: WrittenTopic) -> WrittenTopic:
        """What is so of a topic that two write to."""
        return WrittenTopic(self.has_keys and other.has_keys, self.schema_ids | other.schema_ids)

    def may_lack_columns(self, subjects: Subjects) -> bool:
        """Whether rows there may lack columns, as `subjects` has the schemas. UnavailableError if it is away."""
        return any(map(_is_partial, map(subjects.value_schema, sorted(self.schema_ids))))


def written_topics(spec: PipelineSpec, told: Sequence[SchemaChange]) -> Mapping[str, WrittenTopic]:
    """The topics that sources, joins and spolts write, where captures and joins have `told` of these tables."""
    written = [
        (out.topic, WrittenTopic(bool(out.key)))
        for spolt in spec.spolts
        if not spolt.transforms
        for out in spolt.outputs
    ]
    written += [(spolt.topics[0], _transformed(spec, spolt, told)) for spolt in spec.spolts if spolt.transforms]
    for topic in {each.topic for each in told}:
        written.append((topic, _of_tables([each for each in told if each.topic == topic])))
    found: dict[str, WrittenTopic] = {}
    for topic, each in written:
        found[topic] = each if topic not in found else found[topic].beside(each)
    return found


def _transformed(spec: PipelineSpec, spolt: SpoltSpec, told: Sequence[SchemaChange]) -> WrittenTopic:
    """Transforms write the keys of their tables, and lack what these lack; of other topics nothing is known here."""
    tables = [each.tables([source.name for source in spec.sources]) for each in spolt.inputs]
    if None in tables:
        return WrittenTopic(has_keys=False)
    read = [
        event for event in told for each in tables if each and each[0] == event.source and each[1].matches(event.table)
    ]
    return _of_tables(read)


def _of_tables(told: Sequence[SchemaChange]) -> WrittenTopic:
    has_keys = bool(told) and all(each.key_schema_id is not None for each in told)
    return WrittenTopic(has_keys, frozenset(each.value_schema_id for each in told))


def _is_partial(value_schema: str) -> bool:
    try:
        schema = table_schema(value_schema)
    except PenstockError:
        return False
    # No row lacks its key, and some tables have no other column.
    return schema.partial_rows and len(schema.columns) > len(schema.key)


def _own_rule(spec: PipelineSpec, topic: str) -> TopicRule:
    """How a topic of ours is kept, whatever the file says: links could not go on otherwise."""
    compacted = (position_topic(spec.pipeline, ""), fingerprint_topic(spec.pipeline, ""))
    return _COMPACTED if topic.startswith(compacted) else _KEPT


def describe_report(pipeline: str, report: PolicyReport, *, applied: bool) -> str:
    """The report as one JSON object; every key is documented in docs/police.md."""
    findings = [
        {
            "topic": each.topic,
            "what": each.what,
            "found": each.found,
            "wanted": each.wanted,
            "outcome": each.outcome,
            "reason": each.reason,
            "hint": each.hint,
        }
        for each in report.findings
    ]
    described = {
        "pipeline": pipeline,
        "applied": applied,
        "topics": report.topics,
        "without_rule": list(report.without_rule),
        "findings": findings,
    }
    return json.dumps(described, indent=2)

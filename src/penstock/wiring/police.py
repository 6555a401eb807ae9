"""Looks how the topics of a pipeline are kept, and sets what is not as the file says."""

from __future__ import annotations

import json
import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from penstock.adapters.kafka.topic_policy import TopicKeeper
from penstock.adapters.kafka.topics import POSITION_SETTINGS, fingerprint_topic, position_topic
from penstock.config.places import state_file
from penstock.core.errors import PenstockError, UnavailableError, UsageError
from penstock.core.topic_policy import PolicyLook, PolicyReport, TopicFacts, TopicRule, find_drift, rule_of
from penstock.wiring.open import kafka_cluster, open_history, open_topic_log, topic_rules
from penstock.wiring.schemas_topic import read_schemas_topic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.config.specs import PipelineSpec
    from penstock.core.topic_policy import PolicyFinding

_log = structlog.get_logger()

_COMPACTED = TopicRule("*", cleanup="compact", compaction_lag_ms=int(POSITION_SETTINGS["min.compaction.lag.ms"]))
_KEPT = TopicRule("*", cleanup="delete", retention_ms=-1, retention_bytes=-1)


def police_topics(spec: PipelineSpec, *, apply: bool) -> PolicyReport:
    """Hold each topic that the pipeline writes against its rule, and set what may be set where `apply` says so.

    Raises UsageError where the file has no rules, UnavailableError while the brokers are away.
    """
    if spec.police is None:
        message = f"the file of pipeline {spec.pipeline} does not say how its topics are to be kept"
        raise UsageError(message, 'add it: police: {rules: [{topics: "*", retention: 7d}]}')
    keeper = TopicKeeper(kafka_cluster(spec))
    written = _written_topics(spec)
    rules = {topic: rule_of(topic, topic_rules(spec)) for topic in written}
    own = {topic: _own_rule(spec, topic) for topic in keeper.names(f"penstock.{spec.pipeline}.")}
    kept = keeper.read({*written, *own})
    findings: list[PolicyFinding] = []
    for topic, found in kept.items():
        rule = own.get(topic) or rules.get(topic)
        if rule is not None:
            has_keys = written.get(topic, True)
            facts = TopicFacts(topic, found.partitions, found.replication, found.settings, has_keys, rule)
            findings += _corrected(keeper, list(find_drift(facts)), apply=apply)
    without = tuple(topic for topic in kept if topic in rules and rules[topic] is None)
    report = PolicyReport(len(kept), without, tuple(findings))
    _remember(spec, report)
    return report


def _remember(spec: PipelineSpec, report: PolicyReport) -> None:
    """Write down what was found, for `penstock status` and the page; a look from the command line counts as well."""
    if spec.is_embedded("state") and not state_file(spec).exists():
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


def _written_topics(spec: PipelineSpec) -> Mapping[str, bool]:
    """The topics that sources, joins and spolts write, and whether each message there has a key."""
    found = {output.topic: bool(output.key) for spolt in spec.spolts for output in spolt.outputs}
    with closing(open_topic_log(spec)) as log:
        for _, told in read_schemas_topic(spec, log):
            found[told.topic] = told.key_schema_id is not None
    return found


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

"""What is set on a topic that is not as its rule says, and that nothing is ever taken away."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.topic_policy import (
    CLEANUP,
    COMPACTION_LAG_MS,
    RETENTION_BYTES,
    RETENTION_MS,
    TopicFacts,
    TopicRule,
    find_drift,
    rule_of,
)

_DAY_MS = 86_400_000
_SETTINGS = {CLEANUP: "delete", RETENTION_MS: str(7 * _DAY_MS), RETENTION_BYTES: "-1", COMPACTION_LAG_MS: "0"}


def outcomes(rule: TopicRule, *, has_keys: bool = True, **settings: str) -> dict[str, str]:
    """What becomes of what a rule wants of a topic with 4 partitions and 2 copies, by what it is."""
    known = {name.replace("_", "."): value for name, value in settings.items()}
    facts = TopicFacts("shop.t", 4, 2, {**_SETTINGS, **known}, has_keys, rule)
    return {each.what: each.outcome for each in find_drift(facts)}


def test_a_topic_that_is_as_its_rule_says_has_no_findings() -> None:
    rule = TopicRule("*", 4, 2, "delete", 7 * _DAY_MS, -1)

    assert outcomes(rule) == {}


def test_what_a_rule_does_not_say_stays_as_it_is() -> None:
    assert outcomes(TopicRule("*")) == {}


def test_retention_grows_and_never_shrinks() -> None:
    assert outcomes(TopicRule("*", retention_ms=30 * _DAY_MS)) == {RETENTION_MS: "drift"}
    assert outcomes(TopicRule("*", retention_ms=-1)) == {RETENTION_MS: "drift"}
    assert outcomes(TopicRule("*", retention_ms=_DAY_MS)) == {RETENTION_MS: "refused"}
    assert outcomes(TopicRule("*", retention_ms=30 * _DAY_MS), retention_ms="-1") == {RETENTION_MS: "refused"}
    assert outcomes(TopicRule("*", retention_bytes=1 << 30)) == {RETENTION_BYTES: "refused"}
    assert outcomes(TopicRule("*", retention_bytes=-1), retention_bytes="1000") == {RETENTION_BYTES: "drift"}


def test_a_topic_is_compacted_only_where_its_messages_have_keys() -> None:
    rule = TopicRule("*", cleanup="compact", compaction_lag_ms=_DAY_MS)

    assert outcomes(rule) == {CLEANUP: "drift", COMPACTION_LAG_MS: "drift"}
    assert outcomes(rule, has_keys=False) == {CLEANUP: "refused", COMPACTION_LAG_MS: "drift"}


def test_a_topic_whose_rows_may_lack_columns_is_not_compacted_and_one_that_is_stays_so() -> None:
    rule = TopicRule("*", cleanup="compact")
    facts = TopicFacts("shop.t", 4, 2, _SETTINGS, has_keys=True, rule=rule, may_lack_columns=True)

    (found,) = find_drift(facts)

    assert (found.what, found.outcome) == (CLEANUP, "refused")
    assert "may lack columns" in found.reason
    assert "REPLICA IDENTITY FULL" in found.hint
    assert "kafka-configs.sh --alter" in found.hint
    assert not list(find_drift(replace(facts, settings={**_SETTINGS, CLEANUP: "compact"})))


def test_a_compacted_topic_is_not_made_to_forget_old_rows() -> None:
    for wanted in ("delete", "compact,delete"):
        assert outcomes(TopicRule("*", cleanup=wanted), cleanup_policy="compact") == {CLEANUP: "refused"}
    assert outcomes(TopicRule("*", cleanup="compact,delete"), cleanup_policy="delete,compact") == {}


def test_partitions_and_copies_of_a_topic_that_is_there_are_told_and_left() -> None:
    for partitions, replication in ((2, 1), (8, 3)):
        found = outcomes(TopicRule("*", partitions, replication))
        assert found == {"partitions": "refused", "replication": "refused"}


def test_what_is_refused_says_why_and_what_to_do() -> None:
    rule = TopicRule("*", 8, 3, "compact", _DAY_MS, 1000, 1)
    facts = TopicFacts("shop.t", 4, 2, {**_SETTINGS, COMPACTION_LAG_MS: "5"}, has_keys=False, rule=rule)

    refused = [each for each in find_drift(facts) if each.outcome == "refused"]

    assert len(refused) == 6
    assert all(each.reason and each.hint for each in refused)


_SPANS = st.sampled_from([-1, 1, 1000, 10**12])
_RULES = st.builds(
    TopicRule,
    st.just("*"),
    cleanup=st.none() | st.sampled_from(["delete", "compact", "compact,delete"]),
    retention_ms=st.none() | _SPANS,
    retention_bytes=st.none() | _SPANS,
    compaction_lag_ms=st.none() | st.sampled_from([0, 1000, 10**12]),
)


@given(before=_RULES, rule=_RULES, has_keys=st.booleans())
def test_whatever_is_set_keeps_at_least_as_much_and_is_no_news_the_next_time(
    *, before: TopicRule, rule: TopicRule, has_keys: bool
) -> None:
    facts = TopicFacts("t", 1, 1, {**_SETTINGS, **before.settings}, has_keys, rule)

    changed = {each.what: each.wanted for each in find_drift(facts) if each.outcome == "drift"}

    after = {**facts.settings, **changed}
    for name in (RETENTION_MS, RETENTION_BYTES):
        was, now = (math.inf if each[name] == "-1" else int(each[name]) for each in (facts.settings, after))
        assert now >= was
    assert int(after[COMPACTION_LAG_MS]) >= int(facts.settings[COMPACTION_LAG_MS])
    assert "delete" not in after[CLEANUP] or "delete" in facts.settings[CLEANUP]
    assert has_keys or "compact" not in after[CLEANUP] or "compact" in facts.settings[CLEANUP]
    again = [each for each in find_drift(replace(facts, settings=after)) if each.outcome == "drift"]
    assert again == []


def test_the_first_rule_that_matches_is_a_topics_own() -> None:
    rules = [TopicRule("shop.a*", 1), TopicRule("shop.*", 2)]

    assert [rule_of(topic, rules) for topic in ("shop.ab", "shop.b", "other.a")] == [*rules, None]


def test_a_topic_is_made_as_its_rule_says_but_not_compacted() -> None:
    rule = TopicRule("*", cleanup="compact", retention_ms=_DAY_MS, compaction_lag_ms=5)

    assert rule.settings_at_birth == {RETENTION_MS: str(_DAY_MS), COMPACTION_LAG_MS: "5"}

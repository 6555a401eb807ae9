"""`format: json` of a source and the rules of topics, as the file says them, and what is said of each mistake."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.cli.explain import explain_pipeline
from penstock.config.load import parse
from penstock.core.errors import ConfigError
from penstock.core.topic_policy import TopicRule

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.config.specs import PipelineSpec

HEAD = """\
pipeline: shop
kafka: {partitions: 2}
sources:
  - {name: shopdb, kind: mysql, host: h, user: cdc, password_env: P, tables: [shop.*], format: json}
  - {name: pg, kind: postgres, host: h, database: d, user: cdc, password_env: P, tables: [public.*]}
"""
_DAY_MS = 86_400_000


def read(directory: Path, more: str) -> PipelineSpec:
    return parse(HEAD + more, "shop.yaml", directory)


def mistakes(directory: Path, more: str) -> str:
    with pytest.raises(ConfigError) as raised:
        read(directory, more)
    return "\n".join(raised.value.mistakes)


def test_a_source_writes_avro_unless_it_says_json(tmp_path: Path) -> None:
    assert [source.format for source in read(tmp_path, "").sources] == ["json", "avro"]


def test_transforms_of_json_are_refused(tmp_path: Path) -> None:
    transform = "transforms: [{drop: [a]}]"
    told = mistakes(tmp_path, f"spolts: [{{name: s, from: [pg.public.t, shopdb.shop.t], to: t, {transform}}}]\n")

    assert "from.1: transforms need format: avro, and shopdb has format: json: use a function instead" in told


def test_rules_are_read_in_the_units_of_kafka(tmp_path: Path) -> None:
    spec = read(
        tmp_path,
        """\
police:
  every: 10m
  rules:
    - {topics: "shopdb.*", partitions: 8, replication: 3, cleanup: compact}
    - {topics: "pg.*", retention: 36h, retention_mebibytes: 10, cleanup: "compact,delete", compaction_lag: 2d}
    - {topics: "*", retention: forever, retention_mebibytes: unlimited}
""",
    )

    assert spec.police is not None
    assert spec.police.every == 600
    assert spec.police.topic_rules == (
        TopicRule("shopdb.*", 8, 3, "compact", compaction_lag_ms=7 * _DAY_MS),
        TopicRule("pg.*", None, None, "compact,delete", 36 * 3_600_000, 10 << 20, 2 * _DAY_MS),
        TopicRule("*", retention_ms=-1, retention_bytes=-1),
    )


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ('{topics: "a b"}', "topics"),
        ('{topics: "*", retention: 7}', "retention: should be a whole number and a unit"),
        ('{topics: "*", retention_mebibytes: 0}', "retention_mebibytes: should be a whole number of mebibytes"),
        ('{topics: "*", cleanup: none}', "cleanup: should be 'delete', 'compact' or 'compact,delete'"),
        ('{topics: "*", compaction_lag: 1d}', "compaction_lag is of no use without cleanup: compact"),
        ('{topics: "*", cleanup: compact, compaction_lag: forever}', "compaction_lag: should be a whole number"),
        ('{topics: "*", partitions: 0}', "partitions"),
        ('{topics: "*", retension: 7d}', "did you mean retention?"),
    ],
)
def test_a_mistake_in_a_rule_is_told(tmp_path: Path, rule: str, told: str) -> None:
    assert told in mistakes(tmp_path, f"police: {{rules: [{rule}]}}\n")


def test_check_says_how_messages_are_written_and_topics_kept(tmp_path: Path) -> None:
    told = list(explain_pipeline(read(tmp_path, 'police: {every: 10m, rules: [{topics: "*", retention: 7d}]}\n')))

    assert told.count("  topics   flat JSON messages, one topic for each table") == 1
    assert "               kept by 1 rule(s), every 600 s" in told

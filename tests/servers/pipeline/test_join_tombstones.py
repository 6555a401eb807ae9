"""Joins of JSON topics whose deletes were compacted away: tombstones, which stay longer, delete their rows."""

from __future__ import annotations

import json
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from tests.servers.pipeline.test_join_upgrades import assert_verified
from tests.servers.pipeline.test_joins import FIRST, assert_joined, name_of, with_join
from typer.testing import CliRunner

from penstock.adapters.kafka.cluster import KafkaCluster
from penstock.adapters.kafka.reader import TopicReader
from penstock.cli.deadletters import app as deadletters
from penstock.cli.joinery import app as joinery

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from tests.servers.pipeline.conftest import PipelineCase

_REVIEW = b'{"review_id":10}'
_SOON = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0",
    "max.compaction.lag.ms": "100",
}


def test_a_tombstone_without_its_delete_deletes_a_row_of_the_join(make_case: Callable[..., PipelineCase]) -> None:
    case = with_join(make_case(format="json"))
    case.write(*FIRST)
    case.run_once()
    assert_joined(case)
    name, producer = name_of(case), Producer({"bootstrap.servers": case.bootstrap_servers})
    for key in (_REVIEW, b"no key"):
        producer.produce(f"db.{case.database}.user_review", None, key=key)
    assert producer.flush(30) == 0

    case.run_once(only=name)

    verified = CliRunner().invoke(joinery, ["verify", str(case.file)])
    assert verified.exit_code == 0, verified.output
    assert "rows   1 expected, 1 published" in verified.stdout
    shown = CliRunner().invoke(deadletters, ["show", str(case.file), name, "--json"])
    (letter,) = json.loads(shown.stdout)["letters"]
    assert (letter["key_text"], letter["value_text"]) == ("no key", None)


@pytest.mark.nightly
def test_a_join_that_reads_a_compacted_topic_late_has_no_row_that_is_gone(
    make_case: Callable[..., PipelineCase], spark: SparkSession
) -> None:
    del spark
    case = with_join(make_case(format="json"))
    case.write(*FIRST)
    case.run_once()
    case.write("DELETE FROM user_review WHERE review_id = 10")
    case.run_once(only="db")
    case.run_once(only="objects")
    topic = f"db.{case.database}.user_review"
    compact(case, topic)

    # Messages in the newest segment are left as they are.
    deadline, number = time.monotonic() + 120, 100
    while time.monotonic() < deadline and values_of(case, topic) != [None]:
        number += 1
        case.write(f"INSERT INTO user_review VALUES ({number}, 1, 1.5, '')")
        case.run_once(only="db")
        time.sleep(1)
    assert values_of(case, topic) == [None]
    case.run_once(only=name_of(case))
    case.run_once()

    assert_joined(case)
    assert_verified(case)


def compact(case: PipelineCase, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": case.bootstrap_servers})
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in _SOON.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    for answer in admin.incremental_alter_configs([resource]).values():
        answer.result(10)


def values_of(case: PipelineCase, topic: str) -> list[bytes | None]:
    """What the topic has of the review that was deleted."""
    with closing(TopicReader(KafkaCluster(case.bootstrap_servers))) as log:
        end = log.ends([(topic, 0)])[topic, 0]
        return [value for _, _, key, value in log.scan({(topic, 0): (0, end)}) if key == _REVIEW]

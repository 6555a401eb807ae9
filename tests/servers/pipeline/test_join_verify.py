"""What a join has published, beside what SQL makes of its topics."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from tests.servers.pipeline.joined_reviews import BUSINESSES, REVIEWS, add_join
from typer.testing import CliRunner

from penstock.adapters.kafka.cluster import KafkaCluster
from penstock.adapters.kafka.reader import TopicReader
from penstock.cli.joinery import app
from penstock.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.pipeline.conftest import PipelineCase
    from typer.testing import Result

_FIRST = (
    BUSINESSES,
    REVIEWS,
    "INSERT INTO business VALUES (1, 'one', 'Ulm'), (2, 'two', 'Bonn')",
    "INSERT INTO user_review VALUES (10, 1, 4.5, 'good'), (11, 1, 2.0, 'bad'), (12, NULL, 3.0, ''), (13, 9, 1.0, '')",
)


def verify(case: PipelineCase, *options: str) -> Result:
    return CliRunner().invoke(app, ["verify", str(case.file), *options])


@pytest.mark.nightly
def test_verify_names_the_keys_whose_rows_are_not_those_of_the_join(make_case: Callable[..., PipelineCase]) -> None:
    case = make_case(partitions=2)
    name = add_join(case.file, case.database)
    case.write(*_FIRST)
    before_the_first = verify(case)
    case.run_once()
    case.write(
        "UPDATE user_review SET stars = 1.0 WHERE review_id = 10", "DELETE FROM user_review WHERE review_id = 11"
    )
    case.run_once()

    right, sampled = verify(case), verify(case, name, "--sample", "1")

    assert before_the_first.exit_code == UsageError.exit_code
    assert right.exit_code == 0, right.output
    assert "rows   1 expected, 1 published" in right.stdout
    assert "equal" in right.stdout
    assert sampled.exit_code == 0, sampled.output

    # Somebody writes into the topic: a row as it was before, and one that is deleted.
    topic, producer = f"{name}.joined.{name}", Producer({"bootstrap.servers": case.bootstrap_servers})
    with closing(TopicReader(KafkaCluster(case.bootstrap_servers))) as log:
        (_, count) = log.shapes([topic])[topic]
        ends = log.ends([(topic, number) for number in range(count)])
        first = [each for each in log.scan({place: (0, end) for place, end in ends.items()}) if each[1] < 2]
    for (_, partition), _, key, value in first:
        producer.produce(topic, value, key, partition)
    assert producer.flush(10) == 0

    wrong = verify(case)

    assert wrong.exit_code == 3, wrong.output
    assert "2 keys differ" in wrong.stdout
    assert "key    review_id=11" in wrong.stdout
    assert "join: no row" in wrong.stdout
    assert "stars=Decimal('4.5')" in wrong.stdout


def test_verify_of_a_join_that_is_not_there_names_those_that_are(make_case: Callable[..., PipelineCase]) -> None:
    case = make_case()
    name = add_join(case.file, case.database)

    refused = verify(case, "other")

    assert isinstance(refused.exception, UsageError)
    assert name in refused.exception.hint

"""A join in a pipeline: what comes into the warehouse is SQL's join of the source's tables."""

from __future__ import annotations

import json
import pickle
import re
import shutil
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from tests.servers.pipeline.joined_reviews import BUSINESSES, REVIEWS, add_join, join_in_source
from typer.testing import CliRunner

from penstock.cli.deadletters import app as deadletters
from penstock.cli.joinery import app
from penstock.core.errors import PenstockError, UsageError
from penstock.wiring.pipeline_status import read_status

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.servers.pipeline.conftest import PipelineCase

FIRST = (
    BUSINESSES,
    REVIEWS,
    "INSERT INTO business VALUES (1, 'one', 'Ulm'), (2, 'two', 'Bonn'), (3, 'three', NULL)",
    "INSERT INTO user_review VALUES (10, 1, 4.5, 'good'), (11, 1, 2.0, 'bad'), (12, NULL, 3.0, ''), (13, 9, 1.0, '')",
)


def name_of(case: PipelineCase) -> str:
    """What the join of a case is called."""
    return case.spec.joins[0].name


def with_join(case: PipelineCase) -> PipelineCase:
    """Add the join to a case."""
    add_join(case.file, case.database)
    return case


def assert_joined(case: PipelineCase) -> None:
    """The warehouse has what the source says, and something."""
    with closing(case.connect()) as connection:
        expected = join_in_source(connection)
    found = case.query(f"SELECT biz_id, stars, city, review_id FROM joined.{name_of(case)} ORDER BY review_id")
    assert expected
    assert [tuple(row.values()) for row in found] == expected


def test_the_joined_table_is_the_join_of_the_sources_tables(make_case: Callable[..., PipelineCase]) -> None:
    case = with_join(make_case(partitions=2))
    case.write(*FIRST)
    case.run_once()
    assert_joined(case)

    case.write(
        "UPDATE business SET city = 'Berlin' WHERE business_id = 1",
        "UPDATE user_review SET biz_id = 2 WHERE review_id = 10",
        "UPDATE user_review SET review_id = 110, biz_id = 3 WHERE review_id = 11",
        "UPDATE user_review SET content = 'not joined' WHERE review_id = 110",
        "INSERT INTO business VALUES (9, 'nine', 'Trier')",
        "ALTER TABLE business ADD COLUMN phone VARCHAR(20)",
        "INSERT INTO business VALUES (4, 'four', 'Jena', '4')",
        "INSERT INTO user_review VALUES (14, 4, 5.0, '')",
        "DELETE FROM business WHERE business_id = 3",
    )
    case.run_once()
    assert_joined(case)

    case.run_once()
    assert_joined(case)
    (link,) = [each for each in read_status(case.spec).links if each.link == name_of(case)]
    assert (link.state, link.lag_messages) == ("stopped", 0)
    assert [record["batch"] for record in case.records(name_of(case))][-1] < 5


def test_check_shows_what_is_made_and_which_key_it_has(make_case: Callable[..., PipelineCase]) -> None:
    case = with_join(make_case())
    case.write(*FIRST)

    early = CliRunner().invoke(app, ["check", str(case.file)])
    case.run_once()
    late = CliRunner().invoke(app, ["check", str(case.file)])

    assert early.exit_code == UsageError.exit_code
    assert "this pipeline carries no such table" in early.stderr
    assert late.exit_code == 0
    assert f"makes  joined.{name_of(case)}" in late.stdout
    assert "the pkey of the file, business_id, does not identify a row" in late.stdout
    assert "pkey: [review_id]" in late.stdout
    assert f"note   db.{case.database}.business throws old messages away" in late.stdout
    assert f"db.{case.database}.user_review: about 4 rows (at most 4)" in late.stdout
    assert f"stars: decimal(2,1)  (Of 5 (from db.{case.database}.user_review.stars))" in late.stdout


@pytest.mark.nightly
def test_a_truncate_of_an_input_empties_the_joined_table(make_case: Callable[..., PipelineCase]) -> None:
    case = with_join(make_case(partitions=2))
    case.write(*FIRST)
    case.run_once()

    case.write("TRUNCATE TABLE user_review", "INSERT INTO user_review VALUES (10, 2, 1.5, 'after')")
    case.run_once()

    assert_joined(case)


def test_a_lost_state_is_made_again_from_the_topics(make_case: Callable[..., PipelineCase]) -> None:
    case = with_join(make_case())
    case.write(*FIRST)
    case.run_once()
    shutil.rmtree(case.spec.home / "joins")
    case.write("DELETE FROM user_review WHERE review_id = 10")

    case.run_once()

    assert_joined(case)


def test_a_state_that_went_on_behind_its_record_is_made_again_from_the_topics(
    make_case: Callable[..., PipelineCase],
) -> None:
    case = with_join(make_case())
    case.write(*FIRST)
    case.run_once()
    record = case.records(name_of(case))[-1]
    # What was published of it went with the brokers' disks, and was in no backup.
    commits = case.spec.home / "joins" / name_of(case) / "1" / "commits"
    commits.mkdir(exist_ok=True)
    (commits / str(record["batch"] + 1)).write_text("v1")
    case.write("DELETE FROM user_review WHERE review_id = 10")

    case.run_once()

    assert case.records(name_of(case))[-1]["generation"] == record["generation"] + 1
    assert_joined(case)


@pytest.mark.nightly
def test_what_a_power_cut_leaves_empty_is_begun_again(
    make_case: Callable[..., PipelineCase], spark: SparkSession
) -> None:
    del spark
    case = with_join(make_case())
    case.write(*FIRST)
    case.run_once()
    record = case.records(name_of(case))[-1]
    state = case.spec.home / "joins" / name_of(case) / "1"
    # Behind the flush, which comes before the record: Spark's note that it is done, and the next one that it plans.
    for file in (f"commits/{record['batch']}", f"commits/.{record['batch']}.crc", f"offsets/{record['batch'] + 1}"):
        (state / file).write_text("")
    case.write("UPDATE business SET city = 'Berlin' WHERE business_id = 1")

    case.run_once()

    assert case.records(name_of(case))[-1]["generation"] == record["generation"]
    assert_joined(case)


@pytest.mark.nightly
def test_a_changed_file_stops_the_join_and_nothing_else(make_case: Callable[..., PipelineCase]) -> None:
    case = with_join(make_case())
    case.write(*FIRST)
    case.run_once()
    file = case.file.parent / "business_review.yaml"
    file.write_text(file.read_text().replace("- name", "- city"))
    case.write("INSERT INTO user_review VALUES (20, 1, 1.5, 'more')")

    with pytest.raises(UsageError) as refused:
        case.run_once()

    assert "was changed" in refused.value.message
    case.assert_equal()


def test_a_stream_that_nobody_carries_is_refused_before_anything_is_written(
    make_case: Callable[..., PipelineCase],
) -> None:
    case = with_join(make_case())
    case.write(BUSINESSES)

    with pytest.raises(UsageError) as refused:
        case.run_once()

    assert "user_review, and this pipeline carries no such table" in refused.value.message
    assert case.records(name_of(case)) == []


@pytest.mark.nightly
def test_a_renamed_input_ends_the_join(make_case: Callable[..., PipelineCase]) -> None:
    case = with_join(make_case())
    case.write(*FIRST)
    case.run_once()
    case.write("RENAME TABLE business TO shops")

    with pytest.raises(PenstockError) as ended:
        case.run_once()

    assert "were renamed" in ended.value.message


@pytest.mark.nightly
def test_a_micro_batch_that_spark_begins_again_is_not_published_again(
    make_case: Callable[..., PipelineCase], spark: SparkSession
) -> None:
    del spark
    case = with_join(make_case())
    case.write(*FIRST)
    case.run_once()
    assert_joined(case)
    # What a kill leaves between our commit in Kafka and Spark's own.
    record, messages = case.records(name_of(case))[-1], case.messages()
    commits = case.spec.home / "joins" / name_of(case) / "1" / "commits"
    for file in (str(record["batch"]), f".{record['batch']}.crc"):
        (commits / file).unlink()
    case.write("UPDATE business SET city = 'Berlin' WHERE business_id = 1")

    case.run_once()

    topic = f"{name_of(case)}.joined.{name_of(case)}"
    batches = [record["batch"] for record in case.records(name_of(case))]
    assert batches == sorted(set(batches))
    assert len(case.messages()[topic]) == len(messages[topic]) + 2
    assert_joined(case)


@pytest.mark.nightly
def test_what_a_worker_of_spark_finds_wrong_is_told_in_its_own_words(
    make_case: Callable[..., PipelineCase], spark: SparkSession
) -> None:
    del spark
    case = with_join(make_case())
    case.write(*FIRST)
    case.run_once()
    case.write("RENAME TABLE business TO shops")

    with pytest.raises(PenstockError) as ended:
        case.run_once()

    assert "were renamed" in ended.value.message
    assert not ended.value.retryable


def test_a_message_that_cannot_be_read_is_a_dead_letter_and_the_rest_goes_on(
    make_case: Callable[..., PipelineCase],
) -> None:
    assert_set_aside(with_join(make_case()))


@pytest.mark.nightly
def test_a_worker_of_spark_sets_aside_what_it_cannot_read(
    make_case: Callable[..., PipelineCase], spark: SparkSession
) -> None:
    del spark
    assert_set_aside(with_join(make_case()))


def assert_set_aside(case: PipelineCase) -> None:
    """Put messages of others into a topic: the join publishes the rest, and shows them as dead letters."""
    name = name_of(case)
    case.write(*FIRST)
    case.run_once()
    before = len(case.messages()[f"{name}.joined.{name}"])
    business, review = (f"db.{case.database}.{table}" for table in ("business", "user_review"))
    case.write("UPDATE business SET city = 'Berlin' WHERE business_id = 1")
    case.run_once(only="db")
    producer = Producer({"bootstrap.servers": case.bootstrap_servers})
    made = case.file.parent / "made"
    for value in (b"hello", case.messages()[review][0], b"", of_file(case.messages()[business][0], command(made))):
        producer.produce(business, value, key=b"key")
    assert producer.flush(30) == 0

    case.run_once(only=name)

    assert len(case.messages()[f"{name}.joined.{name}"]) == before + 2
    assert not made.exists()
    assert [record["letters"] for record in case.records(name)][-1] == 4
    shown = CliRunner().invoke(deadletters, ["show", str(case.file), name, "--json"])
    letters = json.loads(shown.stdout)["letters"]
    assert {each["topic"] for each in letters} == {business}
    assert "hello" in [each["value_text"] for each in letters]
    assert f"it is not of db.{case.database}.business" in [each["error"] for each in letters]
    (link,) = [each for each in read_status(case.spec).links if each.link == name]
    assert link.dead_letters == 4


class _Command:
    """Unpickled, it makes a file."""

    def __init__(self, made: Path) -> None:
        self._made = made

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, (f"open({str(self._made)!r}, 'w').close()",)


def command(made: Path) -> str:
    """What a driver has run that looked for pickles in texts of errors."""
    return f"penstock-error:{pickle.dumps(_Command(made)).hex()}"


def of_file(message: bytes, file: str) -> bytes:
    """An envelope with another name of the log's file."""
    found = re.search(rb"[\w-]+\.\d{6}", message)
    assert found is not None
    size = 2 * len(file)
    written = bytes([size & 0x7F | 0x80, size >> 7]) + file.encode()
    return message[: found.start() - 1] + written + message[found.end() :]

"""Joins of PostgreSQL's tables: updates that lack long values, which they did not touch, are joined with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import yaml
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from typer.testing import CliRunner

from penstock.cli.joinery import app as joinery
from penstock.core.errors import UsageError
from penstock.core.snapshots import SnapshotOptions
from penstock.jobs.in_process import InProcessRunner, carry
from penstock.jobs.pipeline import run_pipeline
from penstock.jobs.runner import PipelineRun
from penstock.wiring.snapshots import ask_for_snapshots

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.postgres_chain import PostgresChain

    from penstock.embedded.kafka import KafkaBroker
    from penstock.jobs.runner import Runner

_LONG = "(SELECT string_agg(md5(i::text || '{seed}'), '') FROM generate_series(1, 400) i)"
_TABLES = (
    "CREATE TABLE note (id int PRIMARY KEY, shop int, state text NOT NULL, body text, extra jsonb)",
    "ALTER TABLE note ALTER body SET STORAGE EXTERNAL",
    "CREATE TABLE shop (id int PRIMARY KEY, city text, about text)",
    "ALTER TABLE shop ALTER about SET STORAGE EXTERNAL",
    f"INSERT INTO shop SELECT i, 'city ' || i, {_LONG.format(seed='shop')} FROM generate_series(1, 3) i",
    f"INSERT INTO note SELECT i, 1 + i % 4, 'open', {_LONG.format(seed='note')} || i FROM generate_series(1, 8) i",
)
_JOINED = (
    "SELECT n.id, n.shop, n.state, n.body, s.city, s.about FROM note n JOIN shop s ON s.id = n.shop "
    "WHERE n.state <> 'closed' ORDER BY n.id"
)


@dataclass(frozen=True, slots=True)
class JoinedNotes:
    """A chain with a join of two of its tables, of which a long value is in each."""

    chain: PostgresChain
    runner: Runner

    def carry(self) -> None:
        run_pipeline(PipelineRun(self.chain.spec, once=True), self.runner)

    def assert_joined(self) -> None:
        expected = self.chain.source_rows(_JOINED)
        found = self.chain.rows(
            f"SELECT id, shop, state, body, city, about FROM joined.{_name(self.chain)} ORDER BY id"
        )
        assert expected
        assert found == expected

    def ask(self, *words: str) -> str:
        asked = CliRunner().invoke(joinery, [words[0], str(self.chain.file), *words[1:]])
        assert asked.exit_code == 0, asked.output
        return asked.stdout


def _name(chain: PostgresChain) -> str:
    return f"notes_{chain.name}"


def _with_join(chain: PostgresChain, runner: Runner) -> JoinedNotes:
    name = _name(chain)
    join = {
        "join": [
            {
                "topic": "public.note",
                "join_keys": ["shop"],
                "exclude_fields": ["extra"],
                "where": "NOT state = 'closed'",
            },
            {"topic": "public.shop", "join_keys": ["id"], "aliases": [{"from": "id", "to": "shop"}]},
        ],
        "output": {"namespace": "joined", "source": name, "pkey": ["id"]},
    }
    (chain.file.parent / "notes.yaml").write_text(yaml.safe_dump(join))
    config = yaml.safe_load(chain.file.read_text())
    config["joins"] = ["notes.yaml"]
    config["links"].append({"from": name, "to": "wh"})
    chain.file.write_text(yaml.safe_dump(config))
    return JoinedNotes(chain, runner)


def _check(joined: JoinedNotes) -> None:
    """Change the tables in every way that a message may lack a long value in, and compare."""
    joined.carry()
    joined.assert_joined()
    joined.chain.write(
        "UPDATE note SET state = 'seen' WHERE id = 1",
        "UPDATE note SET shop = 2 WHERE id = 2",
        "UPDATE note SET state = 'closed' WHERE id = 3",
        "UPDATE shop SET city = 'Ulm' WHERE id = 2",
        f"UPDATE note SET body = {_LONG.format(seed='new')} WHERE id = 4",
        "UPDATE note SET body = NULL WHERE id = 5",
        "DELETE FROM note WHERE id = 6",
    )
    joined.carry()
    joined.assert_joined()

    joined.chain.write(
        # It was left out by the condition, and was in no shop that is there.
        "UPDATE note SET state = 'open again' WHERE id = 3",
        "UPDATE note SET state = 'found' WHERE id = 7",
        "UPDATE note SET shop = 1 WHERE id = 7",
        "UPDATE note SET state = 'newer' WHERE id = 4",
        "DELETE FROM shop WHERE id = 1",
        # With the whole row before it, in a transaction of its own: another key, with the values of before.
        "ALTER TABLE note REPLICA IDENTITY FULL",
        "UPDATE note SET id = 108 WHERE id = 8",
        "ALTER TABLE note REPLICA IDENTITY DEFAULT",
        "UPDATE note SET state = 'moved' WHERE id = 108",
        f"INSERT INTO shop VALUES (4, 'Bonn', {_LONG.format(seed='bonn')})",
    )
    joined.carry()
    joined.assert_joined()


@pytest.mark.nightly
def test_updates_that_lack_long_values_are_joined_with_those_of_before(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    joined = _with_join(make_postgres(*_TABLES), InProcessRunner())

    _check(joined)

    assert "equal" in joined.ask("verify")
    assert "rows that lack columns are made whole by what is kept" in joined.ask("check")


@pytest.mark.nightly
def test_spark_joins_updates_that_lack_long_values_as_well(
    make_postgres: Callable[..., PostgresChain], request: pytest.FixtureRequest
) -> None:
    from penstock.spark.runner import SparkRunner  # noqa: PLC0415 - PySpark takes a second
    from penstock.spark.supervisor import NoServices  # noqa: PLC0415

    joined = _with_join(make_postgres(*_TABLES), SparkRunner(request.getfixturevalue("spark"), NoServices()))

    _check(joined)

    assert "equal" in joined.ask("verify")


@pytest.mark.nightly
def test_a_table_that_is_read_anew_while_it_changes_is_joined_as_it_is(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    joined = _with_join(make_postgres(*_TABLES), InProcessRunner())
    joined.carry()
    ask_for_snapshots(joined.chain.spec, ["public.note"], SnapshotOptions(full_refresh=True, chunk_rows=2))
    joined.chain.write("UPDATE note SET state = 'seen' WHERE id = 1", "UPDATE note SET shop = 2 WHERE id = 8")
    joined.carry()
    joined.chain.write("UPDATE note SET state = 'seen again'")
    joined.carry()

    joined.assert_joined()
    assert "equal" in joined.ask("verify")


@pytest.mark.nightly
def test_a_compacted_topic_whose_rows_may_lack_columns_is_refused_with_what_to_do(
    make_postgres: Callable[..., PostgresChain], kafka: KafkaBroker
) -> None:
    chain = make_postgres(*_TABLES)
    carry(chain.spec)
    joined, topic = _with_join(chain, InProcessRunner()), f"src_{chain.name}.public.note"
    _compact(kafka, topic)

    asked = CliRunner().invoke(joinery, ["check", str(chain.file)])
    with pytest.raises(UsageError, match=rf"needs all messages of {topic}, whose rows may lack columns"):
        joined.carry()

    assert asked.exit_code == UsageError.exit_code
    assert f"set cleanup.policy=delete, retention.ms=-1 and retention.bytes=-1 on {topic}" in asked.stderr


@pytest.mark.nightly
def test_a_topic_that_is_compacted_later_stops_its_join_and_is_not_verified(
    make_postgres: Callable[..., PostgresChain], kafka: KafkaBroker
) -> None:
    joined = _with_join(make_postgres(*_TABLES), InProcessRunner())
    joined.carry()
    chain, refused = joined.chain, "whose rows may lack columns, and it is compacted"
    _compact(kafka, f"src_{chain.name}.public.note")

    verified = CliRunner().invoke(joinery, ["verify", str(chain.file)])
    with pytest.raises(UsageError, match=refused):
        joined.carry()
    joined.ask("rebuild", _name(chain))
    with pytest.raises(UsageError, match=refused):
        joined.carry()

    assert verified.exit_code == UsageError.exit_code
    assert refused in verified.stderr


def _compact(kafka: KafkaBroker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for answer in admin.incremental_alter_configs([resource]).values():
        answer.result(10)


@pytest.mark.nightly
def test_blanks_that_a_char_is_filled_with_do_not_count_in_keys_and_conditions(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    joined = _with_join(
        make_postgres(
            "CREATE TABLE note (id int PRIMARY KEY, shop char(5), state char(9) NOT NULL, body text, extra jsonb)",
            "CREATE TABLE shop (id varchar(8) PRIMARY KEY, city text, about text)",
            "INSERT INTO shop VALUES ('a', 'Ulm'), ('abcde', 'Bonn')",
            "INSERT INTO note VALUES (1, 'a', 'open'), (2, 'abcde', 'open'), (3, 'a', 'closed'), (4, 'b', 'open')",
        ),
        InProcessRunner(),
    )
    joined.carry()
    joined.assert_joined()

    joined.chain.write("INSERT INTO shop VALUES ('b', 'Kiel')", "UPDATE note SET state = 'closed' WHERE id = 2")
    joined.carry()

    joined.assert_joined()
    assert "equal" in joined.ask("verify")

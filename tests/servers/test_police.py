"""Topics of a pipeline are made, and kept, as its file says; nothing is taken away, and nobody else's is touched."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from penstock.adapters.kafka.cluster import create_topics
from penstock.adapters.kafka.topic_policy import TopicKeeper
from penstock.cli.police import app
from penstock.wiring.open import kafka_cluster, schema_changes_topic
from penstock.wiring.scheduled_police import ScheduledPolice

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.postgres_chain import PostgresChain

_RULES = """\
police:
  every: 60s
  rules:
    - {{topics: "src_{name}.*.kept", partitions: 3, cleanup: compact, retention: 30d}}
    - {{topics: "src_{name}.*.bare", cleanup: compact}}
    - {{topics: "src_{name}.*.short", retention: 14d}}
"""
_DAY_MS = 86_400_000


def police(chain: PostgresChain, *options: str) -> dict[str, Any]:
    """What the command finds, by topic and by what it is about."""
    result = CliRunner().invoke(app, [str(chain.file), "--json", *options])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    return {
        **report,
        "found": {(each["topic"], each["what"]): (each["outcome"], each["wanted"]) for each in report["findings"]},
    }


def test_topics_are_made_and_kept_as_the_file_says(make_postgres: Callable[..., PostgresChain]) -> None:
    chain = make_postgres(
        "CREATE TABLE kept (id int PRIMARY KEY)",
        "INSERT INTO kept SELECT generate_series(1, 30)",
        "CREATE TABLE bare (a int)",
        "ALTER TABLE bare REPLICA IDENTITY FULL",
        "CREATE TABLE short (id int PRIMARY KEY)",
        "CREATE TABLE other (id int PRIMARY KEY)",
        more="    format: json",
    )
    chain.file.write_text(chain.file.read_text() + _RULES.format(name=chain.name))
    chain.carry()
    keeper = TopicKeeper(kafka_cluster(chain.spec))
    kept = topic_of(chain, "kept")
    made = keeper.read([kept])[kept]
    assert made.partitions == 3
    assert made.settings["retention.ms"] == str(30 * _DAY_MS)
    assert made.settings["cleanup.policy"] == "delete"

    assert_drift_is_corrected(chain, keeper)

    # The pipeline goes on, over more partitions than kafka.partitions says.
    chain.write("INSERT INTO kept VALUES (100)", "DELETE FROM kept WHERE id <= 10", "INSERT INTO bare VALUES (1)")
    chain.carry()
    source, warehouse = chain.both("SELECT id FROM public.kept ORDER BY id")
    assert warehouse == source
    assert chain.stopped() == {}
    assert_a_run_corrects_drift(chain, keeper)
    assert_all_is_read_where_the_file_asks_for_fewer_partitions(chain)


def topic_of(chain: PostgresChain, table: str) -> str:
    return f"src_{chain.name}.public.{table}"


def assert_drift_is_corrected(chain: PostgresChain, keeper: TopicKeeper) -> None:
    """Somebody changes what is kept, also of a ledger, and has a topic of a like name."""
    kept, bare, short = (topic_of(chain, table) for table in ("kept", "bare", "short"))
    ledger, foreign = schema_changes_topic(chain.spec), f"{topic_of(chain, 'of_others')}.kept"
    create_topics(kafka_cluster(chain.spec), [foreign], {"retention.ms": "1000"}, partitions=1)
    keeper.change(short, {"retention.ms": "3600000"})
    keeper.change(ledger, {"retention.ms": str(365 * _DAY_MS)})
    drift = {
        (kept, "cleanup.policy"): "compact",
        (short, "retention.ms"): str(14 * _DAY_MS),
        (ledger, "retention.ms"): "-1",
    }
    refused = {(bare, "cleanup.policy"): ("refused", "compact")}

    dry = police(chain)
    unchanged = keeper.read([short])[short].settings["retention.ms"]
    applied = police(chain, "--apply")
    after = police(chain)

    assert dry["found"] == {**{place: ("drift", wanted) for place, wanted in drift.items()}, **refused}
    assert unchanged == "3600000"
    assert applied["found"] == {**{place: ("set", wanted) for place, wanted in drift.items()}, **refused}
    assert after["found"] == refused
    assert after["without_rule"] == [topic_of(chain, "other")]
    settings = keeper.read([kept, foreign])
    assert settings[kept].settings["cleanup.policy"] == "compact"
    assert settings[kept].settings["min.compaction.lag.ms"] == str(7 * _DAY_MS)
    assert settings[foreign].settings["retention.ms"] == "1000"


def assert_a_run_corrects_drift(chain: PostgresChain, keeper: TopicKeeper) -> None:
    short = topic_of(chain, "short")
    keeper.change(short, {"retention.ms": "3600000"})
    with ScheduledPolice(chain.spec):
        deadline = time.monotonic() + 30
        while keeper.read([short])[short].settings["retention.ms"] == "3600000" and time.monotonic() < deadline:
            time.sleep(0.1)
    assert keeper.read([short])[short].settings["retention.ms"] == str(14 * _DAY_MS)


@pytest.mark.nightly
def test_the_command_says_in_words_what_it_would_set_and_what_it_cannot(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres("CREATE TABLE kept (id int PRIMARY KEY)", "CREATE TABLE other (id int PRIMARY KEY)")
    chain.carry()
    without = CliRunner().invoke(app, [str(chain.file)])
    chain.file.write_text(chain.file.read_text() + _RULES.format(name=chain.name))

    result = CliRunner().invoke(app, [str(chain.file)])

    topic = f"src_{chain.name}.public.kept"
    assert "add it: police:" in str(getattr(without.exception, "hint", ""))
    assert f"{topic}: would set retention.ms from 7d to 30d" in result.output
    assert f"{topic}: not set partitions from 1 to 3" in result.output
    assert "messages of one key would be in two partitions, out of order" in result.output
    assert f"src_{chain.name}.public.other: no rule matches it" in result.output
    assert "3 to set, with --apply; 1 cannot be" in result.output


def assert_all_is_read_where_the_file_asks_for_fewer_partitions(chain: PostgresChain) -> None:
    """A rule is for new topics: what is told of a table later says how many partitions its topic has."""
    chain.file.write_text(chain.file.read_text().replace("partitions: 3, ", ""))
    chain.write("TRUNCATE kept", "INSERT INTO kept SELECT generate_series(201, 230)")
    chain.carry()

    source, warehouse = chain.both("SELECT id FROM public.kept ORDER BY id")
    assert warehouse == source
    assert len(source) == 30

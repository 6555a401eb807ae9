"""A message that somebody else wrote to a table's topic stops that table; a full refresh brings it back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from tests.servers.chain import Chain, make_chain
from tests.servers.forged import message_with, put
from tests.servers.kinds import first
from typer.testing import CliRunner

from penstock.cli.audit import app
from penstock.core.snapshots import SnapshotOptions
from penstock.wiring.health import find_problems
from penstock.wiring.open import kafka_cluster
from penstock.wiring.snapshots import ask_for_snapshots

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer


@pytest.fixture(params=["avro", pytest.param("json", marks=pytest.mark.nightly)])
def chain(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    mariadb: MariadbServer,
    fresh_database: str,
    chain_parts: tuple[KafkaBroker, str, int],
) -> Chain:
    """A pipeline with two tables whose target has all of them; row 8 of `orders` was changed last."""
    made = make_chain(tmp_path, fresh_database, mariadb, chain_parts)
    made.use_format(request.param)
    made.write(
        "CREATE TABLE orders (id INT PRIMARY KEY, customer VARCHAR(40))",
        "CREATE TABLE others (id INT PRIMARY KEY)",
        "INSERT INTO orders SELECT seq, CONCAT('c', seq) FROM seq_1_to_50",
    )
    made.start()
    made.write("UPDATE orders SET customer = 'change8' WHERE id = 8")
    made.carry()
    return made


@pytest.mark.nightly
@pytest.mark.parametrize("seen_first_by", first(1, "capture alone", "files", "capture"))
def test_a_foreign_message_stops_its_table_alone_until_a_full_refresh(chain: Chain, seen_first_by: str) -> None:
    topic, partition, _, value = message_with(chain, "orders", b"change8")
    # What is at the same place of the log as the message ahead of it is found by counting, and by nothing else.
    forged = value.replace(b"change8", b"forged8") if seen_first_by == "capture alone" else b"hello"
    put(chain, topic, partition, forged)
    foreign = f"{topic}/{partition} has a foreign message at offset {message_with(chain, 'orders', forged)[2]}"
    chain.write("INSERT INTO others VALUES (1)", "UPDATE orders SET customer = 'later' WHERE id = 9")
    if seen_first_by == "files":
        chain.write_objects()
        chain.mirror()
        assert said(chain) == {f"objects, {chain.name}.orders": foreign}

    chain.carry()
    chain.write("INSERT INTO others VALUES (2)", "DELETE FROM orders WHERE id = 9")
    chain.carry()
    chain.mirror()

    assert chain.query("SELECT count(*) FROM {schema}.others") == [(2,)]
    assert chain.query("SELECT customer FROM {schema}.orders WHERE id = 9") == [("c9",)]
    if seen_first_by == "capture alone":
        (why,) = said(chain).values()
        assert why.startswith(f"topic {topic} has ")
    else:
        assert said(chain) == {f"{link}, {chain.name}.orders": foreign for link in ("objects", chain.source)}

    audited = {table.rpartition(".")[2]: found for table, found in audits(chain, 3).items()}
    assert audited["others"]["state"] == "equal"
    assert (audited["orders"]["state"], "--full-refresh" in audited["orders"]["why"]) == ("failed", True)

    ask_for_snapshots(chain.spec, [f"{chain.name}.orders"], SnapshotOptions(full_refresh=True))
    chain.carry()
    chain.write("UPDATE orders SET customer = 'last' WHERE id = 10")
    chain.carry()
    chain.mirror()

    assert said(chain) == {}
    assert chain.query("SELECT count(*), count(*) FILTER (customer = 'last') FROM {schema}.orders") == [(49, 1)]
    (found,) = [each for table, each in audits(chain, 0).items() if table.endswith("orders")]
    assert (found["state"], found["score"], found["source_rows"]) == ("equal", 1, 49)
    assert {each["stage"]: each["state"] for each in found["stages"]["audited"]} == {"topic": "equal", "files": "equal"}


def test_messages_that_were_thrown_away_unread_stop_their_table_alone_until_a_full_refresh(chain: Chain) -> None:
    chain.write("UPDATE orders SET customer = 'unread' WHERE id < 5", "INSERT INTO others VALUES (1)")
    chain.capture()
    topic, partition, offset, _ = message_with(chain, "orders", b"unread")
    admin = AdminClient(kafka_cluster(chain.spec).client_settings())
    for done in admin.delete_records([TopicPartition(topic, partition, offset + 1)]).values():
        done.result(30)

    chain.carry()
    chain.write("UPDATE orders SET customer = 'later' WHERE id = 9", "INSERT INTO others VALUES (2)")
    chain.carry()
    chain.mirror()

    assert chain.query("SELECT count(*) FROM {schema}.others") == [(2,)]
    (subject, why), *more = said(chain).items()
    assert (subject, more) == (f"objects, {chain.name}.orders", [])
    assert why.startswith(f"{topic}/{partition} begins at {offset + 1}, and was read up to ")

    ask_for_snapshots(chain.spec, [f"{chain.name}.orders"], SnapshotOptions(full_refresh=True))
    chain.carry()
    chain.mirror()

    assert said(chain) == {}
    counted = (
        "SELECT customer, count(*) FROM {schema}.orders WHERE customer IN ('unread', 'later') GROUP BY 1 ORDER BY 1"
    )
    assert chain.query(counted) == [("later", 1), ("unread", 4)]


def said(chain: Chain) -> dict[str, str]:
    """What `penstock status` tells of tables: who of the two that read topics stopped which, and why."""
    found = {}
    for problem in find_problems(chain.status(), str(chain.file)):
        link, _, table = problem.subject.partition(", ")
        if table and link in {"objects", chain.source}:
            assert f"penstock snapshot {chain.file} {chain.name}.orders --full-refresh" in problem.hint
            found[problem.subject] = problem.text.partition(":")[0]
    return found


def audits(chain: Chain, exit_code: int) -> dict[str, Any]:
    """What an audit by stages tells of each table."""
    text = chain.file.read_text().partition("audits:")[0]
    chain.file.write_text(f"{text}audits:\n  - {{source: {chain.source}, sink: wh, wait_seconds: 5}}\n")
    result = CliRunner().invoke(app, [str(chain.file), "--stages", "--json"])
    assert result.exit_code == exit_code, result.output
    return {str(each["table"]): each for each in json.loads(result.stdout)["tables"]}

"""A topic of a table is compared with a database by URL: its messages, folded by key, are the table."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from tests.servers.chain import Chain, make_chain
from tests.servers.forged import message_with, put
from tests.servers.test_audit_kinds import TYPED, VALUES
from typer.testing import CliRunner

from penstock.cli.audit import app
from penstock.core.errors import UnavailableError, UsageError
from penstock.core.tables import TableId
from penstock.links.audit.compare import Bounds
from penstock.wiring.audit_urls import TableAt, audit_urls

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.servers.postgres_chain import PostgresChain

    from penstock.core.audit.findings import TableFindings
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
    """A pipeline whose topics have two tables; row 8 was changed, 9 deleted, and 10 got another key."""
    made = make_chain(tmp_path, fresh_database, mariadb, chain_parts)
    text = made.file.read_text()
    made.file.write_text(text.replace("kafka: {", "kafka: {partitions: 3, "))
    made.use_format(request.param)
    made.write(
        "SET time_zone = '+00:00'",
        "CREATE TABLE orders (id INT PRIMARY KEY, customer VARCHAR(40), total DECIMAL(10,2), at TIMESTAMP(6) NULL)",
        "INSERT INTO orders SELECT seq, CONCAT('c', seq), seq / 4, NOW(6) FROM seq_1_to_500",
        f"CREATE TABLE typed ({TYPED}) CHARACTER SET utf8mb4",
        f"INSERT INTO typed VALUES {VALUES}",
        "CREATE TABLE logged (line TEXT)",
        "INSERT INTO logged VALUES ('x')",
    )
    made.start()
    made.capture()
    made.write(
        "DELETE FROM orders WHERE id = 9",
        "UPDATE orders SET customer = 'change8' WHERE id = 8",
        "UPDATE orders SET id = 1010 WHERE id = 10",
    )
    made.capture()
    return made


def test_a_topic_is_its_table_and_rows_that_differ_are_named_on_either_side(chain: Chain) -> None:
    equal = [_audit(chain, "orders"), _audit(chain, "orders", is_topic_first=True), _audit(chain, "typed")]

    chain.write(
        "SET SESSION sql_log_bin = 0",
        "UPDATE orders SET total = 1 WHERE id = 30",
        "DELETE FROM orders WHERE id = 31",
        "INSERT INTO orders VALUES (9, 'again', 1, NULL)",
    )
    found = _audit(chain, "orders")
    other = _audit(chain, "orders", is_topic_first=True)

    assert [(each.state, each.why, each.not_compared) for each in equal] == [("equal", "", ())] * 3
    assert [(each.source_rows, each.target_rows) for each in equal] == [(499, 499), (499, 499), (3, 3)]
    assert {row.key: (row.state, dict(row.columns)) for row in found.rows} == {
        ("30",): ("different", {"total": ("1.00", "7.50")}),
        ("31",): ("extra", {}),
        ("9",): ("missing", {}),
    }
    assert {row.key: row.state for row in other.rows} == {("30",): "different", ("31",): "missing", ("9",): "extra"}
    assert (found.state, other.state) == ("different", "different")


def test_messages_that_no_capture_wrote_make_a_topic_differ_and_are_named(chain: Chain) -> None:
    topic, partition, _, value = message_with(chain, "orders", b"change8")
    chain.write("UPDATE orders SET customer = 'later' WHERE id = 8")
    chain.capture()
    put(chain, topic, partition, b"hello")
    foreign = _audit(chain, "orders")
    put(chain, topic, partition, value.replace(b"change8", b"forged8"))
    forged = _audit(chain, "orders", pipeline=chain.spec.pipeline)

    assert (foreign.state, foreign.rows) == ("different", ())
    assert foreign.score is not None
    assert foreign.why.startswith(f"{topic}/{partition} has a foreign message at offset ")
    assert {row.key: row.columns["customer"] for row in forged.rows} == {("8",): ("later", "forged8")}
    assert "its position in the log is before that of the message ahead of it" in forged.why


def test_of_an_emptied_table_old_rows_are_left_unless_the_url_names_the_pipeline(chain: Chain) -> None:
    chain.write("TRUNCATE orders", "INSERT INTO orders VALUES (1, 'only', 1, NULL)")
    chain.capture()

    alone = _audit(chain, "orders")
    told = _audit(chain, "orders", pipeline=chain.spec.pipeline)

    assert (alone.state, alone.source_rows, alone.target_rows) == ("different", 1, 499)
    assert {row.state for row in alone.rows} == {"extra"}
    assert "without &pipeline=NAME in its URL" in alone.why
    assert (told.state, told.target_rows, told.why) == ("equal", 1, "")


def test_a_topic_that_is_not_one_of_a_table_with_a_key_is_refused_and_one_without_its_oldest_changes_has_no_score(
    chain: Chain,
) -> None:
    with pytest.raises(UsageError, match="has no primary key"):
        _audit(chain, "logged")
    with pytest.raises(UsageError, match="knows no topic"):
        _audit(chain, "nothing")
    with pytest.raises(UsageError, match="has told nothing of topic"):
        _audit(chain, "orders", pipeline="another")
    with pytest.raises(UsageError, match=f"is of table {chain.name}.typed, and not of {chain.name}.orders"):
        _audit(chain, "orders", url=_url(chain, "typed"))
    with pytest.raises(UnavailableError, match="schematizer"):
        _audit(chain, "orders", url=_url(chain, "orders").partition("=")[0] + "=http://127.0.0.1:1")
    admin = AdminClient({"bootstrap.servers": str(chain.spec.kafka.bootstrap_servers)})
    for done in admin.delete_records([TopicPartition(_topic(chain, "orders"), 0, 1)]).values():
        done.result(30)

    result = CliRunner().invoke(
        app,
        ["--from", _database(chain), "--to", _url(chain, "orders"), "--table", f"{chain.name}.orders", "--json"],
    )

    assert result.exit_code == 1, result.output
    said = json.loads(result.stdout)
    (table,) = said["tables"]
    assert (said["passed"], said["score"], table["score"], table["state"]) == (False, None, None, "failed")
    assert table["why"].startswith("not compared: the oldest changes are gone from its topic")


@pytest.mark.nightly
def test_a_table_goes_on_in_its_newest_topic_and_what_came_before_is_read_too(chain: Chain) -> None:
    chain.write(
        "ALTER TABLE orders MODIFY total DECIMAL(12,2), ADD COLUMN later INT DEFAULT 7",
        "UPDATE orders SET total = 9999999999.99 WHERE id = 8",
    )
    chain.capture()
    old, new = _topic(chain, "orders"), f"{_topic(chain, 'orders')}.v2"

    with pytest.raises(UsageError, match=f"which goes on in {new}") as refused:
        _audit(chain, "orders")
    found = _audit(chain, "orders", url=_url(chain, "orders").replace(old, new))

    assert new in refused.value.hint
    assert (found.state, found.source_rows, found.target_rows) == ("equal", 499, 499)
    assert [each.column for each in found.not_compared] == ["later"]


@pytest.mark.nightly
def test_rows_in_flight_are_not_reported_while_the_topic_is_written_to(chain: Chain) -> None:
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            chain.write("UPDATE orders SET total = total + 1 WHERE id % 50 = 0", "DELETE FROM orders WHERE id = 400")
            chain.write("INSERT INTO orders VALUES (400, 'back', 1, NULL)")
            chain.capture()

    writer = threading.Thread(target=change)
    writer.start()
    try:
        found = [_audit(chain, "orders") for _ in range(5)]
    finally:
        stop.set()
        writer.join()

    assert {row.key for each in found for row in each.rows} == set()
    assert {each.state for each in found} <= {"equal", "lagging"}
    assert _audit(chain, "orders").state == "equal"


@pytest.mark.nightly
def test_a_topic_that_kafka_does_not_have_and_brokers_that_are_away_are_told(chain: Chain) -> None:
    away = _url(chain, "orders").replace(str(chain.spec.kafka.bootstrap_servers), "127.0.0.1:1")
    admin = AdminClient({"bootstrap.servers": str(chain.spec.kafka.bootstrap_servers)})

    with pytest.raises(UnavailableError, match="Kafka"):
        _audit(chain, "orders", url=away)
    for done in admin.delete_topics([_topic(chain, "orders")]).values():
        done.result(30)
    with pytest.raises(UsageError, match="there is no topic"):
        _audit(chain, "orders")


@pytest.mark.nightly
def test_values_that_messages_of_postgres_lack_are_not_compared_and_all_others_are(
    make_postgres: Callable[..., PostgresChain],
) -> None:
    chain = make_postgres(
        "CREATE TABLE notes (id int PRIMARY KEY, body text, n int, ok boolean, at timestamptz, price numeric(12,2))",
        "ALTER TABLE notes ALTER COLUMN body SET STORAGE EXTERNAL",
        "INSERT INTO notes SELECT i, repeat('x', 9000), i, i % 2 = 0, now(), i / 7.0 FROM generate_series(1, 50) i",
    )
    chain.carry()
    whole = _audit_postgres(chain)
    chain.write("UPDATE notes SET n = 0 WHERE id = 7", "DELETE FROM notes WHERE id = 8")
    chain.carry()
    lacking = _audit_postgres(chain)
    chain.write("UPDATE notes SET body = 'short' WHERE id = 7")
    chain.carry()
    whole_again = _audit_postgres(chain)

    assert (whole.state, whole.source_rows, whole.target_rows, whole.not_compared) == ("equal", 50, 50, ())
    assert (lacking.state, lacking.source_rows, lacking.target_rows) == ("equal", 49, 49)
    assert [each.column for each in lacking.not_compared] == ["body"]
    assert (whole_again.state, whole_again.not_compared) == ("equal", ())


def _audit_postgres(chain: PostgresChain) -> TableFindings:
    named, server = TableId("public", "notes"), chain.server
    assert chain.spec.schematizer is not None
    topic = f"{chain.spec.sources[0].name}.public.notes?schematizer={chain.spec.schematizer.url}"
    login = f"{server.user}:{quote(server.password)}@{server.host}:{server.port}"
    sides = (
        TableAt(f"postgresql://{login}/{chain.name}", named),
        TableAt(f"topic://{chain.spec.kafka.bootstrap_servers}/{topic}", named),
    )
    (found,) = audit_urls(*sides, Bounds()).tables
    return found


def _topic(chain: Chain, table: str) -> str:
    return f"{chain.source}.{chain.name}.{table}"


def _url(chain: Chain, table: str) -> str:
    schematizer = chain.spec.schematizer
    assert schematizer is not None
    return f"topic://{chain.spec.kafka.bootstrap_servers}/{_topic(chain, table)}?schematizer={schematizer.url}"


def _database(chain: Chain) -> str:
    server = chain.server
    return f"mysql://{server.user}:{quote(server.password)}@{server.host}:{server.port}"


def _audit(
    chain: Chain, table: str, *, url: str = "", pipeline: str = "", is_topic_first: bool = False
) -> TableFindings:
    named = TableId(chain.name, table)
    topic = TableAt((url or _url(chain, table)) + (f"&pipeline={pipeline}" if pipeline else ""), named)
    database = TableAt(_database(chain), named)
    source, target = (topic, database) if is_topic_first else (database, topic)
    (found,) = audit_urls(source, target, Bounds()).tables
    return found

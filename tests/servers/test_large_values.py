"""A row that its topic does not take stops its table alone, wherever it is met, and comes when the topic takes it."""

from __future__ import annotations

import os
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from tests.servers.chain import Chain, make_chain

from penstock.core.snapshots import SnapshotOptions, Status
from penstock.links.large_messages import large_folder
from penstock.links.objects.large_retention import LargeRetention
from penstock.wiring.open import kafka_cluster, open_object_store, open_topic_log
from penstock.wiring.snapshots import ask_for_snapshots, read_snapshots

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer

LARGE = "INSERT INTO large VALUES (%s, %s, %s)"
HALF_BYTES = 700_000


@pytest.fixture
def chain(
    mariadb: MariadbServer,
    chain_parts: tuple[KafkaBroker, str, int],
    fresh_database: str,
    tmp_path: Path,
) -> Chain:
    chain = make_chain(tmp_path, fresh_database, mariadb, chain_parts)
    chain.write(
        "CREATE TABLE large (id INT PRIMARY KEY, a MEDIUMBLOB, b MEDIUMBLOB)",
        "CREATE TABLE small (id INT PRIMARY KEY)",
        "INSERT INTO large VALUES (1, 'a', 'b')",
        "INSERT INTO small VALUES (1)",
    )
    return chain


def limit(chain: Chain, bytes_max: int) -> None:
    """Let the topic of `large` take messages of so many bytes."""
    admin = AdminClient(kafka_cluster(chain.spec).client_settings())
    resource = ConfigResource(
        ResourceType.TOPIC,
        topic_of(chain),
        incremental_configs=[
            ConfigEntry("max.message.bytes", str(bytes_max), incremental_operation=AlterConfigOpType.SET)
        ],
    )
    for answer in admin.incremental_alter_configs([resource]).values():
        answer.result(30)


def topic_of(chain: Chain) -> str:
    return f"{chain.source}.{chain.name}.large"


def insert_large(chain: Chain, row: int) -> None:
    """Write 1.4 million bytes that cannot be compressed."""
    with chain.cursor() as cursor:
        cursor.execute(LARGE, (row, os.urandom(HALF_BYTES), os.urandom(HALF_BYTES)))


def require_swept(chain: Chain) -> int:
    """Delete the files of large messages as if a month had passed since; how many there were."""
    store = open_object_store(chain.spec)
    keys = store.list(large_folder(chain.name))
    now_ms = time.time_ns() // 1_000_000
    with closing(open_topic_log(chain.spec)) as log:
        retention = LargeRetention(chain.name, log, log, store, 0)
        assert retention.sweep(now_ms).files == 0
        for key in keys:
            os.utime(store.local_path(key) or "", (now_ms / 1000 - 30 * 86_400,) * 2)
        assert retention.sweep(now_ms).files == len(keys)
    assert store.list(large_folder(chain.name)) == []
    return len(keys)


def told(chain: Chain) -> list[str]:
    chain.mirror("stopped")
    return [f"{table.error} {table.hint}" for table in chain.status().tables if table.error]


def require_stopped_alone(chain: Chain) -> None:
    (said,) = told(chain)
    assert f"topic {topic_of(chain)} takes 1,000,000" in said
    assert f"raise max.message.bytes of {topic_of(chain)}" in said
    assert f"penstock snapshot FILE {chain.name}.large" in said or "penstock snapshot FILE TABLE" in said


@pytest.mark.nightly
def test_a_change_that_is_too_large_stops_its_table_and_what_the_hint_says_brings_it(chain: Chain) -> None:
    chain.start()
    chain.carry()
    limit(chain, 1_000_000)
    insert_large(chain, 2)
    chain.write("INSERT INTO small VALUES (2)")
    chain.carry()

    require_stopped_alone(chain)
    assert chain.query("SELECT id FROM {schema}.small ORDER BY id") == [(1,), (2,)]

    limit(chain, 64 << 20)
    ask_for_snapshots(chain.spec, [f"{chain.name}.large"], SnapshotOptions())
    chain.carry()
    insert_large(chain, 3)
    chain.carry()

    assert told(chain) == []
    assert chain.query("SELECT id, octet_length(a) + octet_length(b) FROM {schema}.large ORDER BY id") == [
        (1, 2),
        (2, 1_400_000),
        (3, 1_400_000),
    ]


@pytest.mark.nightly
def test_a_row_that_is_too_large_stops_its_table_in_an_initial_snapshot(chain: Chain) -> None:
    insert_large(chain, 2)
    admin = AdminClient(kafka_cluster(chain.spec).client_settings())
    for answer in admin.create_topics([NewTopic(topic_of(chain), 1, 1)]).values():
        answer.result(30)
    limit(chain, 1_000_000)

    chain.start()
    chain.write("INSERT INTO small VALUES (2)")
    chain.carry()

    require_stopped_alone(chain)
    assert chain.query("SELECT id FROM {schema}.small ORDER BY id") == [(1,), (2,)]


@pytest.mark.nightly
def test_a_row_that_is_too_large_ends_the_snapshot_of_its_table_and_nothing_else(chain: Chain) -> None:
    chain.start()
    chain.carry()
    limit(chain, 1_000_000)
    with chain.cursor() as cursor:
        cursor.execute("SET SESSION sql_log_bin = 0")
        cursor.execute(LARGE, (2, os.urandom(HALF_BYTES), os.urandom(HALF_BYTES)))
    ask_for_snapshots(chain.spec, [f"{chain.name}.large"], SnapshotOptions())
    chain.write("INSERT INTO small VALUES (2)")
    chain.carry()

    (snapshot,) = read_snapshots(chain.spec)
    assert snapshot.status is Status.FAILED
    assert f"topic {topic_of(chain)} takes 1,000,000" in snapshot.error
    assert chain.query("SELECT id FROM {schema}.small ORDER BY id") == [(1,), (2,)]


def test_with_large_values_in_the_object_store_every_row_comes_whole_and_no_table_stops(chain: Chain) -> None:
    text = chain.file.read_text().replace("start: snapshot", "start: snapshot\n    large_values: objects")
    chain.file.write_text(text)
    insert_large(chain, 2)
    admin = AdminClient(kafka_cluster(chain.spec).client_settings())
    for answer in admin.create_topics([NewTopic(topic_of(chain), 1, 1)]).values():
        answer.result(30)
    limit(chain, 1_000_000)

    chain.start()
    chain.carry()
    for row in range(3, 6):
        insert_large(chain, row)
    chain.write(
        "BEGIN",
        "INSERT INTO large VALUES (6, 'a', 'b')",
        "UPDATE large SET id = 7 WHERE id = 3",
        "DELETE FROM large WHERE id = 4",
        "COMMIT",
        "INSERT INTO small VALUES (2)",
    )
    chain.carry()
    ask_for_snapshots(chain.spec, [f"{chain.name}.large"], SnapshotOptions())
    chain.carry()

    assert told(chain) == []
    assert read_snapshots(chain.spec)[0].status is Status.DONE
    with chain.cursor() as cursor:
        cursor.execute("SELECT id, md5(a), md5(b) FROM large ORDER BY id")
        there = list(cursor.fetchall())
    assert [row[0] for row in there] == [1, 2, 5, 6, 7]
    assert chain.query("SELECT id, md5(a), md5(b) FROM {schema}.large ORDER BY id") == there
    chain.write("UPDATE large SET a = concat(a, 'x') WHERE id = 7")
    chain.capture(2)
    chain.capture(3)
    chain.write_objects()
    chain.load()
    assert chain.query("SELECT octet_length(a) FROM {schema}.large WHERE id = 7") == [(HALF_BYTES + 1,)]
    assert require_swept(chain) > 4


@pytest.mark.nightly
def test_a_row_of_128_mebibytes_which_no_broker_takes_is_the_same_in_the_target(chain: Chain) -> None:
    text = chain.file.read_text().replace("start: snapshot", "start: snapshot\n    large_values: objects")
    chain.file.write_text(text)
    chain.write("ALTER TABLE large MODIFY a LONGBLOB")
    chain.start()
    chain.carry()

    with chain.cursor() as cursor:
        cursor.execute("SET SESSION sql_log_bin = 0")
        cursor.execute("CREATE TEMPORARY TABLE made (a LONGBLOB)")
        cursor.execute("INSERT INTO made VALUES (%s)", (os.urandom(1 << 20),))
        for _ in range(7):
            cursor.execute("UPDATE made SET a = concat(a, a)")
        cursor.execute("SET SESSION sql_log_bin = 1")
        cursor.execute("INSERT INTO large SELECT 2, a, 'b' FROM made")
    chain.write("UPDATE large SET b = 'c' WHERE id = 2", "INSERT INTO small VALUES (2)")
    chain.carry()

    assert told(chain) == []
    with chain.cursor() as cursor:
        cursor.execute("SELECT id, octet_length(a), md5(a) FROM large ORDER BY id")
        there = list(cursor.fetchall())
    assert there[1][:2] == (2, 128 << 20)
    assert chain.query("SELECT id, octet_length(a), md5(a) FROM {schema}.large ORDER BY id") == there
    assert chain.query("SELECT b::VARCHAR FROM {schema}.large WHERE id = 2") == [("c",)]

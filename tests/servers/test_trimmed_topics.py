"""A batch topic that begins later, between real servers: what comes then is filled, audited and killed as before."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from structlog.testing import capture_logs
from tests.servers.chain import Chain, make_chain
from tests.servers.forked import run_forked
from tests.servers.test_fills import add_target, rows, source_rows
from typer.testing import CliRunner

from penstock.adapters.kafka.cluster import KafkaCluster, create_topics
from penstock.adapters.kafka.reader import TopicReader
from penstock.cli.audit import app
from penstock.config.load import load
from penstock.jobs.in_process import carry, carry_link
from penstock.wiring.files import objects_record
from penstock.wiring.open import OBJECTS_LINK, batch_topic, open_topic_log, settled_end

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer

TABLES = ("orders", "moved")


@pytest.fixture
def chain(
    mariadb: MariadbServer,
    chain_parts: tuple[KafkaBroker, str, int],
    fresh_database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Chain:
    """A pipeline of tables with keys, whose files and batch messages go as soon as its target has them."""
    monkeypatch.setattr("penstock.links.warehouse.filling._PERIOD_SECONDS", 0.0)
    chain = make_chain(tmp_path, fresh_database, mariadb, chain_parts, "objects: {keep_hours: 0}")
    chain.write("CREATE TABLE orders (id INT PRIMARY KEY, n INT)", "INSERT INTO orders SELECT seq, 0 FROM seq_1_to_300")
    chain.start()
    chain.carry()
    for name in ("gone", "old"):
        chain.write(f"CREATE TABLE {name} (id INT PRIMARY KEY, n INT)", f"INSERT INTO {name} VALUES (1, 1)")
    chain.write("DROP TABLE gone", "RENAME TABLE old TO moved", "DELETE FROM orders WHERE id > 290")
    chain.carry()
    return chain


def change(chain: Chain, number: int) -> None:
    chain.write(f"UPDATE orders SET n = n + 1 WHERE id % {number} = 0", f"REPLACE INTO orders VALUES (1000, {number})")


def begin(chain: Chain) -> int:
    """Where the topic begins."""
    place = (batch_topic(chain.spec), 0)
    with closing(open_topic_log(chain.spec)) as log:
        return log.begins([place])[place]


def keep(chain: Chain, policy: str) -> None:
    """Have the brokers keep the topic by `policy`; of one that is compacted they let nobody throw records away."""
    setting = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, batch_topic(chain.spec), incremental_configs=[setting])
    with closing(open_topic_log(chain.spec)) as log:
        log.admin.incremental_alter_configs([resource])[resource].result(30)


def audit(chain: Chain) -> Mapping[str, Mapping[str, str]]:
    """The state of each table in the target and at the stages before it."""
    chain.file.write_text(f"{chain.file.read_text()}audits:\n  - {{source: {chain.source}, sink: wh}}\n")
    result = CliRunner().invoke(app, [str(chain.file), "--stages", "--json"])
    assert result.exit_code == 0, result.output
    return {
        table["table"].partition(".")[2]: {
            "target": table["state"],
            **{each["stage"]: each["state"] for each in table["stages"]["audited"]},
        }
        for table in json.loads(result.stdout)["tables"]
    }


def write_files(file: str) -> None:
    carry_link(load(Path(file)), OBJECTS_LINK, 1)


def test_a_new_target_begins_behind_messages_whose_transaction_has_no_end_there_yet(kafka: KafkaBroker) -> None:
    cluster, topic = KafkaCluster(kafka.bootstrap_servers), f"batches-{uuid4().hex}"
    create_topics(cluster, [topic], {}, partitions=1)
    producer = Producer({**cluster.client_settings(), "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"message")
    producer.flush(30)
    with closing(TopicReader(cluster)) as log, ThreadPoolExecutor(1) as pool:
        committed = log.ends([(topic, 0)])[topic, 0]
        end = pool.submit(settled_end, log, topic)
        with pytest.raises(TimeoutError):
            end.result(0.5)
        producer.commit_transaction(30)

        assert (committed, end.result(30)) == (0, 2)


@pytest.mark.nightly
def test_who_comes_after_a_kill_between_record_and_topic_misses_nothing(chain: Chain) -> None:
    change(chain, 3)
    chain.capture()
    before = begin(chain)
    code = run_forked(write_files, str(chain.file), crash_at="retention.trimming")
    between = (begin(chain), objects_record(chain.spec).batches_from)
    add_target(chain)
    change(chain, 5)
    carry(chain.spec)
    change(chain, 7)
    carry(chain.spec)
    carry(chain.spec)

    assert code == -9
    assert between[0] == before < between[1]
    assert begin(chain) == objects_record(chain.spec).batches_from > between[1]
    for sink in ("wh", "new"):
        for table in TABLES:
            assert rows(chain, sink, table) == source_rows(chain, table), (sink, table)
    change(chain, 4)
    carry(chain.spec)
    audited = audit(chain)
    assert {table: states["target"] for table, states in audited.items()} == dict.fromkeys(TABLES, "equal")
    assert audited["orders"]["files"] == "not compared"


@pytest.mark.nightly
def test_brokers_that_refuse_keep_the_messages_and_nothing_else_is_said(chain: Chain) -> None:
    before = begin(chain)
    keep(chain, "compact")
    with capture_logs() as logs:
        for number in (3, 5, 7):
            change(chain, number)
            carry(chain.spec)
    refused, record = begin(chain), objects_record(chain.spec)
    keep(chain, "delete")
    change(chain, 4)
    carry(chain.spec)

    told = [log["event"] for log in logs if log["log_level"] == "warning"]
    assert told == ["batch messages of deleted files stay"]
    assert (refused, record.files_from) == (before, record.deleted_to)
    assert before < record.batches_from <= begin(chain)
    assert rows(chain, "wh", "orders") == source_rows(chain, "orders")

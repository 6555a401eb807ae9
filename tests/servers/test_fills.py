"""A target that comes when files are gone is filled by snapshots, and the others are not disturbed."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
import yaml
from tests.servers.chain import Chain, make_chain

from penstock.core.batches import read_batch
from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.snapshots import SnapshotOptions, Status, Wanted
from penstock.jobs.in_process import carry, carry_link
from penstock.ports.queries import ReadLimits
from penstock.wiring.files import objects_record
from penstock.wiring.health import find_problems
from penstock.wiring.open import batch_topic, open_topic_log
from penstock.wiring.sink_kinds.table import sql_kind
from penstock.wiring.snapshots import ask_for_snapshots, read_snapshots, want_snapshots

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from penstock.core.batches import Batch
    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer

_ROWS = "SELECT id, n FROM {}.{} ORDER BY id"


@pytest.fixture
def chain(
    mariadb: MariadbServer,
    chain_parts: tuple[KafkaBroker, str, int],
    fresh_database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Chain:
    """A pipeline whose files are gone as soon as its target has them; its tables are `first` and `log`, without a key."""
    monkeypatch.setattr("penstock.links.warehouse.filling._PERIOD_SECONDS", 0.0)
    chain = make_chain(tmp_path, fresh_database, mariadb, chain_parts, "objects: {keep_hours: 0}")
    chain.write(
        "CREATE TABLE first (id INT PRIMARY KEY, n INT)",
        "CREATE TABLE log (id INT, n INT)",
        "INSERT INTO first SELECT seq, 0 FROM seq_1_to_300",
        "INSERT INTO log VALUES (1, 1), (1, 1)",
    )
    chain.start()
    chain.carry()
    chain.write("UPDATE first SET n = n + 1 WHERE id <= 200", "DELETE FROM first WHERE id > 290")
    chain.carry()
    # The next round finds that its target has all.
    chain.write("INSERT INTO log VALUES (2, 2)")
    chain.carry()
    return chain


def add_target(chain: Chain) -> str:
    """Give the pipeline a second target, and return its link."""
    config = yaml.safe_load(chain.file.read_text())
    config["sinks"].append({"name": "new", "kind": "duckdb", "path": str(chain.spec.home / "new.duckdb")})
    config["links"].append({"from": chain.source, "to": "new"})
    chain.file.write_text(yaml.safe_dump(config))
    return f"{chain.source}-to-new"


def rows(chain: Chain, sink: str, table: str) -> list[tuple[object, ...]]:
    found = sql_kind(chain.spec, chain.spec.sink(sink)).query(_ROWS.format(chain.name, table), ReadLimits()).rows
    return [tuple(row.values()) for row in found.to_pylist()]


def source_rows(chain: Chain, table: str) -> list[tuple[object, ...]]:
    with chain.cursor() as cursor:
        cursor.execute(_ROWS.format(chain.name, table))
        return [tuple(row) for row in cursor.fetchall()]


def batches(chain: Chain) -> Sequence[Batch]:
    place = (batch_topic(chain.spec), 0)
    with closing(open_topic_log(chain.spec)) as log:
        found = [each for part in log.read(*place, 0, log.ends([place])[place]) for each in part]
    return [read_batch(*each) for each in found]


def test_a_target_that_is_added_later_is_filled_and_the_other_one_is_never_emptied(chain: Chain) -> None:
    assert objects_record(chain.spec).files_from > 0
    link = add_target(chain)
    chain.write("UPDATE first SET n = 77 WHERE id % 3 = 0", "DELETE FROM first WHERE id % 7 = 0")

    carry_link(chain.spec, link, 1)
    chain.write("UPDATE first SET n = 78 WHERE id % 5 = 0", "INSERT INTO first VALUES (1000, 1)")
    carry(chain.spec)

    for sink in ("wh", "new"):
        for table in ("first", "log"):
            assert rows(chain, sink, table) == source_rows(chain, table), (sink, table)
    assert [(each.table.partition(".")[2], each.status) for each in read_snapshots(chain.spec)] == [
        ("first", Status.DONE)
    ]
    told = [batch for batch in batches(chain) if batch.begins_for]
    assert [(batch.begins_for, batch.kind) for batch in told] == [(link, SchemaChangeKind.SCHEMA)]
    kinds = {batch.kind for batch in batches(chain)}
    assert kinds == {SchemaChangeKind.SCHEMA}

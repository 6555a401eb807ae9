"""What ends a snapshot in its middle ends it alone, says why, and leaves live changes as they are."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
import yaml
from tests.servers.capture_processes import spawn_capture
from tests.servers.chain import Chain, make_chain

from penstock.core.errors import UsageError
from penstock.core.snapshots import SnapshotOptions, Status
from penstock.embedded.mariadb import PASSWORD
from penstock.wiring.snapshots import ask_for_snapshots, read_snapshots

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer
    from penstock.ports.snapshots import Snapshot

_ROWS = 100
# What is done to each table in the middle of its snapshot, and what the snapshot is to say then; "" where it is done.
STORIES = {
    "dropped": ("DROP TABLE dropped", "was dropped or renamed"),
    "renamed": ("RENAME TABLE renamed TO moved", "was dropped or renamed"),
    "keyless": ("ALTER TABLE keyless DROP PRIMARY KEY", "has no primary key"),
    "shrunk": ("ALTER TABLE shrunk DROP COLUMN spare", "the server refused the condition"),
    "hidden": ("REVOKE SELECT ON hidden FROM {user}", "no privilege to read rows of"),
    "rekeyed": ("ALTER TABLE rekeyed DROP PRIMARY KEY, ADD PRIMARY KEY (n)", ""),
}


@pytest.fixture
def chain(
    mariadb: MariadbServer, chain_parts: tuple[KafkaBroker, str, int], fresh_database: str, tmp_path: Path
) -> Iterator[Chain]:
    """A pipeline with a user of its own, who may read single tables."""
    chain = make_chain(tmp_path, fresh_database, mariadb, chain_parts)
    config = yaml.safe_load(chain.file.read_text())
    config["sources"][0] |= {"user": chain.name, "snapshot": "never"}
    chain.file.write_text(yaml.safe_dump(config))
    chain.write(
        f"CREATE USER {chain.name} IDENTIFIED BY '{PASSWORD}'",
        f"GRANT REPLICATION SLAVE, REPLICATION CLIENT, RELOAD, SHOW VIEW ON *.* TO {chain.name}",
        "CREATE TABLE alive (id INT PRIMARY KEY, n INT)",
        f"GRANT SELECT ON alive TO {chain.name}",
    )
    for table in STORIES:
        chain.write(
            f"CREATE TABLE {table} (id INT PRIMARY KEY, n INT NOT NULL, spare INT)",
            f"INSERT INTO {table} SELECT seq, -seq, 0 FROM seq_1_to_{_ROWS}",
            f"GRANT SELECT ON {table} TO {chain.name}",
        )
    yield chain
    chain.write(f"DROP USER {chain.name}")


def ask(chain: Chain, table: str, where: str = "") -> None:
    """Ask for a snapshot that waits behind a chunk for long; but for `rekeyed`, which is to end well."""
    pace = 0 if table == "rekeyed" else 1
    ask_for_snapshots(chain.spec, [f"{chain.name}.{table}"], SnapshotOptions(where, (), 25, pace))


def snapshots(chain: Chain) -> dict[str, Snapshot]:
    return {each.table.partition(".")[2]: each for each in read_snapshots(chain.spec)}


@pytest.mark.nightly
def test_what_is_done_to_a_table_in_mid_snapshot_ends_that_one_alone_and_is_said(chain: Chain) -> None:
    chain.start()
    chain.carry()
    for table in STORIES:
        ask(chain, table, "spare = 0" if table == "shrunk" else "")

    assert spawn_capture(chain, 2, f"snapshot.refreshed:{len(STORIES)}") == -signal.SIGKILL
    for statement, _ in STORIES.values():
        chain.write(statement.format(user=chain.name))
    chain.write("INSERT INTO alive VALUES (1, 1)", "UPDATE hidden SET n = 7 WHERE id = 1")
    chain.write("INSERT INTO rekeyed VALUES (1000, 1000, 0)", "DELETE FROM rekeyed WHERE n = -70")
    chain.capture(3)
    chain.write_objects()
    chain.load()

    found = snapshots(chain)
    for table, (_, said) in STORIES.items():
        assert (table, found[table].status) == (table, Status.FAILED if said else Status.DONE)
        assert said in found[table].error
        assert bool(found[table].hint) == bool(said)
    assert chain.query("SELECT id, n FROM {schema}.alive") == [(1, 1)]
    assert chain.query("SELECT n FROM {schema}.hidden WHERE id = 1") == [(7,)]
    expected = [(n,) for n in range(-_ROWS, 0) if n != -70]
    assert chain.query("SELECT n FROM {schema}.rekeyed ORDER BY n") == [*expected, (1000,)]


def test_a_table_that_our_user_may_not_read_is_named_when_a_snapshot_is_asked_for(chain: Chain) -> None:
    chain.start()
    chain.write(f"REVOKE SELECT ON hidden FROM {chain.name}")

    with pytest.raises(UsageError, match=r"has no table .*hidden, or does not show it to the source's user"):
        ask(chain, "hidden")

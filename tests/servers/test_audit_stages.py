"""An audit by stage says where a row became wrong: in its topic, in a file, or in the target alone."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import duckdb
import psycopg
import pytest
from tests.servers.chain import Chain, make_chain
from tests.servers.forged import message_with, put
from typer.testing import CliRunner

from penstock.cli.audit import app
from penstock.wiring.open import open_object_store

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from penstock.dev.postgres import PostgresServer
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
    """A pipeline with one table, whose target has all of it; row 8 was changed last, and row 9 deleted."""
    made = make_chain(tmp_path, fresh_database, mariadb, chain_parts)
    made.use_format(request.param)
    _fill(made)
    return made


def test_rows_that_are_wrong_in_one_place_are_named_with_that_place_and_their_newest_message(chain: Chain) -> None:
    topic, partition, offset, value = message_with(chain, "orders", b"change8")
    put(chain, topic, partition, value.replace(b"change8", b"forged8"))
    chain.write_objects()
    chain.load()
    with duckdb.connect(str(chain.spec.home / "wh.duckdb")) as connection:
        connection.execute(f"UPDATE {chain.name}.orders SET total = 0 WHERE id = 30")
        connection.execute(f"DELETE FROM {chain.name}.orders WHERE id = 31")
        connection.execute(f"INSERT INTO {chain.name}.orders VALUES (9, 'again', 1, NULL)")

    found = _audit(chain, 3)

    rows = {row["key"][0]: row for row in found["stages"]["rows"]}
    assert {key: row["first_wrong"] for key, row in rows.items()} == {
        "8": "topic",
        "9": "target",
        "30": "target",
        "31": "target",
    }
    forged = rows["8"]["message"]
    assert (forged["topic"], forged["partition"], forged["op"]) == (topic, partition, "u")
    assert forged["offset"] > offset
    assert rows["9"]["message"]["op"] == "d"
    assert rows["30"]["message"]["op"] == "r"
    assert ":" in rows["30"]["message"]["position"]
    assert _states(found) == {"topic": ("different", 1), "files": ("different", 1)}


@pytest.mark.nightly
def test_a_file_that_was_replaced_is_named_where_the_topic_is_right(chain: Chain) -> None:
    chain.file.write_text(chain.file.read_text() + "objects: {inline_bytes_max: 0}\n")
    chain.write("UPDATE orders SET customer = 'change7' WHERE id = 7")
    chain.carry()
    store = open_object_store(chain.spec)
    first, *_ = [key for key in store.list("") if "orders" in key]
    content = store.get(first)
    store.put(first, content[:-9] + bytes(9))

    found = _audit(chain, 3)

    states = _states(found)
    assert states["topic"] == ("equal", 0)
    assert states["files"][0] == "different"
    assert first in next(each["why"] for each in found["stages"]["audited"] if each["stage"] == "files")
    assert {row["first_wrong"] for row in found["stages"]["rows"]} == {"files"}
    assert found["state"] == "equal"


@pytest.mark.nightly
def test_a_message_that_stops_its_table_is_named_though_the_target_only_lags(chain: Chain) -> None:
    topic, partition, _, _ = message_with(chain, "orders", b"change8")
    put(chain, topic, partition, b"hello")

    found = _audit(chain, 3, wait_seconds=1)

    audited = {each["stage"]: each for each in found["stages"]["audited"]}
    assert audited["topic"]["state"] == "different"
    assert f"{topic}/{partition} has a foreign message at offset" in audited["topic"]["why"]
    assert audited["topic"]["score"] == 1
    assert audited["files"]["state"] == "lagging"


@pytest.mark.nightly
def test_what_was_changed_or_added_later_is_compared_where_every_row_was_written_with_it(chain: Chain) -> None:
    chain.write(
        "ALTER TABLE orders ADD COLUMN later INT DEFAULT 7, MODIFY customer VARCHAR(60)",
        "UPDATE orders SET later = 8 WHERE id = 8",
    )
    chain.carry()

    added = _audit(chain, 0)
    chain.write("TRUNCATE orders", "INSERT INTO orders VALUES (1, 'only', 1, NULL, 9)")
    chain.carry()
    emptied = _audit(chain, 0)

    for stage in added["stages"]["audited"]:
        assert [each["column"] for each in stage["not_compared"]] == ["later"]
        assert (stage["state"], stage["rows"]) == ("equal", 499)
    for stage in emptied["stages"]["audited"]:
        assert (stage["state"], stage["rows"], stage["not_compared"]) == ("equal", 1, [])


@pytest.mark.nightly
def test_a_target_in_postgresql_is_audited_by_stage_too(
    tmp_path: Path,
    mariadb: MariadbServer,
    fresh_database: str,
    chain_parts: tuple[KafkaBroker, str, int],
    postgres: PostgresServer,
) -> None:
    os.environ["AUDIT_TARGET_PASSWORD"] = postgres.password
    chain = make_chain(tmp_path, fresh_database, mariadb, chain_parts)
    sink = f"kind: postgres, host: {postgres.host}, port: {postgres.port}, database: {postgres.database}"
    login = f"user: {postgres.user}, password_env: AUDIT_TARGET_PASSWORD"
    text = chain.file.read_text()
    chain.file.write_text(text.replace(f"kind: duckdb, path: {tmp_path / chain.name}/wh.duckdb", f"{sink}, {login}"))
    _fill(chain)
    conninfo = f"host={postgres.host} port={postgres.port} user={postgres.user} password={postgres.password}"
    with psycopg.connect(f"{conninfo} dbname={postgres.database}", autocommit=True, connect_timeout=10) as connection:
        connection.execute(f"UPDATE {chain.name}.orders SET customer = 'c30 ' WHERE id = 30".encode())

    found = _audit(chain, 3)

    assert [(row["key"], row["first_wrong"]) for row in found["stages"]["rows"]] == [(["30"], "target")]
    assert _states(found) == {"topic": ("equal", 0), "files": ("equal", 0)}


def _fill(chain: Chain) -> None:
    chain.write(
        "CREATE TABLE orders (id INT PRIMARY KEY, customer VARCHAR(40), total DECIMAL(10,2), at TIMESTAMP(6) NULL)",
        "INSERT INTO orders SELECT seq, CONCAT('c', seq), seq / 4, NOW(6) FROM seq_1_to_500",
    )
    chain.start()
    chain.carry()
    chain.write("DELETE FROM orders WHERE id = 9", "UPDATE orders SET customer = 'change8' WHERE id = 8")
    chain.carry()


def _audit(chain: Chain, exit_code: int, wait_seconds: float = 60) -> Any:  # noqa: ANN401 - JSON
    text = chain.file.read_text().partition("audits:")[0]
    chain.file.write_text(
        f"{text}audits:\n  - {{source: {chain.source}, sink: wh, wait_seconds: {wait_seconds:.1f}}}\n"
    )
    result = CliRunner().invoke(app, [str(chain.file), "--stages", "--json"])
    assert result.exit_code == exit_code, result.output
    (table,) = json.loads(result.stdout)["tables"]
    return table


def _states(found: Mapping[str, Any]) -> dict[str, tuple[str, int]]:
    return {each["stage"]: (each["state"], each["divergent_rows"]) for each in found["stages"]["audited"]}

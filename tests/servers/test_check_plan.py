"""`penstock check --plan`: the SQL of the next load, against a real source and each kind of target."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.servers.kinds import on_every_target, on_targets
from tests.servers.sessions import log_in
from tests.servers.sink_case import DuckdbTarget, PostgresTarget, RedshiftTarget, schema_change
from typer.testing import CliRunner

from penstock.adapters.mysql.catalog import read_tables
from penstock.adapters.mysql.connection import connect
from penstock.cli.main import app
from penstock.config.load import load
from penstock.core.tables import TableId
from penstock.wiring.open import mysql_server

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.sink_case import Place

    from penstock.embedded.mariadb import MariadbServer


TEXTS = {DuckdbTarget: "VARCHAR", PostgresTarget: "TEXT", RedshiftTarget: "VARCHAR(36)"}


def do(mariadb: MariadbServer, *statements: str) -> None:
    """Run statements on the source."""
    with (
        log_in(mariadb) as connection,
        connection.cursor() as cursor,
    ):
        for statement in statements:
            cursor.execute(statement)


@pytest.fixture
def config(
    place: Place, mariadb: MariadbServer, fresh_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A pipeline from one table, `orders`, to an empty target."""
    monkeypatch.setenv("SOURCE_PASSWORD", mariadb.password)
    do(mariadb, f"CREATE TABLE {fresh_database}.orders (id INT PRIMARY KEY, qty INT)")
    sink = "kind: duckdb, path: ./shop.duckdb"
    if isinstance(place.target, PostgresTarget):
        server = place.target.server
        monkeypatch.setenv("SINK_PASSWORD", server.password)
        login = f"host: {server.host}, port: {server.port}, database: {server.database}, user: {server.user}"
        sink = f"kind: postgres, {login}, password_env: SINK_PASSWORD"
    objects = "{}"
    if isinstance(place.target, RedshiftTarget):
        cluster, rights = place.target.cluster, place.target.rights
        monkeypatch.setenv("SINK_PASSWORD", cluster.password)
        login = f"host: {cluster.host}, port: {cluster.port}, database: {cluster.database}, user: {cluster.user}"
        sink = f"kind: redshift, {login}, password_env: SINK_PASSWORD, sslmode: disable, iam_role: '{rights.iam_role}'"
        objects = f"{{url: '{place.target.store_url}'}}"
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "penstock")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "penstock")
    file = tmp_path / "shop.yaml"
    file.write_text(f"""\
pipeline: shop
objects: {objects}
sources:
  - {{name: shopdb, kind: mysql, host: {mariadb.host}, port: {mariadb.port}, user: {mariadb.user},
     password_env: SOURCE_PASSWORD, tables: ["{fresh_database}.*"]}}
sinks: [{{name: warehouse, {sink}}}]
links: [{{from: shopdb, to: warehouse}}]
""")
    return file


def plan(file: Path) -> tuple[int, list[dict[str, object]]]:
    """Return the exit code and the plan of each table."""
    result = CliRunner().invoke(app, ["check", str(file), "--plan", "--json"])
    return result.exit_code, json.loads(result.stdout)["tables"]


@on_every_target
def test_the_next_load_s_sql_is_shown_and_nothing_is_changed(
    config: Path, place: Place, mariadb: MariadbServer, fresh_database: str
) -> None:
    if place.defines_ahead:
        pytest.skip("Snowflake's SQL of each of these changes is in tests/unit/warehouse")
    spec, table = load(config), TableId(fresh_database, "orders")
    _, (first,) = plan(config)
    with connect(mysql_server(spec.sources[0])) as connection:
        schema = read_tables(connection, [table])[table]
    sink = place.open()
    sink.load(table, [replace(schema_change(1), table=table)], {1: schema})
    sink.close()

    same = plan(config)
    do(mariadb, f"ALTER TABLE {fresh_database}.orders ADD COLUMN title VARCHAR(9) DEFAULT 'x'")
    _, (added,) = plan(config)
    do(mariadb, f"ALTER TABLE {fresh_database}.orders MODIFY qty BIGINT")
    wider = plan(config)
    do(mariadb, f"ALTER TABLE {fresh_database}.orders MODIFY qty SMALLINT")
    narrower = plan(config)
    do(mariadb, f"ALTER TABLE {fresh_database}.orders MODIFY qty VARCHAR(20)")
    text = plan(config)
    do(mariadb, f"ALTER TABLE {fresh_database}.orders MODIFY qty INT")
    do(mariadb, f"ALTER TABLE {fresh_database}.orders DROP COLUMN title, ADD COLUMN `é{'x' * 63}` DECIMAL(65,30)")
    code, (wrong,) = plan(config)
    told = CliRunner().invoke(app, ["check", str(config), "--plan"])

    assert any("CREATE TABLE" in str(line) for line in first["statements"])  # type: ignore[attr-defined]
    assert (same[0], same[1][0]["statements"], same[1][0]["error"]) == (0, [], "")
    assert [str(line).split("ADD COLUMN")[1].strip() for line in added["statements"]] == [  # type: ignore[attr-defined]
        f"\"title\" {TEXTS[type(place.target)]} DEFAULT 'x'"
    ]
    assert (wider[0], wider[1][0]["error"], bool(wider[1][0]["statements"])) == (0, "", True)
    reasons = ("which does not hold every value it held before", "whose values are written in another way")
    for (told_code, (of_type,)), reason in zip((narrower, text), reasons, strict=True):
        assert (told_code, of_type["statements"]) == (1, [])
        assert reason in str(of_type["error"])
        assert "existing rows must be read anew" in str(of_type["hint"])
    assert (code, bool(wrong["error"]), wrong["statements"]) == (1, True, [])
    assert "0 table(s) would change, 1 would stop or are stopped, 0 would stay as they are" in told.stdout
    assert list(place.columns(table)) == ["id", "qty"]


def test_a_source_that_does_not_let_us_in_is_no_table_that_would_change(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_PASSWORD", "wrong")

    told = CliRunner().invoke(app, ["check", str(config), "--plan"])

    assert told.exit_code == 1
    assert "was refused" in told.stdout
    assert "what could not be asked is not planned; nothing was changed" in told.stdout
    assert "would change" not in told.stdout


@on_targets("duckdb")
def test_a_rule_for_a_column_that_a_new_table_does_not_have_is_told_as_what_would_stop_it(
    config: Path, place: Place, fresh_database: str
) -> None:
    columns = f"columns: {{drop: {fresh_database}.orders.qyt}}"
    config.write_text(config.read_text().replace("to: warehouse}", f"to: warehouse, {columns}}}"))

    plans = [plan(config)]
    place.open().close()
    plans.append(plan(config))

    for exit_code, (table,) in plans:
        assert exit_code == 1
        assert f"they name {fresh_database}.orders.qyt, and the table has no such column" in str(table["error"])

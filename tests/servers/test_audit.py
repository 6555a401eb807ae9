"""An audit of a pipeline's target finds what is wrong there, names it, and nothing else."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import duckdb
import pytest
import yaml
from tests.servers.chain import Chain, make_chain
from typer.testing import CliRunner

from penstock.cli.audit import app
from penstock.config.audits import AuditSpec
from penstock.core.audit.scores import Score
from penstock.core.snapshots import SnapshotOptions, Status
from penstock.links.audit.target_state import TargetState
from penstock.wiring.audit import run_audit
from penstock.wiring.audit_repair import ask_for_repairs, await_repairs
from penstock.wiring.snapshots import ask_for_snapshots, read_snapshots

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from penstock.core.audit.findings import TableFindings
    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer


@pytest.fixture
def chain(
    tmp_path: Path,
    mariadb: MariadbServer,
    fresh_database: str,
    chain_parts: tuple[KafkaBroker, str, int],
) -> Chain:
    """A pipeline with two tables, whose target has all of them."""
    made = make_chain(tmp_path, fresh_database, mariadb, chain_parts)
    made.write(
        "CREATE TABLE orders (id INT PRIMARY KEY, customer VARCHAR(40), email VARCHAR(80), total DECIMAL(10,2))",
        "CREATE TABLE notes (code VARCHAR(10) PRIMARY KEY, at DATETIME(6), weight DOUBLE, spot GEOMETRY)",
        "CREATE TABLE logged (line TEXT)",
        "INSERT INTO orders SELECT seq, CONCAT('c', seq), CONCAT(seq, '@x'), seq / 4 FROM seq_1_to_500",
        "INSERT INTO notes VALUES ('a', '2024-02-29 23:59:59.000001', 0.1, ST_GeomFromText('POINT(1 2)', 4326)),"
        " ('b ', NULL, 1e300, ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 2))')), ('c', NULL, NULL, NULL)",
        "INSERT INTO logged VALUES ('x')",
    )
    made.start()
    made.carry()
    return made


def test_an_equal_target_scores_1_and_what_was_not_compared_is_said(chain: Chain) -> None:
    found = audit(chain)

    assert {name: table.state for name, table in found.items()} == {
        "logged": "not compared",
        "notes": "equal",
        "orders": "equal",
    }
    assert found["orders"].score is not None
    assert (found["orders"].score.lower, found["orders"].source_rows, found["orders"].target_rows) == (1.0, 500, 500)
    assert "no primary key" in found["logged"].why
    assert not found["notes"].not_compared


def test_rows_that_are_wrong_in_the_target_are_named_with_both_values(chain: Chain) -> None:
    corrupt(
        chain,
        "DELETE FROM {s}.orders WHERE id = 7",
        "UPDATE {s}.orders SET customer = 'someone', total = total + 0.01 WHERE id = 499",
        "INSERT INTO {s}.orders VALUES (501, 'extra', NULL, 1)",
        """UPDATE {s}.notes SET "at" = "at" + INTERVAL 1 MICROSECOND, spot = '' WHERE code = 'a'""",
    )

    found = audit(chain)

    rows = {row.key: (row.state, dict(row.columns)) for row in found["orders"].rows}
    assert rows == {
        ("7",): ("missing", {}),
        ("499",): ("different", {"customer": ("c499", "someone"), "total": ("124.75", "124.76")}),
        ("501",): ("extra", {}),
    }
    (note,) = found["notes"].rows
    assert note.columns == {
        "at": ("2024-02-29 23:59:59.000001", "2024-02-29 23:59:59.000002"),
        # Extended WKB: the order of bytes, a point with an SRID, 4326, 1 and 2.
        "spot": ("0101000020e6100000000000000000f03f0000000000000040", ""),
    }
    for table in (found["orders"], found["notes"]):
        assert table.state == "different"
        assert table.score is not None
        assert table.score.lower < 1


def test_the_command_exits_with_3_prints_the_findings_and_writes_one_html_file(chain: Chain, tmp_path: Path) -> None:
    corrupt(chain, "UPDATE {s}.orders SET customer = '<b>' WHERE id = 8")

    result = CliRunner().invoke(app, [str(chain.file), "--json", "--html", str(tmp_path / "report.html")])

    assert result.exit_code == 3
    found = json.loads(result.stdout)
    tables = {table["table"]: table for table in found["tables"]}
    orders = tables[f"{chain.name}.orders"]
    assert not found["passed"]
    assert orders["rows"] == [
        {"key": ["8"], "state": "different", "columns": {"customer": {"source": "c8", "target": "<b>"}}}
    ]
    page = (tmp_path / "report.html").read_text()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page


def test_a_target_that_lags_is_said_to_lag_and_not_to_be_wrong(chain: Chain) -> None:
    chain.write("UPDATE orders SET customer = 'new' WHERE id = 3")

    found = audit(chain, wait_seconds=0.5)

    assert found["orders"].state == "lagging"
    assert found["orders"].rows == ()
    assert found["orders"].score is None


def test_an_audit_may_be_of_a_part_of_the_rows_and_of_the_tables_that_there_is_time_for(chain: Chain) -> None:
    orders, notes = f"{chain.name}.orders", f"{chain.name}.notes"
    spec = AuditSpec(source=chain.source, sink="wh", tables=("*.orders", "*.notes"), seconds_max=6)
    asked: list[str] = []

    def linger(table: str) -> None:
        asked.append(table)
        time.sleep(0 if len(asked) == 1 else 6)

    report = run_audit(chain.spec, spec, linger, last_reached={notes: 5, orders: 4})
    corrupt(chain, "UPDATE {s}.orders SET customer = 'wrong' WHERE id IN (7, 499)")
    part = audit(chain, where={orders: "Id > 100 AND email LIKE '%@x'", notes: "gone IS NULL"})

    assert asked == [orders, notes]
    assert [(each.table, each.state) for each in report.tables] == [(notes, "not reached"), (orders, "equal")]
    assert (report.score, [each.table for each in report.unknown]) == (None, [notes])
    assert [row.key for row in part["orders"].rows] == [("499",)]
    assert (part["orders"].source_rows, part["orders"].target_rows) == (400, 400)
    assert part["notes"].state == "failed"
    assert "names gone, which is no column that is compared" in part["notes"].why


def test_columns_that_a_link_treats_are_left_out_and_said_so(chain: Chain) -> None:
    corrupt(chain, "UPDATE {s}.orders SET email = 'leaked' WHERE id = 1")
    text = chain.file.read_text()
    chain.file.write_text(text.replace("to: wh}", "to: wh, columns: {mask: email}}"))

    found = audit(chain)["orders"]

    assert (found.state, [each.column for each in found.not_compared]) == ("equal", ["email"])


# Nightly: which value is expected is held by tests of held values.
@pytest.mark.nightly
@pytest.mark.parametrize("overflow", ["null", "clamp"])
def test_values_that_duckdb_cannot_hold_are_compared_as_what_they_became(chain: Chain, overflow: str) -> None:
    chain.file.write_text(chain.file.read_text().replace("to: wh}", f"to: wh, overflow: '{overflow}'}}"))
    nines = "9" * 40
    chain.write(
        "CREATE TABLE wide (id INT PRIMARY KEY, n DECIMAL(42,2))",
        f"INSERT INTO wide VALUES (1, 1.25), (2, {nines}.01), (3, -{nines}.99), (4, NULL)",
    )
    chain.carry()

    equal = audit(chain)["wide"]
    corrupt(chain, "UPDATE {s}.wide SET n = 7 WHERE id = 3")
    different = audit(chain)["wide"]

    assert (equal.state, equal.not_compared, equal.rows) == ("equal", (), ())
    assert "2 values became others" in equal.why
    assert [row.key for row in different.rows] == [("3",)]


def test_a_repair_brings_exactly_the_rows_that_were_named_and_a_second_audit_scores_1(chain: Chain) -> None:
    corrupt(
        chain,
        "DELETE FROM {s}.orders WHERE id = 7",
        "UPDATE {s}.orders SET total = 0 WHERE id = 499",
        "INSERT INTO {s}.orders VALUES (501, 'extra', NULL, 1)",
        "UPDATE {s}.notes SET code = 'A' WHERE code = 'a'",
    )
    spec = AuditSpec(source=chain.source, sink="wh")

    asked = ask_for_repairs(chain.spec, [run_audit(chain.spec, spec, lambda _: None)]).snapshots
    chain.carry()

    assert {each.table.partition(".")[2]: len(each.options.keys) for each in asked} == {"notes": 2, "orders": 3}
    assert {each.status for each in await_repairs(chain.spec, asked, 0)} == {Status.DONE}
    found = audit(chain)
    assert {name: table.state for name, table in found.items()} == {
        "logged": "not compared",
        "notes": "equal",
        "orders": "equal",
    }
    assert all(table.score == Score(1, 1, 1) for name, table in found.items() if name != "logged")


def test_a_repair_tells_what_was_found_and_asks_for_tables_beside_one_that_is_read_already(chain: Chain) -> None:
    corrupt(chain, "UPDATE {s}.orders SET total = 0 WHERE id = 499", "DELETE FROM {s}.notes WHERE code = 'a'")
    ask_for_snapshots(chain.spec, [f"{chain.name}.orders"], SnapshotOptions())

    result = CliRunner().invoke(app, [str(chain.file), "--repair", "--json"])

    assert result.exit_code == 3
    states = {each["table"].partition(".")[2]: each["state"] for each in json.loads(result.stdout)["tables"]}
    assert states == {"logged": "not compared", "notes": "different", "orders": "different"}
    assert f"{chain.name}.orders is not repaired: a snapshot of {chain.name}.orders is under way" in result.stderr
    assert f"{chain.name}.notes: 1 row(s) are to be read again" in result.stderr
    asked = {each.table.partition(".")[2]: len(each.options.keys) for each in read_snapshots(chain.spec)}
    assert asked == {"notes": 1, "orders": 0}


def test_an_audit_of_a_target_that_is_away_does_not_hide_what_another_one_found(chain: Chain) -> None:
    corrupt(chain, "UPDATE {s}.orders SET total = 0 WHERE id = 499")
    config = yaml.safe_load(chain.file.read_text())
    gone = {"name": "gone", "kind": "duckdb", "path": str(chain.file.parent / "nowhere" / "gone.duckdb")}
    config["sinks"].append(gone)
    config["links"].append({"from": chain.source, "to": "gone"})
    chain.file.write_text(yaml.safe_dump(config))

    result = CliRunner().invoke(app, [str(chain.file), "--json"])

    assert result.exit_code == 3
    found = {(each["sink"], each["table"]): each for each in json.loads(result.stdout)["tables"]}
    assert found["wh", f"{chain.name}.orders"]["state"] == "different"
    assert found["gone", "*.*"]["state"] == "failed"
    assert "gone.duckdb" in found["gone", "*.*"]["why"]


# Nightly: what is said of no table is held by a unit test.
@pytest.mark.nightly
def test_a_link_whose_tables_match_nothing_is_not_called_equal(chain: Chain) -> None:
    config = yaml.safe_load(chain.file.read_text())
    config["links"][0]["tables"] = [f"{chain.name}.nothing*"]
    chain.file.write_text(yaml.safe_dump(config))

    result = CliRunner().invoke(app, [str(chain.file), "--json"])

    told = json.loads(result.stdout)
    assert (result.exit_code, told["passed"]) == (1, False)
    assert [(each["table"], each["state"]) for each in told["tables"]] == [("*.*", "failed")]


# Nightly: which names are asked for is held by tests of moved states.
@pytest.mark.nightly
def test_a_link_with_a_schema_is_audited_and_repaired_by_the_source_s_names(
    tmp_path: Path, mariadb: MariadbServer, fresh_database: str, chain_parts: tuple[KafkaBroker, str, int]
) -> None:
    chain = make_chain(tmp_path, fresh_database, mariadb, chain_parts)
    chain.file.write_text(chain.file.read_text().replace("to: wh}", f"to: wh, schema: at_{chain.name}}}"))
    chain.write("CREATE TABLE orders (id INT PRIMARY KEY)", "INSERT INTO orders SELECT seq FROM seq_1_to_5")
    chain.start()
    chain.carry()

    equal = audit(chain)["orders"]
    corrupt(chain, "UPDATE at_{s}.orders SET id = 6 WHERE id = 5")
    report = run_audit(chain.spec, AuditSpec(source=chain.source, sink="wh"), lambda _: None)
    ask_for_repairs(chain.spec, [report])
    chain.carry()

    assert (equal.state, equal.source_rows, equal.target_rows) == ("equal", 5, 5)
    (different,) = report.tables
    assert {row.key: row.state for row in different.rows} == {("5",): "missing", ("6",): "extra"}
    assert audit(chain)["orders"].state == "equal"


# Nightly: one look at a chain like those above, for a few lines.
@pytest.mark.nightly
def test_a_table_that_the_source_alters_while_the_target_is_waited_for_is_not_said_to_be_wrong(
    chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, statements = TargetState.batch_offset, ["ALTER TABLE orders ADD COLUMN more INT"]

    def ask_while_the_source_changes(state: TargetState) -> int:
        while statements:
            chain.write(statements.pop())
        return ask(state)

    monkeypatch.setattr(TargetState, "batch_offset", ask_while_the_source_changes)
    spec = AuditSpec(source=chain.source, sink="wh", tables=("*.orders",))
    (found,) = run_audit(chain.spec, spec, lambda _: None).tables

    assert (found.state, found.score) == ("lagging", None)
    assert "the source altered or dropped it" in found.why


# Nightly: what lets go of tables is held by tests of looks, and of each kind of server.
@pytest.mark.nightly
def test_a_table_is_altered_while_the_target_is_waited_for_ahead_of_a_second_look(
    chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    corrupt(chain, "UPDATE {s}.orders SET total = 0 WHERE id = 499")
    ask, waits = TargetState.batch_offset, iter(range(1, 1000))

    def ask_while_the_source_changes(state: TargetState) -> int:
        if next(waits) == 2:
            chain.write("SET lock_wait_timeout = 5", "ALTER TABLE orders DROP COLUMN email")
        return ask(state)

    monkeypatch.setattr(TargetState, "batch_offset", ask_while_the_source_changes)
    spec = AuditSpec(source=chain.source, sink="wh", tables=("*.orders",))
    (found,) = run_audit(chain.spec, spec, lambda _: None).tables

    assert (found.state, found.score) == ("lagging", None)
    assert "the source altered or dropped it" in found.why


def audit(
    chain: Chain, wait_seconds: float = 30.0, where: Mapping[str, str] | None = None
) -> Mapping[str, TableFindings]:
    """Audit the pipeline; the findings by table, without the schema."""
    spec = AuditSpec(source=chain.source, sink="wh", wait_seconds=wait_seconds, where=dict(where or {}))
    report = run_audit(chain.spec, spec, lambda _: None)
    return {table.table.partition(".")[2]: table for table in report.tables}


def corrupt(chain: Chain, *statements: str) -> None:
    """Change the target behind the pipeline's back; `{s}` is the pipeline's schema."""
    with duckdb.connect(str(chain.spec.home / "wh.duckdb")) as connection:
        for statement in statements:
            connection.execute(statement.replace("{s}", chain.name))

"""Filters and conversions of a landing zone, on Snowflake's stand-in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.servers.snowflake_case import tell_problems

from penstock.config.audits import AuditSpec
from penstock.wiring.audit import run_audit
from penstock.wiring.health import find_problems
from penstock.wiring.landing_plans import apply_zones

if TYPE_CHECKING:
    from tests.servers.snowflake_case import Landed

    from penstock.core.audit.findings import TableFindings

_RULE = """[{match: ["*.t0"], where: '"who" <> ''test''',
  columns: {note: 'UPPER("note")', size: 'CAST(LENGTH("note") AS NUMBER(9))'}}]"""


def set_rules(landed: Landed, rules: str, before: str = "") -> None:
    """Write what is done to rows into the pipeline's file, in the place of `before`."""
    old = f", tables: {before}" if before else ""
    text = landed.chain.file.read_text()
    landed.chain.file.write_text(text.replace(f"warehouse: WH{old}", f"warehouse: WH, tables: {rules}"))


def public(landed: Landed) -> list[tuple[object, ...]]:
    return landed.ask(f'SELECT "id", "who", "note", "size" FROM "{landed.chain.name}"."t0" ORDER BY "id"')


def begin(landed: Landed, rows: str) -> None:
    """Bring a table with these rows into the landing zone, whose rule is there from the start."""
    set_rules(landed, _RULE)
    landed.chain.write("CREATE TABLE t0 (id INT PRIMARY KEY, who VARCHAR(9), note VARCHAR(40))")
    landed.chain.write(f"INSERT INTO t0 VALUES {rows}")
    landed.chain.start()
    landed.chain.carry()


def audit(landed: Landed) -> TableFindings:
    landed.chain.mirror()
    (found,) = run_audit(
        landed.chain.spec, AuditSpec(source=landed.chain.source, sink="wh", wait_seconds=60), lambda _: None
    ).tables
    return found


@pytest.mark.nightly
def test_a_public_table_has_the_rows_that_are_wanted_converted_and_follows_when_that_is_changed(landed: Landed) -> None:
    chain = landed.chain
    begin(landed, "(1, 'a', 'one'), (2, 'test', 'two'), (3, NULL, 'three'), (4, 'b', NULL)")
    landed.merge()
    assert public(landed) == [(1, "a", "ONE", 3), (4, "b", None, None)]

    chain.write("UPDATE t0 SET who = 'test' WHERE id = 1", "UPDATE t0 SET who = 'c' WHERE id = 2")
    chain.carry()
    landed.merge()
    assert public(landed) == [(2, "c", "TWO", 3), (4, "b", None, None)]
    equal = audit(landed)
    assert (equal.state, [each.column for each in equal.not_compared]) == ("equal", ["note"])

    other = _RULE.replace("<> ''test''", "= ''test''").replace("UPPER", "LOWER")
    set_rules(landed, other, _RULE)
    assert tell_problems(landed) == ["its rows are filtered or converted otherwise than the sink's `tables` say now"]
    (applied,) = apply_zones(chain.spec)
    assert any(each.startswith("CREATE OR REPLACE STREAM") for each in applied.statements)
    landed.merge()
    assert public(landed) == [(1, "test", "one", 3)]
    assert tell_problems(landed) == []
    (applied,) = apply_zones(chain.spec)
    assert not any(each.startswith("CREATE OR REPLACE STREAM") for each in applied.statements)


@pytest.mark.nightly
def test_an_audit_finds_a_row_that_is_there_and_should_be_kept_out_and_one_that_is_not_there(landed: Landed) -> None:
    chain = landed.chain
    begin(landed, "(1, 'a', 'one'), (2, 'test', 'two'), (3, 'b', 'three')")
    landed.merge()

    landed.ask(f"""INSERT INTO "{chain.name}"."t0" VALUES (2, 'test', 'TWO', 3)""")
    landed.ask(f"""DELETE FROM "{chain.name}"."t0" WHERE "id" = 3""")

    found = audit(landed)
    assert (found.state, sorted(row.key for row in found.rows)) == ("different", [("2",), ("3",)])


@pytest.mark.nightly
def test_a_table_that_gets_a_column_after_its_rule_was_changed_has_older_rows_by_the_new_one(landed: Landed) -> None:
    chain = landed.chain
    begin(landed, "(1, 'a', 'one'), (2, 'test', 'two')")
    landed.merge()
    assert public(landed) == [(1, "a", "ONE", 3)]

    other = _RULE.replace("<> ''test''", "= ''test''").replace("size:", "more: 'CAST(1 AS NUMBER(9))', size:")
    set_rules(landed, other, _RULE)
    chain.write("ALTER TABLE t0 ADD COLUMN x INT", "INSERT INTO t0 VALUES (3, 'test', 'three', 1)")
    chain.carry()
    landed.merge()
    assert public(landed) == [(2, "test", "TWO", 3), (3, "test", "THREE", 5)]
    assert tell_problems(landed) == []


@pytest.mark.nightly
def test_rows_from_before_a_column_was_added_keep_its_default_when_messages_are_merged_again(landed: Landed) -> None:
    chain = landed.chain
    begin(landed, "(2, 'b', 'two')")
    chain.write("INSERT INTO t0 VALUES (1, 'a', 'one')")
    chain.carry()
    chain.write("ALTER TABLE t0 ADD COLUMN five INT NOT NULL DEFAULT 5", "UPDATE t0 SET five = 6 WHERE id = 2")
    chain.carry()
    landed.merge()

    set_rules(landed, _RULE.replace("UPPER", "LOWER"), _RULE)
    assert [applied.error for applied in apply_zones(chain.spec)] == [""]
    landed.merge()
    rows = landed.ask(f'SELECT "id", "note", "five" FROM "{chain.name}"."t0" ORDER BY "id"')
    assert rows == [(1, "ONE", 5), (2, "two", 6)]


@pytest.mark.nightly
def test_an_audit_does_not_compare_a_column_that_rows_which_are_kept_out_have_no_message_with(landed: Landed) -> None:
    chain = landed.chain
    begin(landed, "(1, 'a', 'one'), (2, 'test', 'two')")
    chain.write("ALTER TABLE t0 ADD COLUMN kind VARCHAR(9) DEFAULT 'old'")
    chain.write("INSERT INTO t0 VALUES (3, 'b', 'three', 'new')")
    chain.carry()
    landed.merge()

    found = audit(landed)
    assert (found.state, sorted(each.column for each in found.not_compared)) == ("equal", ["kind", "note"])

    other = """[{match: ["*.t0"], where: '"kind" <> \'\'test\'\''}]"""
    set_rules(landed, other, _RULE)
    found = audit(landed)
    assert (found.state, "keeps rows out by kind" in found.why) == ("not compared", True)


@pytest.mark.nightly
def test_a_table_whose_messages_cannot_be_treated_is_emptied_and_ends_as_the_source_has_it(landed: Landed) -> None:
    chain = landed.chain
    failing = _RULE.replace('LENGTH("note")', '"note"')
    set_rules(landed, failing)
    chain.write("CREATE TABLE t0 (id INT PRIMARY KEY, who VARCHAR(9), note VARCHAR(40))")
    chain.write("INSERT INTO t0 VALUES (1, 'a', 'no number')")
    chain.start()
    chain.carry()

    chain.write("TRUNCATE TABLE t0", "INSERT INTO t0 VALUES (2, 'b', '12')")
    chain.carry()
    landed.merge()
    assert public(landed) == [(2, "b", "12", 12)]

    chain.write("INSERT INTO t0 VALUES (3, 'c', 'no number')", "DROP TABLE t0")
    chain.carry()
    hints = [problem.hint for problem in find_problems(chain.status(), "shop.yaml")]
    assert any("take it out of the sink's `tables`" in hint for hint in hints), hints
    text = chain.file.read_text()
    chain.file.write_text(text.replace(f", tables: {failing}", ""))
    chain.carry()
    assert landed.ask(f'SELECT "id", "note" FROM "{chain.name}"."t0" ORDER BY "id"') == [(2, "12"), (3, "no number")]

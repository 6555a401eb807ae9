"""What is not compared at all does not pass for equal."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import duckdb
import pytest

from penstock.config.audits import AuditSpec
from penstock.core.audit.findings import NotCompared
from penstock.core.audit.report import AuditReport, describe
from penstock.core.audit.table_plan import TablePlan
from penstock.core.errors import UsageError
from penstock.core.tables import TableId
from penstock.links.audit.compare import Bounds
from penstock.links.audit.table import Databases, audit_table
from penstock.wiring.audit import _missing
from penstock.wiring.audit_urls import HowCompared, TableAt, audit_urls
from penstock.wiring.audits import results_of

if TYPE_CHECKING:
    from pathlib import Path

_NO_DATABASES = cast("Databases", None)


def test_a_table_whose_target_lacks_a_column_of_the_key_is_different() -> None:
    lacks = NotCompared("id", "the target's table has no such column", is_wrong=True)
    wanted = NotCompared("id", "the link masks it", is_wanted=True)

    found = [
        audit_table("t", _NO_DATABASES, TablePlan(None, None, (each,), "its key has id"), Bounds(), str)
        for each in (lacks, wanted)
    ]

    assert [(each.state, each.score and each.score.score) for each in found] == [
        ("different", 0.0),
        ("not compared", None),
    ]


@pytest.fixture
def sides(tmp_path: Path) -> tuple[TableAt, TableAt]:
    """Two tables that have nothing that can be compared, and differ."""
    for name in ("a", "b"):
        with duckdb.connect(str(tmp_path / f"{name}.duckdb")) as connection:
            connection.execute(f"CREATE TABLE t AS SELECT ['{name}'] AS tags")
    table = TableId("main", "t")
    return TableAt(f"duckdb:///{tmp_path}/a.duckdb", table), TableAt(f"duckdb:///{tmp_path}/b.duckdb", table)


def test_tables_by_url_of_which_nothing_is_compared_have_failed(sides: tuple[TableAt, TableAt]) -> None:
    report = audit_urls(*sides, Bounds())

    assert [(each.table, each.state) for each in report.unknown] == [("main.t", "failed")]


def test_a_key_that_neither_table_has_is_refused(sides: tuple[TableAt, TableAt]) -> None:
    with pytest.raises(UsageError, match="neither table has a column idd"):
        audit_urls(*sides, Bounds(), HowCompared(key=("idd",)))


@pytest.mark.parametrize("tables", [("*.*",), ("*.*", "!shop.logs"), ("shop.*",), ("shop.orders",)])
def test_an_audit_of_no_table_at_all_does_not_pass(tables: tuple[str, ...]) -> None:
    audit = AuditSpec(source="shopdb", sink="warehouse", tables=tables)

    found = tuple(_missing(audit, []))
    report = AuditReport("shop", "shopdb", "warehouse", 1.0, 16, 1, 0.0, found)

    assert [each.state for each in found] == ["failed"]
    assert "no table of this link is" in found[0].why
    assert describe([report])["passed"] is False
    assert results_of("shopdb-to-warehouse", report)[0].state == "unknown"


def test_tables_that_are_there_are_all_that_an_audit_tells_of() -> None:
    audit = AuditSpec(source="shopdb", sink="warehouse", tables=("*.*",))

    assert list(_missing(audit, [TableId("shop", "orders")])) == []

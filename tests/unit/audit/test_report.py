"""What the report of several tables says of all of them."""

from __future__ import annotations

import pytest

from penstock.core.audit.findings import TableFindings, TableState
from penstock.core.audit.report import AuditReport, describe
from penstock.core.audit.scores import Score

EQUAL = TableFindings("shop.users", "equal", Score(1.0, 1.0, 1.0), equal=9)
HALF = TableFindings("shop.orders", "different", Score(0.5, 0.25, 0.75), equal=2, unequal=1)
LEFT_OUT = TableFindings("shop.maps", "not compared")


def _report(*tables: TableFindings) -> AuditReport:
    return AuditReport("shop", "shopdb", "warehouse", 1.0, 16, 0, 1.0, tables)


def test_each_table_counts_by_its_partitions() -> None:
    assert _report(EQUAL, HALF, LEFT_OUT).score == Score(10.5 / 12, 9.75 / 12, 11.25 / 12)


@pytest.mark.parametrize("state", ["lagging", "failed"])
def test_no_number_covers_a_table_of_which_nothing_is_known(state: TableState) -> None:
    unseen = TableFindings("shop.visits", state)
    report = _report(EQUAL, unseen)

    assert report.score is None
    assert describe([report])["score"] is None
    assert describe([_report(EQUAL), _report(unseen)])["score"] is None


def test_nothing_compared_has_no_score() -> None:
    assert _report(LEFT_OUT).score is None
    assert _report().score is None

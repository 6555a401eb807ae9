"""The report as one HTML file."""

from __future__ import annotations

from penstock.core.audit.findings import (
    DivergentRow,
    LastMessage,
    NotCompared,
    StagedRow,
    StagesFound,
    TableFindings,
)
from penstock.core.audit.report import AuditReport
from penstock.core.audit.report_html import render_html
from penstock.core.audit.scores import Score

WRONG = Score(0.5, 0.25, 0.75)


def test_each_stage_is_a_line_and_each_wrong_row_names_where_it_is_wrong_first() -> None:
    message = LastMessage("shop.<orders>", 1, 40211, "mysql-bin.000017:9931", "u")
    stages = StagesFound(
        (
            (
                "topic",
                TableFindings("shop.orders", "different", WRONG, target_rows=1234, wrong_rows=1, why="<b>forged"),
            ),
            ("files", TableFindings("shop.orders", "equal", not_compared=(NotCompared("later", "it is new"),))),
        ),
        (StagedRow(("<i>",), "topic", message=message), StagedRow(("8", None), "target", ("files",))),
    )
    row = DivergentRow(("<i>",), "different", {"name": ("<u>", None)})
    table = TableFindings("shop.orders", "different", WRONG, rows=(row,), wrong_rows=2, stages=stages)

    page = render_html([AuditReport("shop", "shopdb", "warehouse", 1.0, 16, 0, 1.0, (table,))])

    for said in (
        '<td>topic<td class="different">different',
        '<td>files<td class="equal">equal',
        '<td>target<td class="different">different',
        '<td class="number">1,234',
        "&lt;b&gt;forged",
        "later is not compared: it is new",
        "<code>&lt;i&gt;</code><td>topic<td><code>shop.&lt;orders&gt;/1 offset 40211 (u)</code>",
        "<code>mysql-bin.000017:9931</code>",
        "<code>8, NULL</code><td>target; files no longer has it<td>none is kept",
    ):
        assert said in page
    assert not any(tag in page for tag in ("<b>", "<u>", "<i></", "<orders>"))


def test_a_report_without_stages_has_none() -> None:
    table = TableFindings("shop.orders", "equal", Score(1.0, 1.0, 1.0), equal=3)

    page = render_html([AuditReport("shop", "shopdb", "warehouse", 1.0, 16, 0, 1.0, (table,))])

    assert "By stage" not in page
    assert "shop.orders" in page

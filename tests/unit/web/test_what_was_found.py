"""What audits, snapshots and police found: the same words in the terminal, on the page and in the metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.web.shop import RULES
from tests.unit.web.test_endpoints import look, status
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.core.topic_policy import PolicyLook, PolicyReport
from penstock.wiring.police_schedule import police_is_overdue

if TYPE_CHECKING:
    from tests.unit.web.shop import Shop

LEFT = 'penstock_table_snapshot_left_seconds{pipeline="shop",source="shopdb",table="shop.orders"}'
TOPIC = "topic shopdb.shop.orders"


def test_terminal_page_and_metrics_tell_of_what_police_snapshots_and_audits_found(shop: Shop) -> None:
    shop.file.write_text(shop.file.read_text() + RULES)
    with shop.held():
        shop.run()
        shop.busy()
        metrics, page = look(shop)
        told = status(shop)
        terminal = " ".join(CliRunner().invoke(app, ["status", str(shop.file)]).stdout.split())

    problems = {each["text"]: (each["level"], each["subject"], each["hint"]) for each in told["problems"]}
    drift = "retention.ms is 7d, and its rule says 30d"
    assert problems[drift] == ("warning", TOPIC, f"set it: penstock police {shop.file} --apply")
    refused = "partitions is 4, and its rule says 8, and stays so: order of keys"
    assert problems[refused] == ("warning", TOPIC, "make it anew with 8")
    for text in (
        drift,
        refused,
        "12 topics looked at 3 minutes ago: 1 set, 1 to set, 1 cannot be set, 1 without a rule",
        "its snapshot failed: the SELECT privilege is gone",
        "its snapshot is paused at 40,000 rows",
        "the target differs from the source: score 0.75 (0.7 to 0.8), 31 wrong rows",
    ):
        assert text in terminal, text
        assert text in page, text
    assert "snapshot of shop.orders: running, 3,200,000 of about 4,000,000 rows, " in terminal
    assert 'value="0.800"' in page
    assert "<code>penstock snapshot FILE shop.customers --resume</code>" in page
    assert metrics[LEFT] == pytest.approx(150, abs=5)
    assert metrics['penstock_police_findings{pipeline="shop",outcome="drift"}'] == 1
    assert [each["outcome"] for each in told["police"]["findings"]] == ["drift", "refused", "set"]


def test_where_another_source_has_a_table_of_that_name_a_snapshots_is_told_with_its_own(shop: Shop) -> None:
    other = (
        "sources:\n  - {name: store, kind: mysql, host: h, user: cdc, password_env: SHOP_PASSWORD, tables: [shop.*]}\n"
    )
    shop.file.write_text(shop.file.read_text().replace("sources:\n", other))
    with shop.held():
        shop.run()
        shop.busy()
        _, page = look(shop)
        terminal = " ".join(CliRunner().invoke(app, ["status", str(shop.file)]).stdout.split())

    assert "<code>penstock snapshot FILE shop.customers --source shopdb --resume</code>" in page
    assert "snapshot of shop.orders of shopdb: running, " in terminal
    assert f"penstock snapshot {shop.file} shop.customers --source shopdb --resume" in terminal


def test_without_rules_in_the_file_nothing_is_told_of_topics(shop: Shop) -> None:
    with shop.held():
        shop.run()
        shop.busy()
        metrics, page = look(shop)

    assert "How topics are kept" not in page
    assert not [name for name in metrics if "police" in name]
    assert status(shop)["police"] is None


def test_looks_at_topics_that_do_not_come_are_missed_while_a_run_lasts_that_long(shop: Shop) -> None:
    shop.file.write_text(f'{shop.file.read_text()}police: {{every: 10m, rules: [{{topics: "*"}}]}}\n')
    spec, late = shop.spec, 2 * 600_000 + 60_001

    assert police_is_overdue(spec, None, 1000, 1000 + late)
    assert not police_is_overdue(spec, None, 1000, 900 + late)
    assert not police_is_overdue(spec, PolicyLook(2000, PolicyReport(1)), 1000, 1000 + late)
    assert not police_is_overdue(spec, None, 0, late)

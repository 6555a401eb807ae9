"""Alert rules, dashboard and metrics agree, by the word of a real Prometheus."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from tests.servers.prometheus import DASHBOARD, RULES, dashboard_expressions, program, prometheus
from tests.unit.web.shop import CONFIG, JOIN, Shop, served, until
from tests.unit.web.shop import RULES as TOPIC_RULES

WHAT_IS_FOUND = {"PenstockAuditBelowThreshold", "PenstockSnapshotFailed", "PenstockTopicsNotAsTheirRules"}
"""What fires over that which Shop.busy writes."""

MONITORING = Path(__file__).parents[2] / "docs" / "monitoring.md"


@pytest.mark.nightly
def test_every_expression_is_answered_and_alerts_come_and_go_with_what_they_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "none")
    file = tmp_path / "shop.yaml"
    (tmp_path / "reviews.yaml").write_text(JOIN)
    file.write_text(f"{CONFIG}joins: [reviews.yaml]\n{TOPIC_RULES}")
    shop = Shop(file)
    rules = [rule["expr"] for rule in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]]

    with shop.held():
        shop.run()
        shop.busy()
        shop.link("business_review_join", lag_messages=3, dead_letters=1)
        with served(shop) as client, prometheus(tmp_path / "prometheus", client.base_url.netloc.decode()) as asked:
            until(lambda: asked.ask("penstock_running == 1"))
            for expression in rules:
                asked.ask(expression)
            empty = [expression for expression in dashboard_expressions() if not asked.ask(expression)]
            # Nothing listens where the source should be.
            asked.until_alerts("PenstockSourceDown", fires=True)
            asked.until_alerts("PenstockTopicsNotAsTheirRules", fires=True)
            well = asked.alerts()
            shop.servers("starting", "running", 1)
            shop.link("objects", state="retrying", error="Kafka is away", hint="wait", failures=1)
            asked.until_alerts("PenstockServerDown", fires=True)
            asked.until_alerts("PenstockLinkDown", fires=True)
            shop.run()
            asked.until_alerts("PenstockServerDown", fires=False)
            asked.until_alerts("PenstockLinkDown", fires=False)

    assert well == {"PenstockSourceDown", "PenstockUnhealthy", *WHAT_IS_FOUND}
    # What this pipeline does not have: a source that answers, rates over minutes, spolts.
    assert {re.split(r"[{(]", expression)[0] for expression in empty} <= {
        "penstock_source_retention_seconds",
        "penstock_source_log_bytes",
        "penstock_source_lag_bytes",
        "sum by ",
        "increase",
    }


def test_metrics_are_named_as_prometheus_wants_them(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(CONFIG)
    shop = Shop(file)
    with shop.held():
        shop.run()
        with served(shop) as client:
            metrics = client.get("/metrics").content

    checked = subprocess.run(
        [program("promtool"), "check", "metrics"], input=metrics, capture_output=True, check=False, timeout=60
    )

    assert (checked.returncode, checked.stderr, checked.stdout) == (0, b"", b"")


def test_every_metric_has_its_line_in_the_documentation_and_every_expression_asks_for_one(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(CONFIG)
    with served(Shop(file)) as client:
        served_names = set(re.findall(r"^# TYPE (\w+)", client.get("/metrics").text, re.MULTILINE))

    documented = set(re.findall(r"^\| `(penstock_\w+)", MONITORING.read_text(), re.MULTILINE))
    asked = set(re.findall(r"penstock_\w+", RULES.read_text() + " ".join(dashboard_expressions())))
    assert documented == served_names
    assert asked <= served_names
    assert "label_values(penstock_healthy, pipeline)" in DASHBOARD.read_text()

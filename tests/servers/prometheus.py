"""A real Prometheus, of the system or as scripts/install_for_tests.sh fetched it, with our alert rules."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock.embedded.cache import cache_directory
from penstock.embedded.ports import LOOPBACK, free_port
from penstock.embedded.processes import start_child, wait_until_ready

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "alerts.yaml"
DASHBOARD = DEPLOY / "grafana" / "penstock.json"

CONFIG = """\
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{home}/alerts.yaml]
scrape_configs:
  - job_name: penstock
    static_configs: [{{targets: ["{target}"]}}]
"""


class Prometheus:
    """One that scrapes every second, and whose alerts do not wait."""

    def __init__(self, port: int) -> None:
        self._client = httpx.Client(base_url=f"http://{LOOPBACK}:{port}/api/v1", trust_env=False, timeout=20)

    def ask(self, expression: str) -> Sequence[Any]:
        """The result of an expression now; fails the test for one that is refused."""
        answer = self._client.get("/query", params={"query": expression}).json()
        assert answer["status"] == "success", (expression, answer)
        result: Sequence[Any] = answer["data"]["result"]
        return result

    def alerts(self) -> set[str]:
        """The names of the alerts that fire."""
        told = self._client.get("/alerts").json()["data"]["alerts"]
        return {alert["labels"]["alertname"] for alert in told if alert["state"] == "firing"}

    def until_alerts(self, name: str, *, fires: bool, seconds: float = 60) -> None:
        """Wait until an alert fires, or has ended."""
        deadline = time.monotonic() + seconds
        while (name in self.alerts()) != fires:
            assert time.monotonic() < deadline, f"{name} should {'fire' if fires else 'end'}: {self.alerts()}"
            time.sleep(0.5)

    def close(self) -> None:
        self._client.close()


def program(name: str) -> str:
    """A program of Prometheus; the test skips where there is none."""
    fetched = cache_directory("prometheus") / "usr" / "bin" / name
    found = shutil.which(name) or (str(fetched) if fetched.exists() else None)
    if found is None:
        pytest.skip("no Prometheus here: sh scripts/install_for_tests.sh fetches it on Debian")
    return found


@contextlib.contextmanager
def prometheus(home: Path, target: str) -> Iterator[Prometheus]:
    """A Prometheus that scrapes `target` for a `with` block."""
    command, port = program("prometheus"), free_port()
    home.mkdir()
    (home / "alerts.yaml").write_text("".join(_without_patience(RULES.read_text())))
    (home / "prometheus.yml").write_text(CONFIG.format(home=home, target=target))
    arguments = [f"--config.file={home}/prometheus.yml", f"--storage.tsdb.path={home}/data"]
    child = start_child("Prometheus", [command, *arguments, f"--web.listen-address={LOOPBACK}:{port}"], home / "log")
    try:
        wait_until_ready(child, lambda: _is_ready(port), 60)
        with contextlib.closing(Prometheus(port)) as client:
            yield client
    finally:
        child.stop()


def _is_ready(port: int) -> bool:
    """Whether it answers queries; for a while it listens, and is "unavailable"."""
    try:
        return httpx.get(f"http://{LOOPBACK}:{port}/-/ready", trust_env=False, timeout=20).is_success
    except httpx.TransportError:
        return False


def dashboard_expressions() -> Sequence[str]:
    """What the panels of the dashboard ask, for every pipeline."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    return [expression.replace("$pipeline", ".*") for expression in asked]


def _without_patience(rules: str) -> Iterator[str]:
    for line in rules.splitlines(keepends=True):
        if not line.strip().startswith("for:"):
            yield line.replace("[5m]", "[20s]")

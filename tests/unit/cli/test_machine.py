"""What `penstock check --connect` says of this machine."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import pytest

from penstock.cli.machine import look_everywhere
from penstock.config.load import load

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.config.specs import PipelineSpec

_FILE = """\
pipeline: shop
sources:
  - {name: shopdb, kind: mysql, host: 127.0.0.1, port: 1, user: cdc, password_env: NONE, tables: [shop.*]}
sinks:
  - {name: warehouse, kind: duckdb, path: warehouse.duckdb}
links:
  - {from: shopdb, to: warehouse}
"""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PipelineSpec:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "shop.yaml"
    file.write_text(_FILE)
    return load(file)


def said_first(spec: PipelineSpec) -> dict[str, str]:
    """What is said before any server is asked."""
    return {finding.subject: finding.level for finding in islice(look_everywhere(spec), 3)}


@pytest.mark.parametrize(("user", "level"), [(0, "warning"), (1000, None)])
def test_root_is_warned_of(spec: PipelineSpec, monkeypatch: pytest.MonkeyPatch, user: int, level: str | None) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)

    assert said_first(spec).get("user") == level


@pytest.mark.parametrize(("address", "level"), [("http://10.0.0.1:3128", "ok"), ("", None)])
def test_a_proxy_in_the_environment_is_named(
    spec: PipelineSpec, monkeypatch: pytest.MonkeyPatch, address: str, level: str | None
) -> None:
    monkeypatch.setenv("http_proxy", address)

    assert said_first(spec).get("proxies") == level

"""A machine whose environment names a proxy reaches the registry that runs on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.adapters.registry.access import RegistryAccess
from penstock.embedded.schematizer import start_schematizer

if TYPE_CHECKING:
    from pathlib import Path


_NO_PROXY_THERE = "http://127.0.0.1:9"


@pytest.mark.nightly
def test_loopback_is_never_proxied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, _NO_PROXY_THERE)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)

    with start_schematizer(tmp_path) as server, RegistryAccess(server.url).open_client(10.0) as client:
        answer = client.get("/subjects")

    assert answer.json() == []

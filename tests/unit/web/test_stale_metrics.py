"""Metrics while the state database does not answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.unit.web.shop import now_ms, served

from penstock.web.metrics import describe_staleness

if TYPE_CHECKING:
    import pytest
    from tests.unit.web.shop import Shop


def values(metrics: str) -> dict[str, float]:
    lines = [line.rpartition(" ") for line in metrics.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


def test_what_is_old_is_told_by_its_age_alone_and_is_no_error(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    with shop.held(), served(shop) as client:
        shop.run()
        monkeypatch.setattr("penstock.web.snapshot._STALE_SECONDS", -1.0)
        answer = client.get("/metrics")
        alive = client.get("/healthz").status_code

    ((name, at),) = values(answer.text).items()
    assert (answer.status_code, name) == (200, 'penstock_snapshot_timestamp_seconds{pipeline="shop"}')
    assert now_ms() / 1000 - 60 < at <= now_ms() / 1000
    # Who looks after the process is told otherwise.
    assert alive == 503


def test_a_state_database_that_was_never_read_is_as_old_as_can_be() -> None:
    assert list(values(describe_staleness("shop", 0)).values()) == [0]

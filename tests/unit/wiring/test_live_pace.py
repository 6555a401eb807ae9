"""What a config says of how far apart the live tail publishes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.config.load import parse
from penstock.links.capture.spec import CaptureSpec
from penstock.wiring.capture import live_pace

if TYPE_CHECKING:
    from penstock.links.capture.follow import Pace

SOURCE = "{name: db, kind: mysql, host: h, user: u, password_env: P, tables: ['a.*']"


def pace_of(more: str) -> Pace:
    return live_pace(CaptureSpec(parse(f"pipeline: p\nsources: [{SOURCE}{more}\n", "p.yaml", Path("/")), "db", epoch=1))


def test_publications_are_as_far_apart_as_the_config_says() -> None:
    assert [pace_of("}]").interval_seconds, pace_of(", publish_interval_ms: 250}]").interval_seconds] == [0.04, 0.25]

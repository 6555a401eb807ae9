"""What a config says of how far apart the live tail publishes, and what follows where it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config.load import parse
from penstock.links.capture.spec import CaptureSpec
from penstock.wiring.capture import live_pace

SOURCE = "{name: db, kind: mysql, host: h, user: u, password_env: P, tables: ['a.*']"


LINKS = """\
sinks:
  - {name: reports, kind: duckdb, path: r.duckdb}
  - {name: lake, kind: delta, path: lake}
links:
"""


def interval_of(more: str, below: str = "") -> float:
    spec = parse(f"pipeline: p\nsources: [{SOURCE}{more}}}]\n{below}", "p.yaml", Path("/"))
    return live_pace(CaptureSpec(spec, "db", epoch=1)).interval_seconds


def test_publications_are_as_far_apart_as_the_config_says() -> None:
    links = LINKS + "  - {from: db, to: reports}\n"

    assert [interval_of(", publish_interval_ms: 70", below) for below in ("", links)] == [0.07, 0.07]


def test_without_a_word_of_it_a_source_that_feeds_topics_alone_is_prompt() -> None:
    assert interval_of("") == 0.04


@pytest.mark.parametrize(
    ("links", "seconds"),
    [
        ("  - {from: db, to: reports}\n", 0.25),
        ("  - {from: db, to: lake}\n", 0.25),
        ("  - {from: db, to: reports, freshness_ms: 100}\n  - {from: db, to: lake}\n", 0.1),
        ("  - {from: db, to: reports, freshness_ms: 0}\n", 0.04),
    ],
)
def test_changes_gather_in_the_capture_for_as_long_as_the_most_impatient_target_lets_them(
    links: str, seconds: float
) -> None:
    assert interval_of("", LINKS + links) == seconds

"""What `penstock check --connect` asks of a pipeline that ran before, while none of its own servers runs."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from penstock.config.load import load
from penstock.ports.state import PipelineIdentity
from penstock.wiring.check_started import examine_started
from penstock.wiring.open import open_pipeline_state

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.config.specs import PipelineSpec

_CONFIG = """\
pipeline: shop
sources:
  - {name: db, kind: mysql, host: 127.0.0.1, port: 1, user: u, password_env: PASSWORD, tables: ["shop.*"]}
sinks: [{name: warehouse, kind: duckdb, path: ./warehouse.duckdb}]
links: [{from: db, to: warehouse}]
"""


@pytest.fixture
def spec(tmp_path: Path) -> PipelineSpec:
    """A pipeline whose servers are all embedded."""
    file = tmp_path / "shop.yaml"
    file.write_text(_CONFIG)
    spec = load(file)
    (spec.home / "state").mkdir(parents=True)
    return spec


def keep(spec: PipelineSpec, *sources: str) -> None:
    with closing(open_pipeline_state(spec)) as state:
        state.save_identity(PipelineIdentity("its own cluster", sources))


def test_nothing_is_found_where_nothing_ran(spec: PipelineSpec) -> None:
    assert list(examine_started(spec)) == []


def test_a_broker_that_does_not_run_now_is_not_asked(spec: PipelineSpec) -> None:
    keep(spec, "db")

    (found,) = examine_started(spec)

    assert (found.level, found.message) == ("ok", "its rows are this pipeline's")


def test_rows_of_another_pipeline_are_told_without_it(spec: PipelineSpec) -> None:
    keep(spec, "db", "another")

    (found,) = examine_started(spec)

    assert (found.level, found.exit_code) == ("error", 2)
    assert "has the source another, which this config does not have" in found.message

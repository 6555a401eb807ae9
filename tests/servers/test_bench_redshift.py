"""The Redshift bench, with so few rows that nothing can be concluded from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.bench.lab import Lab, Settings
from penstock.bench.redshift.load import measure_copy, measure_inserts
from penstock.bench.redshift.topics import measure_topics

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(tmp_path_factory.mktemp("bench"), Settings(rows=1_200), lambda _: None) as opened:
        yield opened


@pytest.mark.nightly
def test_a_load_by_copy_is_measured_whole(lab: Lab) -> None:
    memory, share, speed, cpu = measure_copy(lab)

    assert 0 < (memory.value or 0) < 300
    assert 0 < (share.value or 0) < 1
    assert (speed.value or 0) > 0
    assert (cpu.value or 0) > 0
    assert "12,000 changes in one transaction" in memory.name


@pytest.mark.nightly
def test_inserts_are_measured_beside_it(lab: Lab) -> None:
    figures = measure_inserts(lab)

    assert [figure.peer for figure in figures] == [
        *["a DELETE and an INSERT per row"] * 2,
        *["a DELETE and an INSERT per 500 rows"] * 2,
    ]
    assert all(figure.value and figure.peer_value for figure in figures)


@pytest.mark.nightly
def test_both_spolts_are_measured_at_once(lab: Lab) -> None:
    """That both carry rows is shown by pipeline/test_redshift.py, how a load is measured by the tests above."""
    figures = measure_topics(lab)

    assert [figure.unit for figure in figures] == ["rows per second", "CPU seconds per million rows"]
    assert all(figure.value for figure in figures)

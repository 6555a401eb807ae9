"""The parts of the Schematizer's bench run, with so little that nothing can be concluded from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy import create_engine, text

from penstock.bench.lab import Lab, Settings
from penstock.bench.programs.http_load import percentile
from penstock.bench.schematizer.filling import VERSIONS, fill, schema_of
from penstock.bench.schematizer.load import measure_in_turn
from penstock.bench.schematizer.sides import bare, ours
from penstock.bench.schematizer.workload import REGISTRATION, TABLE, lookup
from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(tmp_path_factory.mktemp("bench"), Settings(rows=1_000, seconds=1), lambda _: None) as opened:
        yield opened


@pytest.mark.nightly
def test_both_sides_answer_what_they_are_asked_and_are_measured(lab: Lab) -> None:
    home = lab.folder("sides")
    with ours(home / "ours") as our, bare(home) as peer:
        loads = measure_in_turn(lab, "load", {our: [lookup(1), REGISTRATION, TABLE], peer: [lookup(1), REGISTRATION]})

        assert all(load.answers > 0 for side in (our, peer) for load in loads[side].rounds)
        assert all(load.cpu_seconds > 0 for side in (our, peer) for load in loads[side].rounds)
        with pytest.raises(PenstockError, match="errors"):
            measure_in_turn(lab, "refused", {our: [lookup(999)]})


@pytest.mark.nightly
def test_a_full_registry_has_what_was_filled_in(tmp_path: Path) -> None:
    first = fill(tmp_path / "full", 3)

    with ours(tmp_path / "full") as filled:
        filled.ask_each([lookup(first), lookup(first + 3 * VERSIONS - 1), schema_of(2, VERSIONS).request])

    engine = create_engine(f"sqlite:///{tmp_path / 'full' / 'schematizer.db'}")
    with engine.connect() as connection:
        counted = connection.execute(text("SELECT COUNT(*) FROM schemas WHERE id >= :first"), {"first": first})
        assert counted.scalar_one() == 3 * VERSIONS + 3
    engine.dispose()


def test_a_percentile_is_the_number_that_so_many_do_not_exceed() -> None:
    assert percentile([], 0.5) == 0
    assert [percentile([1, 2, 3, 4], share) for share in (0.25, 0.5, 0.51, 0.99, 1)] == [1, 2, 3, 4, 4]

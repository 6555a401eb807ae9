"""A target where case does not count in texts is refused before it has any rows."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from penstock.adapters.duckdb.warehouse import DuckdbWarehouse
from penstock.core.errors import UnfitServerError
from penstock.links.warehouse.progress import TargetProgress

if TYPE_CHECKING:
    from pathlib import Path

_BATCHES = (
    "CREATE TABLE penstock.batches (pipeline VARCHAR, source VARCHAR{}, next_batch_offset BIGINT, last_message VARCHAR)"
)


@pytest.mark.parametrize(
    ("collation", "loaded", "is_refused"),
    [(" COLLATE NOCASE", 0, True), (" COLLATE NOCASE", 7, False), ("", 0, False)],
)
def test_a_new_target_is_refused_where_case_does_not_count(
    tmp_path: Path,
    collation: str,
    loaded: int,
    is_refused: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    with closing(DuckdbWarehouse(tmp_path / "w.duckdb")) as warehouse:
        warehouse.run("CREATE SCHEMA penstock")
        warehouse.run(_BATCHES.format(collation))
        progress = TargetProgress(warehouse, "shop", "shopdb")
        if loaded:
            progress.set_batch_offset(loaded)

        if is_refused:
            with pytest.raises(UnfitServerError, match="texts are equal that differ in upper and lower case") as told:
                progress.create()
            assert "COLLATE CASE_SENSITIVE" in told.value.hint
        else:
            progress.create()

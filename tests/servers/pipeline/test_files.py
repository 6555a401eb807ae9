"""A pipeline whose files are CSV, wait for more rows, and go once its target has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from penstock.ports.queries import ReadLimits
from penstock.wiring.sink_kinds.table import sql_kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.pipeline.conftest import PipelineCase


def test_files_that_wait_are_written_at_the_end_and_go_with_the_next_run(
    make_case: Callable[..., PipelineCase],
) -> None:
    case = make_case()
    config = yaml.safe_load(case.file.read_text())
    config["objects"] = {"format": "csv", "batch_seconds": 3600.0, "keep_hours": 0.0}
    case.file.write_text(yaml.safe_dump(config))
    case.write("CREATE TABLE notes (id INT PRIMARY KEY, note TEXT)", "INSERT INTO notes VALUES (1, ''), (2, NULL)")
    case.run_once()
    first = list((case.spec.home / "objects").rglob("*.csv.zst"))

    case.write(r"UPDATE notes SET note = '\\N,\"\n' WHERE id = 1")
    case.run_once()
    second = list((case.spec.home / "objects").rglob("*.csv.zst"))

    case.assert_equal()
    assert (len(first), len(second)) == (1, 1)
    assert first != second
    assert case.records("objects")[-1]["files_from"] == case.records("objects")[-1]["deleted_to"] > 0


@pytest.mark.nightly
def test_a_run_once_that_has_a_new_target_ends_when_that_has_what_files_lack(
    make_case: Callable[..., PipelineCase],
) -> None:
    case = make_case()
    config = yaml.safe_load(case.file.read_text())
    config["objects"] = {"keep_hours": 0}
    case.file.write_text(yaml.safe_dump(config))
    case.write("CREATE TABLE notes (id INT PRIMARY KEY, note TEXT)", "INSERT INTO notes VALUES (1, 'a'), (2, 'b')")
    case.run_once()
    case.write("UPDATE notes SET note = 'c' WHERE id = 1")
    case.run_once()
    config["sinks"].append({"name": "new", "kind": "duckdb", "path": str(case.spec.home / "new.duckdb")})
    config["links"].append({"from": "db", "to": "new"})
    case.file.write_text(yaml.safe_dump(config))
    case.write("DELETE FROM notes WHERE id = 2", "INSERT INTO notes VALUES (3, 'd')")

    case.run_once()

    case.assert_equal()
    query = f"SELECT id, note FROM {case.database}.notes ORDER BY id"
    found = sql_kind(case.spec, case.spec.sink("new")).query(query, ReadLimits()).rows.to_pylist()
    assert found == [{"id": 1, "note": "c"}, {"id": 3, "note": "d"}]

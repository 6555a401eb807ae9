"""What programs with dlt share: the pipeline into DuckDB, its merge, and marks. It has none of our packages."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import dlt

if TYPE_CHECKING:
    from collections.abc import Iterable

_MERGE = {"is_deleted": {"hard_delete": True}, "change_offset": {"dedup_sort": "desc"}}


def open_pipeline(database: str, folder: str) -> dlt.Pipeline:
    """Make a pipeline into a DuckDB file that keeps its state below `folder`."""
    os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"
    return dlt.pipeline(
        "bench", pipelines_dir=folder, destination=dlt.destinations.duckdb(database), dataset_name="bench"
    )


def merge(pipeline: dlt.Pipeline, rows: Iterable[object]) -> None:
    """Merge rows with dlt's defaults for it.

    dlt documentation, "Merge loading": delete-insert, hard_delete, dedup_sort.
    """
    pipeline.run(
        dlt.resource(rows, name="orders", primary_key="id", write_disposition="merge", columns=_MERGE)
    ).raise_on_failed_jobs()


def mark(name: str, number: float) -> None:
    """Tell whoever measures."""
    sys.stdout.write(f"mark {name} {number:.6f}\n")
    sys.stdout.flush()

"""Merges batch files of ours into DuckDB with dlt. Run by the Python of dlt's own environment, which has none of ours.

    python dlt_merge.py FILES DATABASE FOLDER LOADS

FILES names a Parquet file in each line. The first is loaded before anything is
measured; the rows of the others are cut into LOADS loads. They are given to dlt as
Arrow tables, which is the quickest way into it, with its defaults for a merge
(dlt documentation, "Merge loading": delete-insert, hard_delete, dedup_sort).
Marks: `begin`, `end`, `rows`.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import dlt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_COLUMNS = {"is_deleted": {"hard_delete": True}, "change_offset": {"dedup_sort": "desc"}}


def main(arguments: list[str]) -> None:
    """Merge them."""
    listed, database, folder, loads = arguments
    os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"
    first, *rest = Path(listed).read_text().splitlines()
    pipeline = dlt.pipeline(
        "bench", pipelines_dir=folder, destination=dlt.destinations.duckdb(database), dataset_name="bench"
    )
    _merge(pipeline, _read(first))
    changes = pa.concat_tables([_read(file) for file in rest]).combine_chunks()
    each = -(-changes.num_rows // int(loads))
    _mark("begin", time.monotonic())
    for start in range(0, changes.num_rows, each):
        _merge(pipeline, changes.slice(start, each))
    _mark("end", time.monotonic())
    _mark("rows", changes.num_rows)


def _merge(pipeline: dlt.Pipeline, rows: pa.Table) -> None:
    pipeline.run(
        dlt.resource([rows], name="orders", primary_key="id", write_disposition="merge", columns=_COLUMNS)
    ).raise_on_failed_jobs()


def _read(file: str) -> pa.Table:
    rows = pq.read_table(file)
    deleted = pc.equal(rows.column("__penstock_op"), pa.scalar("d"))
    named = rows.rename_columns([name.replace("__penstock_offset", "change_offset") for name in rows.column_names])
    return named.drop_columns(["__penstock_op"]).append_column("is_deleted", deleted)


def _mark(name: str, number: float) -> None:
    sys.stdout.write(f"mark {name} {number:.6f}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])

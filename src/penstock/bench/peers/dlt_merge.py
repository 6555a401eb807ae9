"""Merges batch files of ours into DuckDB with dlt. Run by the Python of dlt's own environment, which has none of ours.

    python dlt_merge.py FILES DATABASE FOLDER LOADS

FILES names a Parquet file in each line. The first is loaded before anything is
measured; the rows of the others are cut into LOADS loads. They are given to dlt as
Arrow tables, which is the quickest way into it.
Marks: `begin`, `end`, `rows`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from dlt_pipeline import mark, merge, open_pipeline


def main(arguments: list[str]) -> None:
    """Merge them."""
    listed, database, folder, loads = arguments
    first, *rest = Path(listed).read_text().splitlines()
    pipeline = open_pipeline(database, folder)
    merge(pipeline, [_read(first)])
    changes = pa.concat_tables([_read(file) for file in rest]).combine_chunks()
    each = -(-changes.num_rows // int(loads))
    mark("begin", time.monotonic())
    for start in range(0, changes.num_rows, each):
        merge(pipeline, [changes.slice(start, each)])
    mark("end", time.monotonic())
    mark("rows", changes.num_rows)


def _read(file: str) -> pa.Table:
    rows = pq.read_table(file)
    deleted = pc.equal(rows.column("__penstock_op"), pa.scalar("d"))
    named = rows.rename_columns([name.replace("__penstock_offset", "change_offset") for name in rows.column_names])
    return named.drop_columns(["__penstock_op"]).append_column("is_deleted", deleted)


if __name__ == "__main__":
    main(sys.argv[1:])

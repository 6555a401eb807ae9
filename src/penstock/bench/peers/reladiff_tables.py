"""Compares a table of MySQL with its copy. Run by the Python of reladiff's own environment, which has none of ours.

    python reladiff_tables.py FROM TO TABLE COLUMNS ROWS

FROM and TO are JSON as reladiff's `connect` takes it; the first of COLUMNS is the key. Marks: `begin`, `end`,
`differing` (rows that were named), `rows` (ROWS).
"""

from __future__ import annotations

import json
import sys
import time

from reladiff import connect_to_table, diff_tables


def main(arguments: list[str]) -> None:
    """Compare them, all columns, with the defaults of its command line."""
    source, target, table, columns, rows = arguments
    key, *others = columns.split(",")
    _mark("begin", time.monotonic())
    mine = connect_to_table(json.loads(source), table.partition(".")[2], key)
    theirs = connect_to_table(json.loads(target), tuple(table.split(".")), key)
    keys: set[object] = set()
    with diff_tables(mine, theirs, extra_columns=tuple(others)) as found:
        for _, row in found:
            keys.add(row[0])
    _mark("end", time.monotonic())
    _mark("differing", len(keys))
    _mark("rows", int(rows))


def _mark(name: str, number: float) -> None:
    sys.stdout.write(f"mark {name} {number:.6f}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])

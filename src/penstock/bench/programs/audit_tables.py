"""Audits a table of MariaDB against its copy, both given by URL.

    python -m penstock.bench.programs.audit_tables FROM TO TABLE ROWS_MAX

Marks: `begin`, `end`, `differing` (rows that were named), `rows` (of the source).
"""

from __future__ import annotations

import sys

from penstock.bench.marks import write_mark
from penstock.core.tables import TableId
from penstock.links.audit.compare import Bounds
from penstock.wiring.audit_urls import TableAt, audit_urls


def main(arguments: list[str]) -> None:
    """Audit it."""
    source, target, name, rows_max = arguments
    table = TableId.parse(name)
    bounds = Bounds(suspects_max=int(rows_max), rows_max=int(rows_max))
    write_mark("begin")
    report = audit_urls(TableAt(source, table), TableAt(target, table), bounds)
    write_mark("end")
    (found,) = report.tables
    write_mark("differing", len(found.rows))
    write_mark("rows", found.source_rows)


if __name__ == "__main__":
    main(sys.argv[1:])

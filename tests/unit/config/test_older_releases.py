"""Files that were written for older releases are read as they were."""

from __future__ import annotations

from pathlib import Path

from penstock.config.load import parse
from penstock.wiring.open import mysql_source

_FILE = """\
pipeline: shop
sources:
  - name: shopdb
    kind: mysql
    host: h
    user: cdc
    password_env: P
    tables: [shop.*]
    start: copy
    lease_seconds: 7
    copy_commit_seconds: 8
sinks:
  - {name: warehouse, kind: duckdb, path: ./warehouse.duckdb}
links:
  - {from: shopdb, to: warehouse}
"""


def test_keys_and_values_that_have_other_names_now_are_read() -> None:
    source = mysql_source(parse(_FILE, "shop.yaml", Path("/etc/penstock")).sources[0])

    assert (source.start, source.tail_slice_seconds, source.snapshot_commit_seconds) == ("snapshot", 7, 8)

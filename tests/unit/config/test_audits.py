"""What a file says of audits: where a replica is."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config.load import parse
from penstock.core.errors import ConfigError

FILE = """\
pipeline: shop
sources:
  - {{name: shopdb, kind: mysql, host: h, user: cdc, password_env: SHOPDB_PASSWORD, tables: [shop.*]}}
sinks:
  - {{name: warehouse, kind: duckdb, path: ./warehouse.duckdb}}
links:
  - {{from: shopdb, to: warehouse}}
audits:
  - {{source: shopdb, sink: warehouse, {replica}}}
"""


@pytest.mark.parametrize(("port", "read"), [("", None), (", port: 3307", 3307)])
def test_a_replica_has_the_port_of_the_source_unless_it_says_another(port: str, read: int | None) -> None:
    (audit,) = parse(FILE.format(replica=f"replica: {{host: r{port}}}"), "shop.yaml", Path("/etc")).audits

    assert audit.replica is not None
    assert (audit.replica.host, audit.replica.port) == ("r", read)


@pytest.mark.parametrize(
    ("replica", "told"),
    [
        ("replica: {port: 1}", "audits.0.replica: missing key host"),
        ("replica: ", "audits.0.replica: says nothing: write replica: {host: ...}, or leave it out"),
    ],
)
def test_a_replica_that_is_nowhere_is_a_mistake(replica: str, told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(FILE.format(replica=replica), "shop.yaml", Path("/etc"))

    assert told in str(refused.value)

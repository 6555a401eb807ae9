"""What a failover refuses before it asks any server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.config.load import load
from penstock.core.errors import UsageError
from penstock.wiring.failover import fail_over, move_source
from penstock.wiring.postgres_failover import take_new_slot

if TYPE_CHECKING:
    from pathlib import Path

_FILE = """
pipeline: shop
kafka: {bootstrap_servers: "127.0.0.1:9", transactions: false}
sources:
  - {name: db, kind: mysql, host: 127.0.0.1, port: 9, user: cdc, password_env: P, tables: ["shop.*"]}
"""


def test_a_failover_without_transactions_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(_FILE)
    spec = move_source(load(file), "db", "127.0.0.1", 10)

    with pytest.raises(UsageError, match="a failover needs them"):
        fail_over(spec, "db")


def test_a_new_slot_of_postgresql_without_transactions_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(_FILE.replace("kind: mysql", "kind: postgres, database: shop").replace("shop.*", "public.*"))
    spec = move_source(load(file), "db", "db2", 5433)

    assert (spec.sources[0].host, spec.sources[0].port) == ("db2", 5433)
    with pytest.raises(UsageError, match="a failover needs them"):
        take_new_slot(spec, "db")

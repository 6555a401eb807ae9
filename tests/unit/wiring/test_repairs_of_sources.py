"""Rows are repaired from the source that was audited, though another one has a table of that name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.web.shop import Shop

from penstock.core.audit.findings import TableFindings
from penstock.core.audit.repair import RepairKeys
from penstock.core.audit.report import AuditReport
from penstock.core.audit.side import AuditColumn
from penstock.core.audit.suspects import Suspects
from penstock.core.errors import UnavailableError
from penstock.wiring.audit_repair import ask_for_repairs

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """\
pipeline: shop
sources:
  - {name: shopdb, kind: mysql, host: 127.0.0.1, port: 1, user: cdc, password_env: SHOP_PASSWORD, tables: [shop.*]}
  - {name: store, kind: mysql, host: 127.0.0.1, port: 2, user: cdc, password_env: SHOP_PASSWORD, tables: [shop.*]}
sinks:
  - {name: warehouse, kind: duckdb, path: shop.duckdb}
links:
  - {from: shopdb, to: warehouse}
  - {from: store, to: warehouse, schema: store_shop}
"""


@pytest.mark.parametrize(("source", "port"), [("shopdb", 1), ("store", 2)])
def test_the_source_that_was_audited_is_asked_for_the_rows(
    source: str, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "secret")
    file = tmp_path / "shop.yaml"
    file.write_text(CONFIG)
    shop = Shop(file)
    shop.run()
    keys = RepairKeys((AuditColumn("id", "integer"),), Suspects.of_keys([("7",)]))
    orders = TableFindings("shop.orders", "different", repair_keys=keys)

    # Nobody answers there: whom it asks is all that is told.
    asked = ask_for_repairs(shop.spec, [AuditReport("shop", source, "warehouse", 1.0, 16, 0, 1.0, (orders,))])

    ((table, error),) = asked.refused
    assert (asked.snapshots, table) == ([], "shop.orders")
    assert isinstance(error, UnavailableError)
    assert f"127.0.0.1:{port}" in error.message

"""What a link's control of single tables is opened with."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from penstock.config.load import parse
from penstock.core.tables import TableId
from penstock.wiring.table_control import open_table_control

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

CONFIG = """\
pipeline: shop
sources:
  - {name: shopdb, kind: mysql, host: h, user: cdc, password_env: SHOP_PASSWORD, tables: [shop.*]}
sinks:
  - {name: warehouse, kind: duckdb, path: shop.duckdb}
links:
  - from: shopdb
    to: warehouse
    columns:
      drop: ["secret_*", "!secret_id"]
      hash: [secret_id]
      salt_env: SALT
      mask: [{columns: [email]}]
"""


def test_what_a_link_drops_hashes_or_masks_is_hidden_whatever_another_list_excepts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SALT", "x" * 40)
    spec = parse(CONFIG, "shop.yaml", tmp_path)

    with closing(open_table_control(spec, spec.links[0])) as control:
        names = ("secret_note", "secret_id", "email", "qty")
        hidden = [name for name in names if control._hides(TableId("shop", "orders"), name)]

    assert hidden == ["secret_note", "secret_id", "email"]

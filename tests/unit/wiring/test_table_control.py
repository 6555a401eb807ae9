"""What a link's control of single tables is opened with."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from penstock.config.load import parse
from penstock.core.tables import TableId
from penstock.wiring.table_control import open_table_control

if TYPE_CHECKING:
    from pathlib import Path

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


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("to: warehouse\n", 'to: warehouse\n    tables: ["!shop.orders", "shop.*"]\n'),
        ("tables: [shop.*]", 'tables: ["!shop.orders", "shop.*"]'),
    ],
)
def test_what_a_link_or_its_source_leaves_out_is_not_wanted_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, without: str
) -> None:
    monkeypatch.setenv("SALT", "x" * 40)
    spec = parse(CONFIG.replace(text, without), "shop.yaml", tmp_path)

    with closing(open_table_control(spec, spec.links[0])) as control:
        wanted = [name for name in ("orders", "items") if control._wanted(TableId("shop", name))]

    assert wanted == ["items"]


def test_what_a_link_drops_hashes_or_masks_is_hidden_whatever_another_list_excepts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SALT", "x" * 40)
    spec = parse(CONFIG, "shop.yaml", tmp_path)

    with closing(open_table_control(spec, spec.links[0])) as control:
        names = ("secret_note", "secret_id", "email", "qty")
        hidden = [name for name in names if control._hides(TableId("shop", "orders"), name)]

    assert hidden == ["secret_note", "secret_id", "email"]

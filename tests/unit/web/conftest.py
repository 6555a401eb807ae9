"""A shop for every test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.web.shop import CONFIG, Shop

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """A pipeline that never ran."""
    file = tmp_path / "shop.yaml"
    file.write_text(CONFIG)
    return Shop(file)

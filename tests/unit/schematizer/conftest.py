"""A Schematizer of its own for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.schematizer.served import served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[httpx.Client]:
    """A client of an empty registry."""
    with served(f"sqlite:///{tmp_path / 'schematizer.db'}") as client:
        yield client

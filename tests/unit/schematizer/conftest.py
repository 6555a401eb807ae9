"""A Schematizer of its own for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.schematizer.served import served

from penstock.schematizer.security import credentials

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx


@pytest.fixture(scope="session", autouse=True)
def _cheap_passwords() -> Iterator[None]:
    """Hash passwords with less work: a hash says with how much, and one test asks for the cost of real ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(credentials, "_COST", 1 << 4)
        yield


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[httpx.Client]:
    """A client of an empty registry."""
    with served(f"sqlite:///{tmp_path / 'schematizer.db'}") as client:
        yield client

"""The system's Chromium, and a Schematizer with a shop in it."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import sync_playwright
from tests.browser.shop import fill
from tests.unit.schematizer.served import served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

_NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium; tests skip where the system has none.

    It is gone with its module: while Playwright runs, no other test of this
    process can run an event loop of its own.
    """
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        pytest.skip("no Chromium here: sh scripts/install_packages.sh chromium installs it on Debian")
    # Chromium's sandbox refuses root.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=arguments)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the pages of a registry with a shop in it; it is told of a Kafka that is away."""
    database = tmp_path_factory.mktemp("shop") / "schematizer.db"
    with served(f"sqlite:///{database}", kafka="127.0.0.1:1") as client:
        fill(client)
        yield str(client.base_url).rstrip("/") + "/ui"

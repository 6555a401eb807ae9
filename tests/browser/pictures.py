"""Takes the pictures of docs/images: `PYTHONPATH=src:. .venv/bin/python -m tests.browser.pictures`."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Literal, NamedTuple

from playwright.sync_api import Browser, sync_playwright
from tests.browser.shop import fill
from tests.unit.schematizer.served import served
from tests.unit.web.shop import CONFIG, Shop
from tests.unit.web.shop import served as watched

IMAGES = Path(__file__).parents[2] / "docs" / "images"


class Picture(NamedTuple):
    """One picture: its file, the page, and the window it is seen through."""

    name: str
    path: str
    width: int
    height: int
    scheme: Literal["light", "dark"]


PICTURES = (
    Picture("schematizer-topic", "/topics/shopdb.shop.orders.v2", 1100, 900, "light"),
    Picture("schematizer-difference", "/topics/shopdb.shop.orders.v2#difference-heading", 1100, 520, "dark"),
    Picture("schematizer-table", "/sources/shopdb/shop/orders", 1100, 900, "light"),
    Picture("schematizer-table-small", "/sources/shopdb/shop/orders", 400, 800, "dark"),
)


def take(browser: Browser, url: str, picture: Picture) -> Path:
    """Take one picture of the pages at `url`, in colours few enough for a small file."""
    context = browser.new_context(
        viewport={"width": picture.width, "height": picture.height}, color_scheme=picture.scheme
    )
    page = context.new_page()
    page.goto(url + picture.path)
    # The live page never stops listening.
    page.wait_for_load_state("load" if picture.name == "live-page" else "networkidle")
    if picture.path.startswith("/sources"):
        page.locator("#column-status summary").click()
    file = IMAGES / f"{picture.name}.png"
    page.screenshot(path=file)
    context.close()
    return file


def take_live(browser: Browser) -> Path:
    """Take the picture of a pipeline's live page."""
    with tempfile.TemporaryDirectory() as home:
        shop = Shop(Path(home) / "shop.yaml")
        shop.file.write_text(CONFIG)
        with shop.held():
            shop.run()
            shop.samples(55, 100)
            shop.servers("running", "running", restarts=1)
            with watched(shop) as client:
                return take(browser, str(client.base_url), Picture("live-page", "", 1100, 900, "light"))


def main() -> None:
    """Take them all."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with (
        tempfile.TemporaryDirectory() as home,
        served(f"sqlite:///{home}/schematizer.db") as client,
        sync_playwright() as playwright,
    ):
        fill(client)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        url = str(client.base_url).rstrip("/") + "/ui"
        for picture in PICTURES:
            file = take(browser, url, picture)
            print(f"{file}: {file.stat().st_size} bytes")  # noqa: T201 - a script's words
        file = take_live(browser)
        print(f"{file}: {file.stat().st_size} bytes")  # noqa: T201 - a script's words
        browser.close()


if __name__ == "__main__":
    main()

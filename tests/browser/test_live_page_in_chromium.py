"""The live page in a real browser: small and large, in light and dark, by keyboard, while things change."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect
from tests.browser.visits import CONTRAST_MIN, LOW_CONTRAST, WIDTHS, Scheme, require_structure, visitor
from tests.unit.web.shop import CONFIG, Shop, now_ms, served

from penstock.wiring.open import open_pipeline_state

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser


@pytest.fixture
def live(tmp_path: Path) -> Iterator[tuple[Shop, str]]:
    """A pipeline that runs with something of everything that a page may show, and the URL of its page."""
    file = tmp_path / "shop.yaml"
    file.write_text(CONFIG)
    shop = Shop(file)
    with shop.held():
        shop.run()
        shop.samples(10, 100)
        with closing(open_pipeline_state(shop.spec)) as state:
            state.stop_table("shopdb", "shop.places", "geometry is not carried", "leave it out", now_ms() - 90_000)
            state.save_table_lags("shopdb-to-warehouse", {"shop.orders": now_ms() - 75_000})
        shop.link("objects", failures=1, failed_at_ms=now_ms() - 50_000, failure="a worker died")
        with served(shop) as client:
            yield shop, str(client.base_url)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_live_page_does_not_scroll_sideways_and_can_be_read(
    browser: Browser, live: tuple[Shop, str], width: int, scheme: Scheme
) -> None:
    with visitor(browser, width=width, scheme=scheme) as page:
        page.goto(live[1])

        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(LOW_CONTRAST, CONTRAST_MIN) == []
        require_structure(page, "/")


def test_a_server_that_dies_is_seen_without_a_reload_and_gone_when_it_is_back(
    browser: Browser, live: tuple[Shop, str]
) -> None:
    shop, url = live
    with visitor(browser) as page:
        page.goto(url)
        trouble = page.locator(".trouble", has_text="it died, and is being started again")
        expect(page.get_by_text("shop.places").first).to_be_visible()
        expect(trouble).to_have_count(0)
        table = page.locator(".scroll")
        table.focus()

        shop.servers("starting", "running", 1)
        expect(trouble).to_be_visible()
        expect(trouble).to_contain_text("Kafka")
        shop.servers("running", "running", 1)
        expect(trouble).to_have_count(0)

        expect(page.get_by_text("restarted 1 ")).to_be_visible()
        expect(table).to_be_focused()
        expect(page.locator("#connection")).to_be_hidden()


def test_the_keyboard_comes_to_the_content_and_to_wide_tables(browser: Browser, live: tuple[Shop, str]) -> None:
    with visitor(browser, width=400) as page:
        page.goto(live[1])
        page.keyboard.press("Tab")
        expect(page.get_by_text("Skip to the content")).to_be_focused()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")

        expect(page.locator(".scroll")).to_be_focused()


def test_the_page_is_whole_without_javascript(browser: Browser, live: tuple[Shop, str]) -> None:
    with visitor(browser, script=False) as page:
        page.goto(live[1])

        expect(page.get_by_role("heading", name="shop", exact=True)).to_be_visible()
        expect(page.locator(".charted path.line").first).to_be_attached()

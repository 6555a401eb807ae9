"""The live page in a real browser: small and large, in light and dark, by keyboard, while things change."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect
from tests.browser.visits import CONTRAST_MIN, LOOKS, LOW_CONTRAST, Scheme, require_structure, visitor
from tests.unit.web.shop import CONFIG, JOIN, RULES, SPOLT, Shop, now_ms, served

from penstock.ports.table_actions import Action, Stage, TableRequest
from penstock.wiring.open import open_pipeline_state, open_table_actions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Dialog, Route


# In the page: cells of tables that are many times higher than wide, for their words are broken letter by letter.
BROKEN_WORDS = """
[...document.querySelectorAll(".grid th, .grid td")]
  .filter((cell) => cell.offsetHeight > 4 * cell.offsetWidth).map((cell) => cell.textContent)
"""


@pytest.fixture
def live(tmp_path: Path) -> Iterator[tuple[Shop, str]]:
    """A pipeline that runs with something of everything that a page may show, and the URL of its page."""
    file = tmp_path / "shop.yaml"
    (tmp_path / "reviews.yaml").write_text(JOIN)
    file.write_text(f"{CONFIG}joins: [reviews.yaml]\n{RULES}{SPOLT}")
    shop = Shop(file)
    with shop.held():
        shop.run()
        shop.samples(10, 100)
        shop.busy()
        with closing(open_pipeline_state(shop.spec)) as state:
            state.stop_table("shopdb", "shop.places", "geometry is not carried", "leave it out", now_ms() - 90_000)
            state.save_table_lags("shopdb-to-warehouse", {"shop.orders": now_ms() - 75_000})
        shop.link("big_orders", dead_letters=3)
        stands = "12345 messages of 16 partitions; made again from 4711 of 12345; it stands still: no such topic"
        shop.link("business_review_join", position=stands)
        shop.link("objects", failures=1, failed_at_ms=now_ms() - 50_000, failure="a worker died")
        with served(shop) as client:
            yield shop, str(client.base_url)


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_the_live_page_does_not_scroll_sideways_and_can_be_read(
    browser: Browser, live: tuple[Shop, str], width: int, scheme: Scheme
) -> None:
    with visitor(browser, width=width, scheme=scheme) as page:
        page.goto(live[1])

        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(BROKEN_WORDS) == []
        assert page.evaluate(LOW_CONTRAST, CONTRAST_MIN) == []
        require_structure(page, "/")


@pytest.mark.nightly
def test_a_server_that_dies_is_seen_without_a_reload_and_gone_when_it_is_back(
    browser: Browser, live: tuple[Shop, str]
) -> None:
    shop, url = live
    with visitor(browser) as page:
        page.goto(url)
        trouble = page.locator(".trouble", has_text="it died, and is being started again")
        expect(page.get_by_text("shop.places").first).to_be_visible()
        expect(trouble).to_have_count(0)
        table = page.locator(".scroll").first
        table.focus()

        shop.servers("starting", "running", 1)
        expect(trouble).to_be_visible()
        expect(trouble).to_contain_text("Kafka")
        shop.servers("running", "running", 1)
        expect(trouble).to_have_count(0)

        expect(page.get_by_text("restarted 1 ")).to_be_visible()
        expect(table).to_be_focused()
        expect(page.locator("#connection")).to_be_hidden()


@pytest.mark.nightly
def test_a_page_that_was_refused_comes_back_by_itself(browser: Browser, live: tuple[Shop, str]) -> None:
    shop, url = live
    answers: list[int] = []

    def refuse_twice(route: Route) -> None:
        answers.append(503)
        if len(answers) <= 2:
            route.fulfill(status=503, body="<h1>not now</h1>")
        else:
            route.continue_()

    with visitor(browser) as page:
        # It comes again after 5 s, and not after up to 30.
        page.add_init_script("Math.random = () => 0")
        page.route("**/events/", refuse_twice)
        page.goto(url)
        expect(page.locator("#connection")).to_be_visible()
        shop.servers("starting", "running", 1)

        expect(page.locator(".trouble", has_text="it died, and is being started again")).to_be_visible(timeout=30_000)
        expect(page.locator("#connection")).to_be_hidden()


@pytest.mark.nightly
def test_an_answer_that_nobody_can_read_is_not_told_as_nothing_done(browser: Browser, live: tuple[Shop, str]) -> None:
    with visitor(browser) as page:
        page.route("**/tables", lambda route: route.fulfill(status=503, body="<h1>not now</h1>"))
        page.goto(live[1])
        page.get_by_role("button", name="Pause shop.orders at shopdb-to-warehouse").click()

        expect(page.locator("#told")).to_contain_text("No answer came: look whether it was done")


@pytest.mark.nightly
def test_the_keyboard_comes_to_the_content_and_to_wide_tables(browser: Browser, live: tuple[Shop, str]) -> None:
    with visitor(browser, width=400) as page:
        page.goto(live[1])
        page.keyboard.press("Tab")
        expect(page.get_by_text("Skip to the content")).to_be_focused()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="3 dead letters")).to_be_focused()
        page.keyboard.press("Tab")

        expect(page.locator(".scroll").first).to_be_focused()


def test_the_page_is_whole_without_javascript(browser: Browser, live: tuple[Shop, str]) -> None:
    with visitor(browser, script=False) as page:
        page.goto(live[1])

        expect(page.get_by_role("heading", name="shop", exact=True)).to_be_visible()
        expect(page.locator(".charted path.line").first).to_be_attached()


def test_a_table_is_paused_and_letters_are_replayed_by_buttons_and_the_keyboard_stays_there(
    browser: Browser, live: tuple[Shop, str]
) -> None:
    shop, url = live
    with visitor(browser) as page, closing(open_table_actions(shop.spec)) as actions:
        page.goto(url)
        page.get_by_role("button", name="Pause shop.orders at shopdb-to-warehouse").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#told")).to_contain_text("asked to pause shop.orders at shopdb-to-warehouse")

        (asked,) = actions.requests()
        actions.end(asked, Stage.DONE, "it waits")

        expect(page.get_by_role("button", name="Resume shop.orders at shopdb-to-warehouse")).to_be_focused()
        expect(page.get_by_role("button", name="Drop shop.orders at shopdb-to-warehouse")).to_be_visible()
        expect(page.locator(".trouble", has_text="somebody at the page paused it")).to_be_visible()

        page.on("dialog", lambda dialog: dialog.accept())
        replay = page.get_by_role("button", name="Replay the dead letters of big_orders")
        replay.focus()
        page.keyboard.press("Enter")
        expect(page.locator("#told")).to_contain_text("its private kafka does not answer yet", timeout=60_000)
        expect(replay).to_be_focused()


def test_nothing_is_dropped_without_a_yes(browser: Browser, live: tuple[Shop, str]) -> None:
    shop, url = live
    with closing(open_table_actions(shop.spec)) as actions:
        actions.ask(TableRequest("1", "shopdb-to-warehouse", "shop.orders", Action.PAUSE, "ann"))
        with visitor(browser) as page:
            asked: list[str] = []
            page.on("dialog", partial(_say_no, asked))
            page.goto(url)
            page.get_by_role("button", name="Drop shop.orders at shopdb-to-warehouse").click()
            expect(page.get_by_role("button", name="Drop shop.orders at shopdb-to-warehouse")).to_be_enabled()

        assert "will forget how far shop.orders is loaded" in asked[0]
        assert [each.action for each in actions.requests()] == [Action.PAUSE]


def _say_no(asked: list[str], dialog: Dialog) -> None:
    asked.append(dialog.message)
    dialog.dismiss()

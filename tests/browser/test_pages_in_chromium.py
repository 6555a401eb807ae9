"""The pages in a real browser: on a telephone and on a desk, in light and dark, with JavaScript and without."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect
from tests.browser.visits import CONTRAST_MIN, LOOKS, LOW_CONTRAST, Scheme, require_structure, visitor

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PATHS = (
    "/",
    "/namespaces/shopdb",
    "/sources/shopdb/shop/orders",
    "/topics/shopdb.shop.orders.v2",
    "/topics/shopdb.shop.orders.v2/figures",
    "/schemas/4",
    "/subjects",
    "/subjects/web.clicks-value",
    "/search?q=order",
    "/history",
    "/topics/none",
)


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_pages_do_not_scroll_sideways_can_be_read_and_name_every_field(
    browser: Browser, shop: str, width: int, scheme: Scheme
) -> None:
    with visitor(browser, width=width, scheme=scheme) as page:
        for path in PATHS:
            page.goto(shop + path)
            page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")

            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            assert page.evaluate(LOW_CONTRAST, CONTRAST_MIN) == [], path
            require_structure(page, path)


@pytest.mark.parametrize(("width", "script"), [(400, False), (1400, True)])
def test_a_column_is_documented_in_place(browser: Browser, shop: str, width: int, script: bool) -> None:  # noqa: FBT001 - a parameter
    doc = f"Gifts of {width}, {script}"
    with visitor(browser, width=width, script=script) as page:
        page.goto(f"{shop}/sources/shopdb/shop/orders")
        row = page.locator("#column-gift")

        row.get_by_text("Edit", exact=False).first.click()
        row.get_by_label("Docs: what gift holds").fill(doc)
        row.get_by_label("Personal data").select_option("no")
        row.get_by_label("Your name").fill("Ada")
        row.get_by_role("button", name="Save gift").click()

        expect(page.locator("#column-gift").locator(".said").first).to_have_text(doc)
        assert page.url.endswith("/sources/shopdb/shop/orders#column-gift")
        expect(page.get_by_text(doc).last).to_be_visible()


@pytest.mark.parametrize("script", [True, False])
def test_what_is_wrong_is_said_beside_the_field(browser: Browser, shop: str, script: bool) -> None:  # noqa: FBT001 - a parameter
    with visitor(browser, script=script) as page:
        page.goto(f"{shop}/sources/shopdb/shop/articles")
        page.get_by_text("Edit owner, category and docs").click()
        page.get_by_label("Owner, an e-mail address").fill("nobody")
        page.get_by_label("Docs: what a row stands for").fill("What is sold")
        page.get_by_role("button", name="Save", exact=True).click()

        field = page.get_by_label("Owner, an e-mail address")
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(field).to_be_focused()
        expect(page.get_by_role("alert")).to_contain_text("is not an e-mail address")
        expect(page.get_by_label("Docs: what a row stands for")).to_have_value("What is sold")


@pytest.mark.parametrize(("width", "script"), [(400, False), (1400, True)])
def test_search_leads_to_a_column(browser: Browser, shop: str, width: int, script: bool) -> None:  # noqa: FBT001 - a parameter
    with visitor(browser, width=width, script=script) as page:
        page.goto(f"{shop}/")
        page.get_by_label("Search tables").fill("REMARKED")
        page.get_by_label("Search tables").press("Enter")
        page.get_by_role("link", name="note", exact=True).click()

        assert page.url.endswith("/sources/shopdb/shop/orders#column-note")
        expect(page.locator("#column-note")).to_be_in_viewport()


@pytest.mark.parametrize(("width", "script"), [(400, False), (1400, True)])
def test_two_versions_stand_side_by_side(browser: Browser, shop: str, width: int, script: bool) -> None:  # noqa: FBT001 - a parameter
    with visitor(browser, width=width, script=script) as page:
        page.goto(f"{shop}/topics/shopdb.shop.orders.v2")
        page.get_by_label("Before").select_option("2")
        page.get_by_label("After").select_option("3")
        page.get_by_role("button", name="Compare").click()

        table = page.get_by_role("table", name="Difference of schema 2 and schema 3")
        expect(table.get_by_role("row").filter(has_text="coupon")).to_contain_text("+ added")
        expect(page.get_by_text("+ 1 added")).to_be_visible()
        before, after = table.get_by_role("cell").nth(0).bounding_box(), table.get_by_role("cell").nth(1).bounding_box()
        assert before is not None
        assert after is not None
        assert (after["x"] > before["x"]) == (width > 1000)


@pytest.mark.nightly
def test_a_kafka_that_is_away_does_not_slow_the_page_and_is_said(browser: Browser, shop: str) -> None:
    with visitor(browser) as page:
        page.goto(f"{shop}/topics/shopdb.shop.orders.v2")
        expect(page.get_by_role("heading", name="Side by side")).to_be_visible()

        expect(page.get_by_text("Kafka at 127.0.0.1:1 did not answer")).to_be_visible()


def test_without_javascript_the_live_figures_are_a_link(browser: Browser, shop: str) -> None:
    with visitor(browser, script=False) as page:
        page.goto(f"{shop}/topics/shopdb.shop.orders.v2")
        page.get_by_role("link", name="Ask Kafka").click()

        expect(page.get_by_text("Kafka at 127.0.0.1:1 did not answer")).to_be_visible()


def test_people_read_what_became_of_columns_and_what_they_must_be(browser: Browser, shop: str) -> None:
    with visitor(browser) as page:
        page.goto(f"{shop}/topics/shopdb.shop.orders.v2")
        expect(page.locator(".reasons li").first).to_contain_text("changed from decimal(10,2) to decimal(12,2)")

        page.goto(f"{shop}/sources/shopdb/shop/customers")
        expect(page.locator("#column-email")).to_contain_text("not null")
        expect(page.locator("#column-birthday")).not_to_contain_text("not null")
        expect(page.locator("#column-locale")).to_contain_text("default")

        page.goto(f"{shop}/")
        expect(page.locator(".figures").first).to_contain_text("columns")
        expect(page.locator(".figures").first).to_contain_text("tables")


@pytest.mark.nightly
def test_the_keyboard_alone_opens_and_leaves_a_form(browser: Browser, shop: str) -> None:
    with visitor(browser) as page:
        page.goto(f"{shop}/sources/shopdb/shop/orders")
        page.keyboard.press("Tab")
        expect(page.get_by_text("Skip to the content")).to_be_focused()
        summary = page.locator("#column-status summary")
        summary.focus()

        page.keyboard.press("Enter")
        expect(page.locator("#column-status textarea")).to_be_focused()
        page.keyboard.press("Escape")

        expect(summary).to_be_focused()
        expect(page.locator("#column-status textarea")).to_be_hidden()


def test_the_name_for_the_history_is_asked_once_and_lists_are_narrowed(browser: Browser, shop: str) -> None:
    with visitor(browser) as page:
        page.goto(f"{shop}/sources/shopdb/shop/orders")
        page.locator("#column-total summary").click()
        page.locator("#column-total").get_by_label("Your name").fill("Grace")
        page.get_by_role("button", name="Save total").click()
        expect(page.locator("#column-id [data-author]")).to_have_value("Grace")

        page.get_by_label("Filter these columns").fill("TOT decimal")

        expect(page.locator("#column-total")).to_be_visible()
        expect(page.locator("#column-status")).to_be_hidden()

"""The web pages on every kind of database."""

from __future__ import annotations

from tests.browser.shop import fill
from tests.servers.kinds import on_every_database
from tests.unit.schematizer.served import served

PAGES = (
    "/ui/",
    "/ui/namespaces/shopdb?lacks=docs",
    "/ui/sources/shopdb/shop/orders",
    "/ui/topics/shopdb.shop.orders.v2",
    "/ui/schemas/4",
    "/ui/subjects?part=click",
    "/ui/subjects/web.clicks-value",
    "/ui/search?q=order",
    "/ui/history?namespace=shopdb",
)


@on_every_database
def test_pages_and_forms_work_on_every_database(state_url: str) -> None:
    with served(state_url) as client:
        topic = fill(client)

        pages = {path: client.get(path) for path in PAGES}
        changed = client.post(
            "/ui/sources/shopdb/shop/orders/columns",
            data={"element": "gift", "doc": "Whether it is a gift 🎁", "doc_shown": "", "contains_pii": "false"},
            headers={"Sec-Fetch-Site": "same-origin"},
        )

        assert {path: page.status_code for path, page in pages.items()} == dict.fromkeys(PAGES, 200)
        assert changed.status_code == 303
        assert "Whether it is a gift 🎁" in client.get(f"/ui/topics/{topic}").text
        assert "warehouse.duckdb" in pages["/ui/topics/shopdb.shop.orders.v2"].text
        assert "web.clicks-value" in pages["/ui/subjects?part=click"].text

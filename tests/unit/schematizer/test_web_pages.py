"""The web pages over HTTP: what they show, and that names and docs of any kind do no harm."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from sqlalchemy import update
from tests.unit.schematizer.served import served
from tests.unit.schematizer.test_schematizer_app import ORDERS, RECORD, post, register

from penstock.core.tables import Column, IntegerType, TableId
from penstock.schematizer.storage.database import open_database
from penstock.schematizer.storage.usage_models import ClientUse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

HOSTILE = "<script>alert(1)</script>'\"&{{7*7}}/%2F..\\"
NARROWER = replace(ORDERS, columns=(Column("id", IntegerType(32, unsigned=False), nullable=False),))


@pytest.fixture(scope="module")
def database_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("web") / "schematizer.db"
    return f"sqlite:///{path}"


@pytest.fixture(scope="module")
def client(database_url: str) -> Iterator[httpx.Client]:
    with served(database_url) as opened:
        yield opened


def ui(*names: str) -> str:
    return "/ui/" + "/".join(quote(name, safe="") for name in names)


def tell(client: httpx.Client, method: str, path: str, body: dict[str, object]) -> None:
    answer = client.request(method, path, json=body)
    assert answer.is_success, answer.text


class Page(HTMLParser):
    """What a browser makes of a page: its elements with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def links(self) -> list[str]:
        return [str(attributes["href"]) for tag, attributes in self.elements if tag == "a"]


def page(client: httpx.Client, path: str, status: int = 200) -> Page:
    response = client.get(path)
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    return Page(response.text)


def test_a_browser_at_the_root_is_led_to_the_pages_and_a_client_is_not(client: httpx.Client) -> None:
    browser = client.get("/", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    program = client.get("/", headers={"Accept": "application/vnd.schemaregistry.v1+json"})

    assert browser.is_redirect
    assert browser.headers["location"] == "/ui/"
    assert program.json() == {}


def test_every_page_forbids_scripts_and_frames_of_others(client: httpx.Client) -> None:
    register(client, "headers")

    for path in (ui(""), ui("topics", "headers.shop.orders"), ui("nowhere"), ui("topics", "none")):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"


def test_no_page_has_a_script_or_a_style_within_it(client: httpx.Client) -> None:
    register(client, "inline")

    for path in (ui(""), ui("sources", "inline", "shop", "orders"), ui("topics", "inline.shop.orders")):
        found = page(client, path)
        assert [attributes["src"] for tag, attributes in found.elements if tag == "script"] == ["/ui/static/script.js"]
        assert not [1 for tag, _ in found.elements if tag == "style"]
        assert not [name for _, attributes in found.elements for name in attributes if name.startswith(("on", "style"))]


def test_home_and_namespace_tell_what_is_documented(client: httpx.Client) -> None:
    register(client, "covered")
    client.put("/v1/sources/covered/shop/orders", json={"owner_email": "ada@example.com"})

    home, namespace = page(client, ui("")), page(client, ui("namespaces", "covered"))

    assert "/ui/namespaces/covered" in home.links()
    assert "/ui/sources/covered/shop/orders" in namespace.links()
    assert "1 of 1 tables" in namespace.text
    assert "0 of 2 columns" in namespace.text
    assert "/ui/sources/covered/shop/orders" not in page(client, ui("namespaces", "covered") + "?lacks=owner").links()
    assert "/ui/sources/covered/shop/orders" in page(client, ui("namespaces", "covered") + "?lacks=docs").links()


def test_a_table_tells_its_topics_and_why_each_was_opened(client: httpx.Client) -> None:
    register(client, "chain")
    register(client, "chain", NARROWER)

    found = page(client, ui("sources", "chain", "shop", "orders"))

    links = found.links()
    assert links.index("/ui/topics/chain.shop.orders") < links.index("/ui/topics/chain.shop.orders.v2")
    assert "Opened because the table was new." in found.text
    assert "`id` changed from bigint to int" in found.text
    assert "is not readable as" not in found.text


def test_a_table_tells_which_fields_hold_personal_data_and_of_which_nobody_said(client: httpx.Client) -> None:
    register(client, "said")
    path = "/v1/sources/said/shop/orders/elements"
    tell(client, "PUT", f"{path}/id", {"contains_pii": False})

    found = page(client, ui("sources", "said", "shop", "orders"))

    cells = re.findall(
        r'data-label="Personal data">\s*<[^>]+>([^<]+)<', client.get(ui("sources", "said", "shop", "orders")).text
    )
    assert cells == ["no", "not said"]
    assert "not null" in found.text


def test_a_topic_tells_fields_that_were_added_removed_and_changed(client: httpx.Client) -> None:
    register(client, "compared")
    wider = replace(
        ORDERS,
        columns=(
            replace(ORDERS.columns[0], comment="counts up"),
            Column("gift", IntegerType(8, unsigned=False), nullable=True, declaration="tinyint(1)"),
        ),
    )
    topic = register(client, "compared", wider).json()["topic"]

    found = page(client, ui("topics", topic))

    fates = {
        str(attributes["class"]).removeprefix("row ")
        for tag, attributes in found.elements
        if tag == "div" and str(attributes.get("class", "")).startswith("row ")
    }
    assert {"added", "removed", "changed"} <= fates
    text = " ".join(found.text.split())
    assert re.search(r"\+ 1 added . 1 removed ~ 1 changed", text)
    assert "counts up" in text


def test_any_two_schemas_of_a_topics_table_can_be_compared(client: httpx.Client) -> None:
    first = register(client, "pair").json()["value_schema_id"]
    topic = register(client, "pair", NARROWER).json()["topic"]

    found = page(client, f"{ui('topics', topic)}?old={first}&new={first}")

    assert "The fields are the same." in found.text


def test_lineage_tells_producers_consumers_joins_and_sinks(client: httpx.Client, database_url: str) -> None:
    for name, owner in (("lineage", "ada@example.com"), ("joined", "")):
        register(client, name)
        client.put(f"/v1/sources/{name}/shop/orders", json={"owner_email": owner}).raise_for_status()
    mail: dict[str, object] = {"owner_email": "search@example.com"}
    tell(client, "PUT", "/v1/producers/capture%20shopdb", mail)
    tell(client, "PUT", "/v1/producers/enricher", mail)
    tell(client, "PUT", "/v1/consumers/enricher", mail | {"team": "search", "expected_frequency_seconds": 60})
    tell(client, "POST", "/v1/producers/capture%20shopdb/seen", {"topic": "lineage.shop.orders"})
    tell(client, "POST", "/v1/consumers/enricher/seen", {"topic": "lineage.shop.orders"})
    tell(client, "POST", "/v1/producers/enricher/seen", {"topic": "joined.shop.orders"})
    tell(client, "PUT", "/v1/data_targets/finance", {"type": "redshift", "destination": "redshift://finance"})
    tell(client, "PUT", "/v1/consumer_groups/finance-loader", {"data_target": "finance"})
    tell(client, "POST", "/v1/consumer_groups/finance-loader/data_sources", {"topic": "lineage.shop.orders"})
    with contextlib.closing(open_database(database_url)) as database:
        database.write(lambda session: session.execute(update(ClientUse).values(last_seen_at_ms=1)))

    text = " ".join(page(client, ui("topics", "lineage.shop.orders")).text.split())

    assert "capture shopdb writes" in text
    assert "enricher of search late" in text
    assert "joined into joined.shop.orders" in text
    assert "finance redshift redshift://finance by group finance-loader" in text


def test_subjects_of_no_table_are_shown_with_their_difference(client: httpx.Client) -> None:
    post(client, "/subjects/web.clicks-value/versions", RECORD)
    fields = [*RECORD["fields"], {"name": "b", "type": "int", "default": 7}]
    post(client, "/subjects/web.clicks-value/versions", RECORD | {"fields": fields})

    listed, found = page(client, ui("subjects")), page(client, ui("subjects", "web.clicks-value"))

    assert "/ui/subjects/web.clicks-value" in listed.links()
    assert "+ 1 added" in found.text
    assert "default 7" in " ".join(found.text.split())


def test_search_leads_to_what_it_finds(client: httpx.Client) -> None:
    register(client, "sought")
    client.put("/v1/sources/sought/shop/orders/elements/note", json={"doc": "what the zebra remarked"})

    assert "/ui/sources/sought/shop/orders#column-note" in page(client, ui("search") + "?q=zebra").links()
    assert "Nothing has all of these words" in page(client, ui("search") + "?q=zebra+unicorn").text
    assert (
        "/ui/sources/sought/shop/orders#column-note"
        not in page(client, ui("search") + "?q=zebra&namespace=covered").links()
    )
    assert page(client, ui("search")).text


@pytest.mark.parametrize(
    "path",
    [
        ui("nowhere"),
        ui("namespaces", "none"),
        ui("sources", "none", "shop", "orders"),
        ui("topics", "none"),
        ui("schemas", "999999"),
        ui("schemas", "9" * 40),
        ui("subjects", "none"),
        ui("notes", "999999"),
        ui("static", "none"),
    ],
)
def test_what_is_not_there_is_a_page_that_says_so(client: httpx.Client, path: str) -> None:
    assert "What to do:" in page(client, path, 404).text


@pytest.mark.parametrize("path", [ui("schemas", "x"), ui("") + "?after=%00x", ui("namespaces", "a") + "?lacks=x"])
def test_what_cannot_be_asked_is_a_page_that_says_so(client: httpx.Client, path: str) -> None:
    assert "What to do:" in page(client, path, 422).text


def test_names_and_docs_are_text_whatever_they_hold(client: httpx.Client) -> None:
    table = replace(
        ORDERS,
        table=TableId(HOSTILE, HOSTILE),
        columns=(ORDERS.columns[0], replace(ORDERS.columns[1], name=HOSTILE, comment=HOSTILE, default=HOSTILE)),
        comment=HOSTILE,
    )
    registered = register(client, HOSTILE, table)
    assert registered.status_code == 200, registered.text
    topic, schema_id = registered.json()["topic"], registered.json()["value_schema_id"]
    source = ("sources", HOSTILE, HOSTILE, HOSTILE)
    said = {"category": HOSTILE, "doc": HOSTILE}
    changed = client.put("/v1/" + "/".join(quote(each, safe="") for each in source), json=said)
    assert changed.status_code == 200, changed.text
    client.post("/v1/notes", json={"schema_id": schema_id, "text": HOSTILE}).raise_for_status()
    paths = [
        ui(""),
        ui("namespaces", HOSTILE),
        ui(*source),
        ui("topics", topic),
        ui("schemas", str(schema_id)),
        ui("history"),
        f"{ui('search')}?q={quote(HOSTILE, safe='')}",
        f"{ui('namespaces', HOSTILE)}?category={quote(HOSTILE, safe='')}",
    ]

    for path in paths:
        found = page(client, path)
        assert HOSTILE in found.text, path
        assert [attributes for tag, attributes in found.elements if tag == "script"] == [
            {"src": "/ui/static/script.js", "defer": None}
        ]
        for link in {each for each in found.links() if each.startswith("/ui/")}:
            assert client.get(link, follow_redirects=True).status_code == 200, link


def test_the_texts_of_a_schema_are_shown_as_they_are(client: httpx.Client) -> None:
    record = RECORD | {"doc": HOSTILE}
    schema_id = post(client, "/subjects/hostile/versions", record).json()["id"]

    found = page(client, ui("schemas", str(schema_id)))

    assert json.dumps(record, indent=2, ensure_ascii=False) in found.text


def test_without_kafka_a_topic_has_no_live_figures(client: httpx.Client) -> None:
    register(client, "figures")

    assert "Live figures" not in page(client, ui("topics", "figures.shop.orders")).text
    assert "--kafka HOST:PORT" in page(client, ui("topics", "figures.shop.orders", "figures")).text

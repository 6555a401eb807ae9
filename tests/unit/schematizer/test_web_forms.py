"""The forms of the pages, posted as a browser posts them: what is kept, what is refused, and where that is said."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from tests.unit.schematizer.served import served
from tests.unit.schematizer.test_schematizer_app import register
from tests.unit.schematizer.test_web_pages import HOSTILE, Page, ui

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import httpx

_numbers = itertools.count()
OWN = {"Sec-Fetch-Site": "same-origin"}
SOURCE = {"owner_email_shown": "", "category_shown": "", "doc_shown": ""}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    database = tmp_path_factory.mktemp("forms") / "schematizer.db"
    with served(f"sqlite:///{database}") as opened:
        yield opened


@pytest.fixture
def table(client: httpx.Client) -> str:
    """The namespace of a table `shop.orders` of its own."""
    name = f"forms{next(_numbers)}"
    register(client, name).raise_for_status()
    return name


def send(
    client: httpx.Client, path: str, fields: Mapping[str, str], headers: Mapping[str, str] = OWN
) -> httpx.Response:
    return client.post(path, data=dict(fields), headers=dict(headers))


def source(client: httpx.Client, namespace: str) -> dict[str, str]:
    found: dict[str, str] = client.get(f"/v1/sources/{namespace}/shop/orders").json()
    return found


def test_a_form_documents_a_table_and_leads_back_to_it(client: httpx.Client, table: str) -> None:
    path = ui("sources", table, "shop", "orders")
    fields = SOURCE | {
        "owner_email": "ada@example.com",
        "category": "sales",
        "doc": "Orders\r\nof all",
        "author": "Ada",
    }

    answer = send(client, path, fields)

    assert (answer.status_code, answer.headers["location"]) == (303, path)
    said = source(client, table)
    assert (said["owner_email"], said["category"], said["doc"]) == ("ada@example.com", "sales", "Orders\nof all")
    history = client.get("/v1/history", params={"namespace": table}).json()["items"]
    assert {each["author"] for each in history} == {"Ada"}


def test_a_form_documents_a_column(client: httpx.Client, table: str) -> None:
    path = ui("sources", table, "shop", "orders")
    fields = {"element": "note", "doc": "remarks", "doc_shown": "", "contains_pii": "true", "contains_pii_shown": ""}

    answer = send(client, f"{path}/columns", fields)

    assert (answer.status_code, answer.headers["location"]) == (303, f"{path}#column-note")
    elements = client.get(f"/v1/sources/{table}/shop/orders/elements").json()["items"]
    assert [(each["doc"], each["contains_pii"]) for each in elements if each["name"] == "note"] == [("remarks", True)]


def test_a_form_adds_a_note_and_changes_it(client: httpx.Client, table: str) -> None:
    schema_id = register(client, table).json()["value_schema_id"]
    path = ui("schemas", str(schema_id), "notes")

    added = send(client, path, {"element": "note", "text": HOSTILE, "author": "Ada"})
    note = client.get("/v1/notes", params={"schema_id": schema_id}).json()["items"][-1]
    changed = send(client, path, {"note_id": str(note["id"]), "text": "calm", "text_shown": HOSTILE, "author": "Bob"})

    assert added.headers["location"] == changed.headers["location"] == f"/ui/schemas/{schema_id}#note-{note['id']}"
    assert (note["text"], note["element"], note["author"]) == (HOSTILE, "note", "Ada")
    assert client.get(f"/v1/notes/{note['id']}").json()["text"] == "calm"


@pytest.mark.parametrize(
    ("fields", "field", "problem"),
    [
        ({"owner_email": "ada", "doc": "kept"}, "owner_email", "is not an e-mail address"),
        ({"category": "x" * 256}, "category", "may have 255"),
        ({"author": "a\x07b", "doc": "kept"}, "author", "printable characters"),
        ({"doc": "x" * 100_001}, "doc", "may have 100000"),
    ],
)
def test_what_is_wrong_is_said_at_its_field_and_what_was_written_stays(
    client: httpx.Client, table: str, fields: dict[str, str], field: str, problem: str
) -> None:
    answer = send(client, ui("sources", table, "shop", "orders"), SOURCE | fields)

    assert answer.status_code == 422
    found = Page(answer.text)
    wrong = [attributes for _, attributes in found.elements if attributes.get("aria-invalid") == "true"]
    assert [attributes["name"] for attributes in wrong] == [field]
    assert f'id="{wrong[0]["aria-describedby"]}"' in answer.text
    assert problem in found.text
    assert source(client, table)["doc"] == ""
    if "kept" in fields.values():
        assert "kept</textarea>" in answer.text


def test_a_namespaces_rules_hold_for_forms(client: httpx.Client, table: str) -> None:
    path = ui("sources", table, "shop", "orders")
    send(client, path, SOURCE | {"owner_email": "ada@example.com"})
    client.put(f"/v1/namespaces/{table}", json={"requires_owner": True})

    answer = send(client, path, {"owner_email": "", "owner_email_shown": "ada@example.com"})

    assert answer.status_code == 422
    assert "demands an owner" in answer.text
    assert source(client, table)["owner_email"] == "ada@example.com"


def test_what_somebody_else_changed_meanwhile_is_not_lost(client: httpx.Client, table: str) -> None:
    path = ui("sources", table, "shop", "orders")
    send(client, path, SOURCE | {"doc": "theirs", "category": "sales"})

    clash = send(client, path, SOURCE | {"doc": "mine"})
    other = send(client, path, SOURCE | {"owner_email": "ada@example.com", "doc": "", "category": ""})
    again = send(client, path, {"doc": "mine", "doc_shown": "theirs"})

    assert clash.status_code == 409
    assert "theirs" in clash.text
    assert ">\nmine</textarea>" in clash.text
    assert other.status_code == 303
    assert again.status_code == 303
    said = source(client, table)
    assert (said["doc"], said["category"], said["owner_email"]) == ("mine", "sales", "ada@example.com")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://127.0.0.1"},
        {"Origin": "null"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
    ],
)
def test_forms_of_other_sites_are_refused(client: httpx.Client, table: str, headers: dict[str, str]) -> None:
    answers = [
        send(client, path, SOURCE | {"doc": "theirs", "element": "note", "text": "x"}, headers)
        for path in (
            ui("sources", table, "shop", "orders"),
            ui("sources", table, "shop", "orders") + "/columns",
            ui("schemas", "1", "notes"),
        )
    ]

    assert {answer.status_code for answer in answers} == {403}
    assert "What to do:" in answers[0].text
    assert source(client, table)["doc"] == ""


def test_a_browser_that_tells_only_the_origin_may_post(client: httpx.Client, table: str) -> None:
    origin = {"Origin": f"http://{client.base_url.netloc.decode()}"}

    answer = send(client, ui("sources", table, "shop", "orders"), SOURCE | {"doc": "Orders"}, origin)

    assert answer.status_code == 303
    assert source(client, table)["doc"] == "Orders"


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b'{"doc": "x"}', "application/json"),
        (b"doc=x", "text/plain"),
        (b"doc=%ff&doc_shown=", "application/x-www-form-urlencoded"),
        (b"doc=\xff", "application/x-www-form-urlencoded"),
        (b"a=1&" * 60, "application/x-www-form-urlencoded"),
        (b"doc=" + b"x" * (1 << 20), "application/x-www-form-urlencoded"),
    ],
)
def test_what_is_no_form_is_refused(client: httpx.Client, table: str, content: bytes, kind: str) -> None:
    path = ui("sources", table, "shop", "orders")

    answer = client.post(path, content=content, headers={**OWN, "Content-Type": kind})

    assert answer.status_code == 422
    assert "What to do:" in answer.text
    assert source(client, table)["doc"] == ""


@pytest.mark.parametrize(
    ("path", "fields", "status"),
    [
        (ui("sources", "none", "shop", "orders"), {"doc": "x"}, 404),
        (ui("schemas", "999999", "notes"), {"text": "x"}, 404),
        (ui("schemas", "1", "notes"), {"text": "x", "note_id": "9" * 30}, 404),
        (ui("schemas", "1", "notes"), {"text": "x", "element": "none"}, 404),
        (ui("schemas", "1", "notes"), {"text": " \r\n"}, 422),
    ],
)
def test_what_cannot_be_changed_is_said(
    client: httpx.Client, table: str, path: str, fields: dict[str, str], status: int
) -> None:
    del table

    answer = send(client, path, fields)

    assert answer.status_code == status
    assert answer.headers["content-type"].startswith("text/html")
    if status != 422:
        assert any(words in answer.text for words in ("there is no", "has no", "not found"))

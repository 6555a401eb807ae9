"""Owners, docs, elements, notes, history, search and pages, over HTTP in this process."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from tests.unit.schematizer.served import served
from tests.unit.schematizer.test_schematizer_app import ORDERS, RECORD, post, register

from penstock.core.avro.schemas import key_schema, value_schema
from penstock.core.tables import Column, IntegerType, TableId
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.registry.documentation import check_email

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

COMMENTED = replace(
    ORDERS,
    columns=(ORDERS.columns[0], replace(ORDERS.columns[1], comment="what the buyer remarked")),
    comment="one row for each order",
)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    database = tmp_path_factory.mktemp("documentation") / "schematizer.db"
    with served(f"sqlite:///{database}") as opened:
        yield opened


def source_path(*names: str) -> str:
    return "/v1/sources/" + "/".join(quote(name, safe="") for name in names)


def put(client: httpx.Client, path: str, author: str = "", **body: object) -> httpx.Response:
    return client.put(path, json=body, headers={b"X-Penstock-Author": author.encode()} if author else None)


def items(client: httpx.Client, path: str, **filters: object) -> list[dict[str, object]]:
    response = client.get(path, params={name: str(value) for name, value in filters.items()})
    assert response.status_code == 200, response.text
    found: list[dict[str, object]] = response.json()["items"]
    return found


def test_an_owner_a_category_and_docs_are_kept_and_each_change_is_in_the_history(client: httpx.Client) -> None:
    register(client, "kept")
    path = source_path("kept", "shop", "orders")

    put(client, path, "Ada", owner_email="ada@example.com", category="sales")
    changed = put(client, path, "Bob Größe", doc=" Orders \n")
    put(client, path, "Cyd", doc="Orders")

    assert changed.status_code == 200
    answer = client.get(path).json()
    assert answer == changed.json()
    assert (answer["owner_email"], answer["category"], answer["doc"]) == ("ada@example.com", "sales", "Orders")
    told = [
        (each["author"], each["kind"], each["table_name"], each["field"], each["before"], each["after"])
        for each in items(client, "/v1/history", namespace="kept")
    ]
    assert told == [
        ("Bob Größe", "source", "orders", "doc", "", "Orders"),
        ("Ada", "source", "orders", "category", "", "sales"),
        ("Ada", "source", "orders", "owner_email", "", "ada@example.com"),
    ]
    assert client.get("/v1/topics/kept.shop.orders").json()["owner_email"] == "ada@example.com"
    assert [each["after"] for each in items(client, "/v1/history", namespace="kept", author="Bob Größe")] == ["Orders"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"category": "no", "owner_email": "ada"}, "invalid_email"),
        ({"category": "no", "owner_email": "ada@"}, "invalid_email"),
        ({"category": "no", "owner": "ada@example.com"}, "invalid_request"),
        ({"category": "x" * 256}, "invalid_request"),
        ({"doc": "a\0b", "category": "no"}, "invalid_request"),
        ({"doc": 7, "category": "no"}, "invalid_request"),
    ],
)
def test_what_cannot_be_kept_is_refused_whole(client: httpx.Client, body: dict[str, object], code: str) -> None:
    register(client, "refused")
    path = source_path("refused", "shop", "orders")

    response = client.put(path, json=body)

    assert (response.status_code, response.json()["code"]) == (422, code)
    assert response.json()["hint"]
    assert client.get(path).json()["category"] == ""
    assert items(client, "/v1/history", namespace="refused") == []


def test_an_author_who_is_no_name_is_refused(client: httpx.Client) -> None:
    register(client, "authors")

    for author in ("x" * 256, "a\tb"):
        response = put(client, source_path("authors", "shop", "orders"), author, category="no")
        assert (response.status_code, response.json()["code"]) == (422, "invalid_request")
    assert items(client, "/v1/history", namespace="authors") == []


@pytest.mark.parametrize(
    "address", ["a@b.example", "orders-team+x@mail.example.co.uk", "größe@münchen.example", "", f"{'x' * 64}@b.example"]
)
def test_addresses_are_taken(address: str) -> None:
    assert check_email(f" {address} ") == address


@pytest.mark.parametrize(
    "address",
    [
        "a",
        "@b.example",
        "a@b",
        "a@@b.example",
        "a b@c.example",
        "a@b..example",
        ".a@b.example",
        "a@-b.example",
        "a@b.example, c@d.example",
        f"{'x' * 65}@b.example",
        f"a@{'x' * 64}.example",
        f"a@{'x.' * 130}example",
        "a\n@b.example",
        "<a@b.example>",
    ],
)
def test_other_texts_are_no_addresses(address: str) -> None:
    with pytest.raises(RefusedError) as caught:
        check_email(address)

    assert caught.value.code is Code.INVALID_EMAIL


def test_a_namespace_that_demands_documentation_refuses_new_tables_without(client: httpx.Client) -> None:
    rules = put(client, "/v1/namespaces/strict", "Ada", requires_owner=True, requires_docs=True).json()
    body = {"namespace": "strict", "key_schema": key_schema(ORDERS), "value_schema": value_schema(ORDERS)}
    assert (rules["requires_owner"], rules["requires_docs"]) == (True, True)

    no_owner = client.post("/v1/tables", json=body)
    no_docs = client.post("/v1/tables", json=body | {"owner_email": "ada@example.com"})
    nobody = client.post("/v1/tables", json=body | {"owner_email": "ada", "doc": "Orders"})
    before = (items(client, "/v1/sources", namespace="strict"), items(client, "/v1/topics", namespace="strict"))
    whole = client.post("/v1/tables", json=body | {"owner_email": "ada@example.com", "doc": "Orders"})
    again = register(client, "strict")

    assert (no_owner.status_code, no_owner.json()["code"]) == (422, "owner_required")
    assert '"owner_email"' in no_owner.json()["hint"]
    assert (no_docs.status_code, no_docs.json()["code"]) == (422, "docs_required")
    assert '"doc"' in no_docs.json()["hint"]
    assert nobody.json()["code"] == "invalid_email"
    assert before == ([], [])
    assert (whole.status_code, again.status_code) == (200, 200)
    assert whole.json() == again.json()
    taken_away = put(client, source_path("strict", "shop", "orders"), owner_email="")
    assert (taken_away.status_code, taken_away.json()["code"]) == (422, "owner_required")
    assert client.get(source_path("strict", "shop", "orders")).json()["owner_email"] == "ada@example.com"


def test_a_comment_is_a_doc_too(client: httpx.Client) -> None:
    put(client, "/v1/namespaces/comments", requires_docs=True)

    response = client.post(
        "/v1/schemas/mysql",
        json={
            "namespace": "comments",
            "create_table": "CREATE TABLE s.t (id INT PRIMARY KEY COMMENT 'it''s ours', n INT) COMMENT 'every t'",
            "owner_email": "t@example.com",
            "category": "ours",
        },
    )

    assert response.status_code == 200
    source = client.get(source_path("comments", "s", "t")).json()
    assert (source["doc"], source["owner_email"], source["category"]) == ("every t", "t@example.com", "ours")
    elements = items(client, source_path("comments", "s", "t") + "/elements")
    assert [(each["name"], each["doc"], each["is_key"]) for each in elements] == [
        ("id", "it's ours", True),
        ("n", "", False),
    ]


def test_a_table_that_is_registered_is_answered_though_the_rules_have_changed(client: httpx.Client) -> None:
    first = register(client, "later").json()
    put(client, "/v1/namespaces/later", requires_owner=True)

    assert register(client, "later").json() == first
    assert register(client, "later", COMMENTED).json()["code"] == "owner_required"
    assert [each["version"] for each in items(client, "/v1/topics/later.shop.orders/schemas", kind="value")] == [1]
    assert client.get(source_path("later", "shop", "orders")).json()["doc"] == ""


def test_coverage_counts_what_has_docs_and_owners(client: httpx.Client) -> None:
    register(client, "covered", COMMENTED)
    register(client, "covered", replace(ORDERS, table=TableId("shop", "plain")))
    put(client, source_path("covered", "shop", "plain"), owner_email="ada@example.com")
    put(client, source_path("covered", "shop", "plain") + "/elements/id", doc="which")

    assert client.get("/v1/namespaces/covered/coverage").json() == {
        "namespace": "covered",
        "sources": 2,
        "sources_with_owner": 1,
        "sources_with_doc": 1,
        "elements": 4,
        "elements_with_doc": 2,
        "owned_percent": 50.0,
        "documented_percent": 50.0,
    }
    assert client.get("/v1/namespaces/nowhere/coverage").json()["code"] == "unknown_namespace"
    assert [each["table"] for each in items(client, "/v1/sources", namespace="covered", documented=False)] == [
        "shop.plain"
    ]
    assert [each["table"] for each in items(client, "/v1/sources", namespace="covered", owner_email="")] == [
        "shop.orders"
    ]


def test_what_people_say_stays_when_the_table_changes(client: httpx.Client) -> None:
    register(client, "stays", COMMENTED)
    path = source_path("stays", "shop", "orders")
    put(client, f"{path}/elements/note", "Ada", doc="by Ada", contains_pii=True)
    more = Column("more", IntegerType(32, unsigned=False), nullable=True, declaration="int", comment="new")
    other = replace(COMMENTED.columns[1], comment="another")

    register(client, "stays", replace(COMMENTED, columns=(COMMENTED.columns[0], other, more), comment="anew"))
    register(client, "stays", replace(COMMENTED, columns=(COMMENTED.columns[0], more)))

    told = {each["name"]: each for each in items(client, f"{path}/elements")}
    assert list(told) == ["id", "more", "note"]
    assert [told[name]["is_present"] for name in told] == [True, True, False]
    assert (told["note"]["doc"], told["note"]["comment"]) == ("by Ada", "another")
    assert told["note"]["contains_pii"] is True
    assert [(each["field"], each["before"], each["after"]) for each in items(client, "/v1/history", namespace="stays")][
        ::-1
    ] == [
        ("contains_pii", "", "true"),
        ("doc", "", "by Ada"),
        ("comment", "one row for each order", "anew"),
        ("comment", "what the buyer remarked", "another"),
        ("comment", "anew", "one row for each order"),
    ]


def test_a_tables_schema_has_its_columns_as_elements(client: httpx.Client) -> None:
    value_id = register(client, "elements", COMMENTED).json()["value_schema_id"]
    put(client, source_path("elements", "shop", "orders") + "/elements/id", doc="which order")
    key_id = client.get("/v1/topics/elements.shop.orders").json()["key_schema_id"]

    value = items(client, f"/v1/schemas/{value_id}/elements")
    key = items(client, f"/v1/schemas/{key_id}/elements")

    assert [(each["path"], each["type"], each["is_key"]) for each in value] == [
        ("id", "bigint", True),
        ("note", "varchar(64)", False),
    ]
    assert [(each["path"], each["type"], each["is_key"], each["contains_pii"]) for each in key] == [
        ("id", "long", True, False)
    ]
    assert client.get("/v1/schemas/999999/elements").json()["code"] == "unknown_schema"


def test_any_schema_has_its_fields_as_elements(client: httpx.Client) -> None:
    inner = {"type": "record", "name": "In", "fields": [{"name": "x", "type": "bytes", "doc": " deep\x00\ud800 "}]}
    other = {"type": "record", "name": "Other", "fields": [{"name": "x", "type": "In"}]}
    schema = {
        "type": "record",
        "name": "Any",
        "fields": [
            {"name": "list", "type": {"type": "array", "items": inner}},
            {"name": "either", "type": ["null", "In", other, {**inner, "name": "Third"}]},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "by", "type": {"type": "map", "values": "int"}},
        ],
    }
    schema_id = post(client, "/subjects/any/versions", schema).json()["id"]

    found = items(client, f"/v1/schemas/{schema_id}/elements")

    assert [(each["path"], each["type"], each["doc"]) for each in found] == [
        ("list", "array<record In>", ""),
        ("list.x", "bytes", "deep\ufffd\ufffd"),
        ("either", "null | In | record Other | record Third", ""),
        ("either.Other.x", "In", ""),
        ("either.Third.x", "bytes", "deep\ufffd\ufffd"),
        ("at", "long/timestamp-micros", ""),
        ("by", "map<int>", ""),
    ]
    assert {each["contains_pii"] for each in found} == {None}


def test_notes_are_written_on_schemas_and_elements_and_changed(client: httpx.Client) -> None:
    schema_id = post(client, "/subjects/noted/versions", RECORD).json()["id"]
    headers = {"X-Penstock-Author": "Ada"}

    first = client.post("/v1/notes", json={"schema_id": schema_id, "text": " look out "}, headers=headers).json()
    second = client.post("/v1/notes", json={"schema_id": schema_id, "element": "a", "text": "in cents"}).json()
    changed = put(client, f"/v1/notes/{first['id']}", "Bob", text="fine now").json()

    assert (first["text"], first["author"], first["element"]) == ("look out", "Ada", "")
    assert (second["author"], second["element"]) == ("", "a")
    assert changed == first | {"text": "fine now", "updated_at_ms": changed["updated_at_ms"]}
    assert items(client, "/v1/notes", schema_id=schema_id) == [changed, second]
    assert items(client, "/v1/notes", schema_id=schema_id, element="a") == [second]
    assert client.get(f"/v1/notes/{second['id']}").json() == second
    history = items(client, "/v1/history", note_id=first["id"])
    assert [(each["author"], each["before"], each["after"]) for each in history] == [
        ("Bob", "look out", "fine now"),
        ("Ada", "", "look out"),
    ]
    assert [each["note_id"] for each in items(client, "/v1/search", q="FINE", kind="note")] == [first["id"]]
    assert items(client, "/v1/search", q="look out", kind="note") == []


def test_notes_go_with_the_schema_that_they_are_on(client: httpx.Client) -> None:
    unique = RECORD | {"name": "Noted"}
    schema_id = post(client, "/subjects/remarked/versions", unique).json()["id"]
    note = client.post("/v1/notes", json={"schema_id": schema_id, "text": "peculiar"}).json()
    client.delete("/subjects/remarked").raise_for_status()
    assert client.get(f"/v1/notes/{note['id']}").status_code == 200

    gone = client.delete("/subjects/remarked", params={"permanent": "true"})

    assert (gone.status_code, gone.json()) == (200, [1])
    assert client.get(f"/v1/notes/{note['id']}").status_code == 404
    assert client.get(f"/schemas/ids/{schema_id}").status_code == 404
    assert items(client, "/v1/search", q="peculiar") == []
    assert [each["after"] for each in items(client, "/v1/history", note_id=note["id"])] == ["peculiar"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "/v1/notes", {"schema_id": 999_999, "text": "x"}, 404, "unknown_schema"),
        ("POST", "/v1/notes", {"schema_id": 1, "element": "nope", "text": "x"}, 404, "unknown_element"),
        ("POST", "/v1/notes", {"schema_id": 1, "text": " "}, 422, "invalid_request"),
        ("POST", "/v1/notes", {"text": "x"}, 422, "invalid_request"),
        ("PUT", "/v1/notes/999999", {"text": "x"}, 404, "unknown_note"),
        ("GET", "/v1/notes/99999999999999999999999", None, 404, "unknown_note"),
        ("GET", "/v1/schemas/-99999999999999999999999", None, 404, "unknown_schema"),
        ("GET", "/v1/notes?schema_id=99999999999999999999999", None, 422, "invalid_request"),
        ("GET", "/v1/history?kind=nope", None, 422, "invalid_request"),
        ("GET", "/v1/history?since_ms=99999999999999999999999", None, 422, "invalid_request"),
        ("GET", "/v1/search?q=%20", None, 422, "invalid_request"),
        ("GET", "/v1/search", None, 422, "invalid_request"),
        ("GET", "/v1/sources?owner=x", None, 422, "invalid_request"),
        ("GET", "/v1/topics?namespace=%00", None, 422, "invalid_request"),
        ("GET", "/v1/topics/a%00", None, 422, "invalid_request"),
        ("GET", "/v1/topics?limit=0", None, 422, "invalid_request"),
        ("GET", "/v1/topics?limit=1001", None, 422, "invalid_request"),
        ("GET", "/v1/sources/errors/shop/nope", None, 404, "unknown_source"),
        ("PUT", "/v1/sources/errors/shop/nope", {"doc": "x"}, 404, "unknown_source"),
        ("PUT", "/v1/sources/errors/shop/orders/elements/nope", {"doc": "x"}, 404, "unknown_element"),
        ("PUT", "/v1/namespaces/a%0Ab", {"requires_docs": True}, 422, "invalid_request"),
        ("PUT", "/v1/namespaces/" + "x" * 101, {"requires_docs": True}, 422, "invalid_request"),
        ("GET", "/v1/namespaces/nope", None, 404, "unknown_namespace"),
        ("DELETE", "/v1/namespaces/nope", None, 405, "method_not_allowed"),
    ],
)
def test_what_makes_no_sense_is_refused(
    client: httpx.Client, method: str, path: str, body: object, status: int, code: str
) -> None:
    register(client, "errors")

    response = client.request(method, path, json=body)

    assert (response.status_code, response.json()["code"]) == (status, code)
    assert set(response.json()) == {"error_code", "code", "message", "hint"}

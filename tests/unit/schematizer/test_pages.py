"""Lists in pages, names of any characters, and examples of every body, over HTTP in this process."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from tests.unit.schematizer.served import served
from tests.unit.schematizer.test_documentation import COMMENTED, items, put, source_path
from tests.unit.schematizer.test_schematizer_app import ORDERS, register

from penstock.core.tables import Column, IntegerType, TableId, TableSchema

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

STRANGE = "a/b.c%2F d%größe?#é"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    database = tmp_path_factory.mktemp("pages") / "schematizer.db"
    with served(f"sqlite:///{database}") as opened:
        yield opened


@pytest.mark.parametrize("after", ["x", "!", "W10", "WzFd", "WyJcdTAwMDAiXQ", "WyJcdWQ4MDAiXQ", "W1tbW1tb", "é"])
def test_a_cursor_that_was_never_told_is_refused(client: httpx.Client, after: str) -> None:
    response = client.get("/v1/namespaces", params={"after": after})

    assert (response.status_code, response.json()["code"]) == (422, "invalid_cursor")


def test_names_may_have_any_characters(client: httpx.Client) -> None:
    column = Column(STRANGE, IntegerType(32, unsigned=False), nullable=False, declaration="int")
    table = TableSchema(TableId(STRANGE, f"t{STRANGE}"), (column,), (STRANGE,))
    assert register(client, STRANGE, table).status_code == 200
    path = source_path(STRANGE, STRANGE, f"t{STRANGE}")
    element = f"{path}/elements/{quote(STRANGE, safe='')}"

    assert put(client, path, doc="strange").json()["table_name"] == f"t{STRANGE}"
    assert put(client, element, doc="odd").json()["name"] == STRANGE
    assert put(client, f"/v1/namespaces/{quote(STRANGE, safe='')}", requires_docs=True).json()["name"] == STRANGE
    assert [each["doc"] for each in items(client, "/v1/sources", namespace=STRANGE)] == ["strange"]
    assert [each["doc"] for each in items(client, "/v1/search", q="GROSSE?#E", kind="element")] == ["odd"]
    assert [each["after"] for each in items(client, "/v1/history", element=STRANGE)] == ["odd"]


def test_a_name_that_no_database_could_keep_is_refused(client: httpx.Client) -> None:
    for name in ("x" * 256, "a\0b", "a\ud800b"):
        column = replace(ORDERS.columns[0], name=name)
        response = register(client, "longnames", replace(ORDERS, columns=(column,), key=(name,)))
        assert (response.status_code, response.json()["code"]) == (422, "invalid_table")


def all_pages(client: httpx.Client, path: str, limit: int) -> list[object]:
    told: list[object] = []
    after = ""
    while True:
        page = client.get(path, params={"limit": limit, "after": after}).json()
        assert len(page["items"]) <= limit
        assert page["next"] != after or not after
        told += page["items"]
        after = page["next"]
        if not after:
            return told


@pytest.mark.parametrize("limit", [1, 2, 5, 1000])
def test_every_list_is_told_in_pages_that_make_the_whole(client: httpx.Client, limit: int) -> None:
    for name in ("b", "a/ü", "c"):
        table = replace(COMMENTED, table=TableId("paged", name))
        schema_id = register(client, "pages", table).json()["value_schema_id"]
    for number in range(3):
        client.post("/v1/notes", json={"schema_id": schema_id, "text": f"paged {number}"})
    lists = [
        "/v1/namespaces",
        "/v1/sources",
        "/v1/topics",
        "/v1/topics/pages.paged.b/schemas",
        source_path("pages", "paged", "a/ü") + "/elements",
        f"/v1/schemas/{schema_id}/elements",
        "/v1/notes",
        "/v1/history",
    ]
    for path in lists:
        whole = client.get(path, params={"limit": 1000}).json()
        assert whole["next"] == ""
        assert len(whole["items"]) > 1
        assert all_pages(client, path, limit) == whole["items"]


def test_a_search_is_told_in_pages_too(client: httpx.Client) -> None:
    register(client, "searchpages", COMMENTED)
    query = {"q": "note", "limit": "1"}
    whole = items(client, "/v1/search", q="note")

    told, after = [], ""
    for _ in whole:
        page = client.get("/v1/search", params=query | {"after": after}).json()
        told += page["items"]
        after = page["next"]

    assert told == whole
    assert after == ""


def test_what_comes_between_two_pages_moves_nothing(client: httpx.Client) -> None:
    for name in ("b", "d"):
        register(client, "moving", replace(ORDERS, table=TableId("s", name)))
    page = client.get("/v1/sources", params={"namespace": "moving", "limit": 1}).json()

    register(client, "moving", replace(ORDERS, table=TableId("s", "a")))

    rest = items(client, "/v1/sources", namespace="moving", after=page["next"])
    assert [each["table"] for each in rest] == ["s.d"]


def test_every_field_of_every_body_has_an_example(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()

    schemas = document["components"]["schemas"]
    named = {name for path, its in document["paths"].items() if path.startswith("/v1") for name in _bodies(its)}
    for _ in range(3):
        named |= {name for each in list(named) for name in _references(schemas[each])}
    without = {
        f"{name}.{field}"
        for name in named
        for field, declared in schemas[name].get("properties", {}).items()
        # What is referred to is among the named ones itself.
        if not {"examples", "$ref"} & declared.keys() and declared.get("type") != "array"
    }
    assert {"TableRequest", "SourceRequest", "NoteRequest", "SourceList", "SourceAnswer", "ErrorAnswer"} <= named
    assert without == set()


def _bodies(operations: object) -> set[str]:
    return _references(operations)


def _references(declared: object) -> set[str]:
    text = json.dumps(declared)
    return {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}

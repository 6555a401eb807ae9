"""Every route there is, asked by somebody who has rights elsewhere only: nothing is shown, and nothing is changed."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING

import pytest
from tests.unit.schematizer.served import served
from tests.unit.schematizer.test_schematizer_app import ORDERS, register

from penstock.schematizer.http.protection import Protection
from penstock.schematizer.security.access import Role
from penstock.schematizer.security.users import GrantEntry
from penstock.schematizer.security.users_edit import put_token, put_user
from penstock.schematizer.web import browsing, editing, schema_pages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx
    from fastapi import APIRouter

SHARED = '{"type": "record", "name": "Shared", "fields": []}'
PATH = {
    "namespace": "covertdb",
    "table_schema": "shop",
    "table_name": "orders",
    "element": "note",
    "subject": "covert-value",
    "version": "1",
    "name": "covertdb.shop.orders",
    "resource_id": "covert-id",
    "note_id": "1",
    "refresh_id": "1",
    "data_target": "covert-target",
    "consumer_group": "covert-group",
    "client": "covert-client",
    "data_source_id": "1",
    "guid": "?",
    "schema_id": "?",
    "attribute_schema_id": "2",
}
# To whom a route says the same, whoever asks.
FOR_EVERYBODY = frozenset(
    {
        "/docs",
        "/openapi.json",
        "/schemas/types",
        "/config",
        "/mode",
        "/ui/static/style.css",
        "/",
        "/v1/metadata",
        "/v1/metadata/id",
        "/v1/metadata/version",
    }
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rights")


@pytest.fixture(scope="module")
def tokens(home: Path) -> dict[str, str]:
    file = home / "users.yaml"
    put_user(file, "ada", "", (GrantEntry(role=Role.ADMIN),))
    put_user(file, "guest", "", (GrantEntry(role=Role.ADMIN, namespaces=("mine",), subjects=("mine-*",)),))
    return {name: put_token(file, name, "test") for name in ("ada", "guest")}


@pytest.fixture(scope="module")
def guest(home: Path, tokens: dict[str, str]) -> Iterator[httpx.Client]:
    """A guest's client of a registry where somebody else's things are all called "covert", but for one schema."""
    with served(f"sqlite:///{home}/rights.db", Protection(home / "users.yaml")) as client:
        client.headers["Authorization"] = f"Bearer {tokens['ada']}"
        _fill(client)
        client.headers["Authorization"] = f"Bearer {tokens['guest']}"
        client.post("/subjects/mine-value/versions", json={"schema": SHARED}).raise_for_status()
        yield client


def _fill(client: httpx.Client) -> None:
    register(client, "covertdb", ORDERS)
    told: list[tuple[str, str, object]] = [
        ("POST", "/subjects/covert-value/versions", {"schema": SHARED}),
        ("POST", "/subjects/covert-own/versions", {"schema": '"int"'}),
        ("POST", "/v1/notes", {"schema_id": 1, "text": "covert words"}),
        ("PUT", "/v1/data_targets/covert-target", {"type": "covert", "destination": "covert"}),
        ("PUT", "/v1/consumer_groups/covert-group", {"data_target": "covert-target"}),
        ("POST", "/v1/consumer_groups/covert-group/data_sources", {"namespace": "covertdb"}),
        ("PUT", "/v1/producers/covert-client", {"owner_email": "covert@example.com"}),
        ("PUT", "/v1/consumers/covert-client", {"owner_email": "covert@example.com"}),
        ("POST", "/v1/sources/covertdb/shop/orders/refreshes", {}),
        ("POST", "/associations", association("covert-value")),
    ]
    for method, path, body in told:
        answer = client.request(method, path, json=body)
        assert answer.is_success, (path, answer.text)


def association(subject: str, topic: str = "covert", **more: object) -> dict[str, object]:
    each = {"subject": subject, "associationType": "value", "lifecycle": "WEAK", **more}
    return {"resourceName": topic, "resourceNamespace": "lkc", "resourceId": f"{topic}-id", "associations": [each]}


def shared_id(client: httpx.Client) -> str:
    return str(client.get("/subjects/mine-value/versions/1").json()["id"])


def dump(home: Path) -> list[str]:
    """All that the registry knows."""
    with sqlite3.connect(home / "rights.db") as connection:
        return list(connection.iterdump())


def routes(client: httpx.Client) -> list[tuple[str, str]]:
    """List every route with every method that changes something or shows something."""
    paths = set(client.get("/openapi.json").json()["paths"]) | {"/docs", "/openapi.json", "/", "/no/such/route"}
    for part in (browsing, schema_pages, editing):
        router: APIRouter = part.router
        paths |= {str(getattr(route, "path", "")) for route in router.routes}
    filled, number = [], shared_id(client)
    for path in sorted(paths):
        here = path
        for name, value in PATH.items():
            known = "style.css" if "static" in path else value
            here = here.replace(f"{{{name}}}", known.replace("?", number if name == "schema_id" else "0" * 32))
        assert "{" not in here, here
        filled += [(method, here) for method in ("GET", "HEAD", "POST", "PUT", "DELETE")]
    return filled


def test_no_route_shows_or_changes_what_a_user_has_no_right_to(guest: httpx.Client, home: Path) -> None:
    before, number = dump(home), shared_id(guest)
    all_routes = routes(guest)
    assert len(all_routes) > 300

    for method, path in all_routes:
        answer = guest.request(method, path, json=association("covert-value"))

        if answer.status_code == 403:
            continue
        assert "covert" not in answer.text, (method, path, answer.text)
        allowed = path in FOR_EVERYBODY or number in path or path.startswith("/associations/resources/")
        assert answer.status_code in (({200} if allowed else set()) | {405}), (method, path, answer.text)
    assert dump(home) == before


def test_a_schema_does_not_tell_of_places_that_its_reader_may_not_know(guest: httpx.Client) -> None:
    number = shared_id(guest)

    assert guest.get(f"/schemas/ids/{number}/subjects").json() == ["mine-value"]
    assert guest.get(f"/schemas/ids/{number}/versions").json() == [{"subject": "mine-value", "version": 1}]
    assert [each["subject"] for each in guest.get(f"/v1/schemas/{number}").json()["used_by"]] == ["mine-value"]
    assert "mine-value" in guest.get(f"/ui/schemas/{number}").text


def test_what_a_schema_uses_must_be_readable(guest: httpx.Client) -> None:
    text = '{"type": "record", "name": "Uses", "fields": [{"name": "a", "type": "Shared"}]}'
    theirs, own = ([{"name": "Shared", "subject": each, "version": 1}] for each in ("covert-value", "mine-value"))

    for path in ("/subjects/mine-new/versions", "/subjects/mine-new", "/compatibility/subjects/mine-new/versions"):
        answer = guest.post(path, json={"schema": text, "references": theirs})
        assert answer.status_code == 403, (path, answer.text)
    assert guest.post("/subjects/mine-new/versions", json={"schema": text, "references": own}).status_code == 200
    with_schema = association("mine-uses", "mine", lifecycle="STRONG", schema={"schema": text, "references": theirs})
    assert guest.post("/associations", json=with_schema).status_code == 403


def test_a_topic_is_led_to_another_subject_by_those_alone_who_may_write_both(guest: httpx.Client) -> None:
    assert guest.post("/associations", json=association("mine-value", "other")).status_code == 403
    assert guest.post("/associations", json=association("covert-value", "mine")).status_code == 403
    assert guest.post("/associations", json=association("mine-value", "mine")).status_code == 200
    assert [each["subject"] for each in guest.get("/associations/resources/-/mine").json()] == ["mine-value"]
    assert guest.get("/associations/resources/-/covert").json() == []
    assert guest.delete("/associations/resources/mine-id").status_code == 204


def test_what_is_derived_from_a_schema_needs_the_right_to_read_it(guest: httpx.Client) -> None:
    covert = 1
    body = {"namespace": "mine", "create_table": "CREATE TABLE shop.t (id int PRIMARY KEY)"}

    assert guest.post("/v1/schemas/mysql", json={**body, "base_schema_id": covert}).status_code == 403
    assert guest.post("/v1/schemas/mysql", json={**body, "base_schema_id": str(covert)}).status_code == 403
    assert guest.post("/v1/schemas/mysql", json={**body, "base_schema_id": int(shared_id(guest))}).status_code == 200


def test_no_page_loads_anything_from_elsewhere(guest: httpx.Client) -> None:
    page = guest.get("/docs")

    assert page.status_code == 200
    assert "/subjects/{subject}/versions" in page.text
    assert json.dumps("CREATE TABLE shop.orders (id bigint PRIMARY KEY, note varchar(64))").strip('"') in page.text
    for begin in ('src="http', 'href="http', "src='http", "//cdn"):
        assert begin not in page.text
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert guest.get("/redoc").status_code in {403, 404}

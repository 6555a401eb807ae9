"""Ids that are written so that the guard might take them for others than the routes do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from pydantic import TypeAdapter, ValidationError
from tests.unit.schematizer.served import served
from tests.unit.schematizer.test_schematizer_app import ORDERS, register

from penstock.schematizer.api.queries import SchemaId
from penstock.schematizer.http.protection import Protection
from penstock.schematizer.ids import NO_ID, parse_id
from penstock.schematizer.security.access import Role
from penstock.schematizer.security.demands import InSchema, demand_of
from penstock.schematizer.security.users import GrantEntry
from penstock.schematizer.security.users_edit import put_token, put_user

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

COVERT = 12
# What stands for 12 to one reader of numbers or another; and what is 1 to who looks at the first 20 digits alone.
FORMS = (
    "0" * 19 + "12",
    "012",
    "+12",
    " 12",
    "12 ",
    "12\n",
    "1_2",
    "12.0",
    "\uff11\uff12",
    "-0",
    "0x12",
    "",
    "1" + "0" * 20,
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ids")


@pytest.fixture(scope="module")
def tokens(home: Path) -> dict[str, str]:
    file = home / "users.yaml"
    put_user(file, "ada", "", (GrantEntry(role=Role.ADMIN),))
    put_user(file, "guest", "", (GrantEntry(role=Role.WRITE, namespaces=("*",), subjects=("mine-*",)),))
    return {name: put_token(file, name, "test") for name in ("ada", "guest")}


@pytest.fixture(scope="module")
def client(home: Path, tokens: dict[str, str]) -> Iterator[httpx.Client]:
    """A guest's client of a registry where schema 1 and note 1 are the guest's, and schema 12 and note 12 are not."""
    with served(f"sqlite:///{home}/ids.db", Protection(home / "users.yaml")) as client:
        client.headers["Authorization"] = f"Bearer {tokens['ada']}"
        for number in range(1, COVERT + 1):
            name = "mine-1" if number == 1 else f"covert-{number}"
            text = json.dumps({"type": "record", "name": f"{name.title().replace('-', '')}", "fields": []})
            told = client.post(f"/subjects/{name}/versions", json={"schema": text}).raise_for_status().json()
            assert told["id"] == number
            note = client.post("/v1/notes", json={"schema_id": number, "text": f"{name} words"}).raise_for_status()
            assert note.json()["id"] == number
        register(client, "mine", ORDERS)
        client.headers["Authorization"] = f"Bearer {tokens['guest']}"
        yield client


@pytest.mark.parametrize("form", FORMS)
def test_an_id_is_the_same_to_guard_and_route(form: str) -> None:
    scope = {"method": "GET", "path": f"/schemas/ids/{form}", "query_string": b""}
    route = TypeAdapter(SchemaId)
    body = json.dumps({"base_schema_id": form}).encode()

    (asked,) = demand_of(scope, b"").targets
    (used,) = demand_of({"method": "POST", "path": "/v1/tables", "query_string": b""}, body).uses

    assert asked == used
    try:
        assert asked == InSchema(route.validate_python(form))
    except ValidationError:
        assert asked == InSchema(NO_ID)


@pytest.mark.parametrize("written", [*FORMS[:-1], True, 12.0, None, [12], b"12"])
def test_one_id_has_one_form(written: object) -> None:
    with pytest.raises(ValueError, match="digits alone"):
        parse_id(written)


@pytest.mark.parametrize("written", [12, "12", -1, "-1", 0, "0", 1 << 80, str(1 << 80)])
def test_an_id_in_that_form_is_read(written: object) -> None:
    assert parse_id(written) == int(str(written))


@pytest.mark.parametrize("form", [str(COVERT), *FORMS])
def test_no_form_of_an_id_shows_a_schema_that_may_not_be_read(client: httpx.Client, form: str) -> None:
    for path in ("/schemas/ids/{}", "/schemas/ids/{}/schema", "/schemas/ids/{}/subjects", "/v1/schemas/{}"):
        _assert_refused(client.get(path.format(_segment(form))), path)
    for path in ("/v1/schemas/{}/elements", "/v1/schemas/{}/data_targets", "/ui/schemas/{}", "/ui/notes/{}"):
        _assert_refused(client.get(path.format(_segment(form))), path)
    for query in ({"old": form, "new": "1"}, {"old": "1", "new": form}):
        _assert_refused(client.get("/ui/subjects/mine-1", params=query), query)


@pytest.mark.parametrize("form", [str(COVERT), *FORMS])
def test_no_form_of_an_id_changes_what_may_not_be_changed(client: httpx.Client, form: str) -> None:
    table = {"namespace": "mine", "create_table": "CREATE TABLE shop.t (id int PRIMARY KEY)"}

    _assert_refused(client.get(f"/v1/notes/{_segment(form)}"), "note")
    _assert_refused(client.put(f"/v1/notes/{_segment(form)}", json={"text": "changed"}), "note")
    _assert_refused(client.post("/v1/notes", json={"schema_id": form, "text": "covert"}), "new note")
    _assert_refused(client.post("/v1/schemas/mysql", json={**table, "base_schema_id": form}), "base")
    told = {"schema_id": form}
    _assert_refused(client.post("/v1/namespaces/mine/meta_attributes", json=told), "meta attribute")


def test_an_id_in_the_registrys_own_form_is_what_it_was(client: httpx.Client) -> None:
    assert client.get("/schemas/ids/1").json()["schema"].startswith('{"type": "record", "name": "Mine1"')
    assert client.get("/v1/schemas/1").status_code == 200
    assert client.get("/ui/subjects/mine-1", params={"old": "1", "new": "1"}).status_code == 200
    assert client.put("/v1/notes/1", json={"text": "mine-1 words"}).status_code == 200
    assert client.post("/v1/notes", json={"schema_id": "1", "text": "more"}).status_code == 200


def test_a_blank_namespace_narrows_no_list(client: httpx.Client) -> None:
    for path in ("/v1/history", "/v1/search", "/v1/sources", "/v1/topics", "/ui/history", "/ui/search"):
        asked = {"q": "words"} if "search" in path else {}
        for blank in ("", " "):
            answer = client.get(path, params={**asked, "namespace": blank})
            assert answer.status_code == 403, (path, answer.text)
        assert client.get(path, params={**asked, "namespace": "mine"}).status_code == 200


def _segment(form: str) -> str:
    return "".join(f"%{byte:02X}" for byte in form.encode()) or "%20"


def _assert_refused(answer: httpx.Response, about: object) -> None:
    assert answer.status_code in {403, 404, 422}, (about, answer.text)
    assert "overt" not in answer.text, (about, answer.text)

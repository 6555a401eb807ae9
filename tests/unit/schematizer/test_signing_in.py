"""Who may do what, on both faces."""

from __future__ import annotations

import asyncio
import base64
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import httpx
import pytest
import yaml
from tests.unit.schematizer.served import served
from tests.unit.schematizer.test_schematizer_app import ORDERS, register

from penstock.schematizer.http.protection import Protection
from penstock.schematizer.refusals import RefusedError
from penstock.schematizer.security import sign_in
from penstock.schematizer.security.access import Role
from penstock.schematizer.security.rates import Rates
from penstock.schematizer.security.users import GrantEntry
from penstock.schematizer.security.users_edit import put_token, put_user, remove_user

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PASSWORD = "päss: wörd"
LONG = '{"type": "long"}'


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the users file is, with the token of each user as its name."""
    return tmp_path_factory.mktemp("signing_in")


@pytest.fixture(scope="module")
def tokens(home: Path) -> dict[str, str]:
    """A token of each user."""
    file = home / "users.yaml"
    put_user(file, "ada", PASSWORD, (GrantEntry(role=Role.ADMIN),))
    put_user(file, "wendy", "", (GrantEntry(role=Role.WRITE),))
    put_user(file, "rita", "", (GrantEntry(role=Role.READ),))
    put_user(file, "shop", "", (GrantEntry(role=Role.WRITE, namespaces=("shop*",), subjects=("lab-*", ":.lab:*")),))
    put_user(file, "lead", "", (GrantEntry(role=Role.ADMIN, namespaces=("shopdb",)), GrantEntry(role=Role.READ)))
    put_user(file, "idle", "", ())
    return {name: put_token(file, name, "test") for name in ("ada", "wendy", "rita", "shop", "lead", "idle")}


@pytest.fixture(scope="module")
def strict(home: Path, tokens: dict[str, str]) -> Iterator[httpx.Client]:
    """A client of a registry with users, with a table in two namespaces and a schema of nobody's."""
    with served(f"sqlite:///{home}/strict.db", Protection(home / "users.yaml")) as client:
        client.headers["Authorization"] = f"Bearer {tokens['ada']}"
        register(client, "shopdb", ORDERS)
        register(client, "other", ORDERS)
        client.post("/subjects/free-value/versions", json={"schema": LONG}).raise_for_status()
        client.post("/subjects/lab-value/versions", json={"schema": '"int"'}).raise_for_status()
        del client.headers["Authorization"]
        yield client


def test_nobody_comes_in_without_saying_who_it_is(strict: httpx.Client, tokens: dict[str, str]) -> None:
    document = strict.get("/openapi.json", headers={"Authorization": f"Bearer {tokens['rita']}"}).json()
    routes = [(method, path) for path, methods in document["paths"].items() for method in methods]
    assert len(routes) > 40
    assert document["security"] == [{name: []} for name in document["components"]["securitySchemes"]] != []

    for method, path in [*routes, ("get", "/docs"), ("get", "/openapi.json"), ("get", "/"), ("get", "/nothing")]:
        answer = strict.request(method, path.replace("{", "").replace("}", ""), json={})

        assert answer.status_code == 401, (method, path)
        assert answer.headers["WWW-Authenticate"].startswith("Basic realm=")
        assert answer.json()["error_code"] == 401
        assert answer.json()["code"] == "unauthenticated"
        own = path.startswith("/v1")
        assert ("schemaregistry" in answer.headers["Content-Type"]) is not own


def test_what_proves_nothing_is_refused(home: Path, tokens: dict[str, str]) -> None:
    assert tokens
    nonsense = ("Bearer pst_wrong", "Bearer", "Basic", "Basic !!", "Basic YQ==", "Basic gIA=", "Digest a=b", "\xff\xfe")
    with served(f"sqlite:///{home}/proofs.db", Protection(home / "users.yaml", failures=Rates(0, 1))) as client:
        for header in nonsense:
            answer = client.get("/subjects", headers={b"Authorization": header.encode("latin-1")})

            assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated"), header


def test_passwords_are_checked_and_failures_rationed(home: Path, tokens: dict[str, str]) -> None:
    assert tokens
    wrong = (("ada", "wrong"), ("ada", ""), ("wendy", ""), ("nobody", "x"))
    with served(f"sqlite:///{home}/passwords.db", Protection(home / "users.yaml", failures=Rates(0.01, 4))) as client:
        assert client.get("/subjects", auth=("ada", PASSWORD)).status_code == 200
        for user, password in wrong:
            assert client.get("/subjects", auth=(user, password)).status_code == 401, user
        rationed = client.get("/subjects", auth=("ada", "wrong"))
        assert rationed.status_code == 429
        assert int(rationed.headers["Retry-After"]) in range(1, 101)
        assert client.get("/subjects", auth=("ada", PASSWORD)).status_code == 200


def test_of_many_wrong_passwords_at_once_no_more_are_tried_than_of_as_many_one_by_one(
    home: Path, tokens: dict[str, str]
) -> None:
    assert tokens
    with (
        served(f"sqlite:///{home}/at_once.db", Protection(home / "users.yaml", failures=Rates(0.01, 4))) as client,
        ThreadPoolExecutor(20) as pool,
    ):
        answers = pool.map(lambda n: client.get("/subjects", auth=("ada", f"wrong {n}")).status_code, range(20))

        assert sorted(answers) == [401] * 4 + [429] * 16


def test_who_is_removed_while_his_password_is_checked_does_not_come_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "users.yaml"
    put_user(file, "ada", PASSWORD, (GrantEntry(role=Role.READ),))
    put_user(file, "eve", "other", (GrantEntry(role=Role.READ),))
    monkeypatch.setattr(sign_in, "_LOOK_SECONDS", 0.0)
    header = f"Basic {base64.b64encode(f'ada:{PASSWORD}'.encode()).decode()}"

    async def sign_in_while_removed() -> None:
        signing_in = sign_in.SignIn(file, Rates(0, 1))
        coming = asyncio.create_task(signing_in.user(header, "here"))
        await asyncio.sleep(0)
        remove_user(file, "ada")
        await coming

    with pytest.raises(RefusedError, match="not right"):
        asyncio.run(sign_in_while_removed())


ORDERS_PATH = "/v1/sources/shopdb/shop/orders"
DOC = {"doc": "said"}
SCHEMA = {"schema": LONG}
BOTH, READERS, WRITERS, ADMINS = "ada wendy rita lead", "ada wendy rita lead", "ada wendy", "ada"
EVERYBODY = "ada wendy rita lead shop"


@pytest.mark.parametrize(
    ("request_", "allowed"),
    [
        (("GET", "/subjects", None), READERS),
        (("GET", "/v1/topics", None), READERS),
        (("GET", "/v1/topics?namespace=shopdb", None), EVERYBODY),
        (("GET", "/v1/topics?namespace=other", None), READERS),
        (("GET", "/v1/topics?namespace=shopdb&namespace=other", None), READERS),
        (("GET", "/v1/topics/shopdb.shop.orders", None), EVERYBODY),
        (("GET", "/v1/topics/other.shop.orders/schemas", None), READERS),
        (("GET", "/schemas/ids/1", None), EVERYBODY),
        (("GET", "/v1/schemas/1/elements", None), EVERYBODY),
        # Read as numbers by routes, and named by no place.
        (("GET", "/v1/schemas/+1?namespace=shopdb", None), READERS),
        (("GET", "/v1/notes/+1?namespace=shopdb", None), READERS),
        (("GET", "/subjects/shopdb.shop.orders-value/versions", None), EVERYBODY),
        (("GET", "/subjects/other.shop.orders-value/versions", None), READERS),
        (("GET", "/subjects/lab-value/versions/latest", None), EVERYBODY),
        (("GET", "/subjects/free-value/versions/latest", None), READERS),
        (("GET", "/schemas/types", None), EVERYBODY),
        (("GET", "/config", None), EVERYBODY),
        (("GET", "/associations/resources/-/topic", None), EVERYBODY),
        (("GET", "/docs", None), EVERYBODY),
        (("GET", "/v1/history", None), READERS),
        (("GET", "/%76%31/history", None), READERS),
        (("GET", "//v1/sources/shopdb", None), READERS),
        (("POST", "/subjects/lab-value", {"schema": '"int"'}), EVERYBODY),
        (("POST", "/compatibility/subjects/lab-value/versions", SCHEMA), EVERYBODY),
        (("POST", "/subjects/lab-new/versions", SCHEMA), f"{WRITERS} shop"),
        (("POST", "/subjects/:.lab:new/versions", SCHEMA), f"{WRITERS} shop"),
        (("POST", "/contexts/.lab/subjects/more/versions", SCHEMA), f"{WRITERS} shop"),
        (("POST", "/subjects/free-value/versions", SCHEMA), WRITERS),
        (("POST", "/subjects/other.shop.orders-value/versions", SCHEMA), WRITERS),
        (("PUT", ORDERS_PATH, DOC), f"{WRITERS} shop lead"),
        (("PUT", "/v1/sources/other/shop/orders", DOC), WRITERS),
        (("PUT", "/v1/sources/other%2Fshopdb/shop/orders", DOC), WRITERS),
        (("POST", "/v1/notes", {"schema_id": 2, "text": "x"}), WRITERS),
        (("POST", "/v1/notes", {"schema_id": "2", "text": "x"}), WRITERS),
        (("PUT", "/v1/namespaces/shopdb", {}), "ada lead"),
        (("PUT", "/v1/namespaces/other", {}), ADMINS),
        (("PUT", "/config/lab-value", {"compatibility": "NONE"}), ADMINS),
        (("PUT", "/config", {"compatibility": "BACKWARD"}), ADMINS),
        (("PUT", "/mode", {"mode": "READWRITE"}), ADMINS),
        (("DELETE", "/subjects/lab-gone?permanent=true", None), ADMINS),
        (("DELETE", "/subjects/lab-gone?permanent=yes&permanent=false", None), ADMINS),
        (("DELETE", "/subjects/lab-gone", None), f"{WRITERS} shop"),
    ],
)
def test_roles_hold_where_they_are_given(
    strict: httpx.Client, tokens: dict[str, str], request_: tuple[str, str, object], allowed: str
) -> None:
    method, path, body = request_
    for name, token in tokens.items():
        answer = strict.request(method, path, json=body, headers={"Authorization": f"Bearer {token}"})

        assert (answer.status_code not in {401, 403}) is (name in allowed.split()), (name, answer.text)
        assert answer.status_code < 500
        if answer.status_code == 403:
            assert answer.json()["error_code"] == 40301


def test_a_table_is_registered_only_in_ones_own_namespaces(strict: httpx.Client, tokens: dict[str, str]) -> None:
    shop = {"Authorization": f"Bearer {tokens['shop']}"}
    body = {"namespace": "shop2", "create_table": "CREATE TABLE s.t (id bigint PRIMARY KEY)"}

    assert strict.post("/v1/schemas/mysql", json=body, headers=shop).status_code == 200
    for namespace in ("other", "xshop", "", None, 1, ["shop2"]):
        refused = strict.post("/v1/schemas/mysql", json={**body, "namespace": namespace}, headers=shop)
        assert refused.status_code == 403, namespace
    for content in (b"", b"[]", b"{", b'{"namespace": "shop2", "namespace": "other"}', b"[" * 100_000):
        refused = strict.post("/v1/tables", content=content, headers={**shop, "Content-Type": "application/json"})
        assert refused.status_code == 403, content[:20]


def test_the_author_of_a_change_is_who_signed_in(strict: httpx.Client, tokens: dict[str, str]) -> None:
    headers = {"Authorization": f"Bearer {tokens['lead']}", "X-Penstock-Author": "somebody else"}

    strict.put(ORDERS_PATH, json={"doc": "as lead says"}, headers=headers).raise_for_status()

    found = strict.get("/v1/history?limit=1", headers=headers).json()["items"][0]
    assert (found["author"], found["after"]) == ("lead", "as lead says")


def test_anybody_may_read_where_that_is_wanted(home: Path, tokens: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "users.yaml"
    file.write_text("anonymous: read\n" + (home / "users.yaml").read_text())
    with served(f"sqlite:///{tmp_path}/open.db", Protection(file)) as client:
        assert client.get("/subjects").status_code == 200
        refused = client.put("/config", json={"compatibility": "NONE"})
        assert refused.status_code == 401
        assert "WWW-Authenticate" in refused.headers
        token = {"Authorization": f"Bearer {tokens['ada']}"}
        assert client.put("/config", json={"compatibility": "NONE"}, headers=token).status_code == 200


def test_where_everybody_may_read_no_site_has_its_own_name_lead_here(
    home: Path, tokens: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "users.yaml"
    file.write_text("anonymous: read\n" + (home / "users.yaml").read_text())
    token = {"Authorization": f"Bearer {tokens['ada']}"}
    with served(f"sqlite:///{tmp_path}/open.db", Protection(file, is_on_loopback=True)) as client:
        foreign = client.get("/subjects", headers={"Host": "evil.example"})
        page = client.get("/ui/", headers={"Host": "evil.example"})
        ours = client.get("/subjects", headers={"Host": "localhost:8081"})
        signed_in = client.get("/subjects", headers={"Host": "evil.example", **token})
    with served(f"sqlite:///{tmp_path}/open.db", Protection(file)) as client:
        elsewhere = client.get("/subjects", headers={"Host": "registry.example"})

    assert [each.status_code for each in (foreign, page, ours, signed_in, elsewhere)] == [401, 401, 200, 200, 200]
    assert all(each.headers["WWW-Authenticate"].startswith("Basic realm=") for each in (foreign, page))
    assert "--behind-proxy ADDRESS" in foreign.json()["hint"]


def test_a_changed_users_file_holds_at_once_and_a_broken_one_does_not(tmp_path: Path) -> None:
    file = tmp_path / "users.yaml"
    put_user(file, "ada", PASSWORD, (GrantEntry(role=Role.READ),))
    with served(f"sqlite:///{tmp_path}/changing.db", Protection(file)) as client:
        ada = httpx.BasicAuth("ada", PASSWORD)
        assert client.get("/subjects", auth=ada).status_code == 200

        put_user(file, "ada", "another", ())
        token = put_token(file, "ada", "t")
        time.sleep(1.1)
        assert client.get("/subjects", auth=ada).status_code == 401
        assert client.get("/subjects", auth=("ada", "another")).status_code == 200
        assert client.get("/subjects", headers={"Authorization": f"Bearer {token}"}).status_code == 200

        whole = file.read_text()
        file.write_text("users: [broken")
        time.sleep(1.1)
        assert client.get("/subjects", auth=("ada", "another")).status_code == 200

        file.write_text(whole)
        remove_user(file, "ada", "t")
        time.sleep(1.1)
        assert client.get("/subjects", headers={"Authorization": f"Bearer {token}"}).status_code == 401
        assert oct(file.stat().st_mode & 0o777) == "0o600"
        assert list(tmp_path.glob(".users*")) == []
        assert PASSWORD not in whole
        assert token not in whole
        assert yaml.safe_load(whole)["users"]["ada"]["password"].startswith("scrypt$")


@pytest.mark.parametrize(
    ("headers", "passes"),
    [
        ({}, True),
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "none"}, True),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Origin": "http://evil.example"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": "http://here"}, True),
    ],
)
def test_another_sites_page_changes_nothing(registry: httpx.Client, headers: dict[str, str], *, passes: bool) -> None:
    if headers.get("Origin") == "http://here":
        headers = {"Origin": str(registry.base_url).rstrip("/")}

    changed = registry.put("/config", json={"compatibility": "NONE"}, headers=headers)

    assert changed.status_code == (200 if passes else 403)
    assert registry.get("/config", headers=headers).status_code == 200

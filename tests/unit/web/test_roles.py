"""Who may read the page and who may act on it, where it has users; and where it may be without any."""

from __future__ import annotations

import socket
import ssl
from contextlib import closing
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.servers.certificates import authority
from tests.unit.web.shop import served
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.core.errors import ConfigError, UsageError
from penstock.embedded.page import plan_page
from penstock.schematizer.security.access import Role
from penstock.schematizer.security.users import GrantEntry
from penstock.schematizer.security.users_edit import put_token, put_user, remove_user
from penstock.wiring.open import open_table_actions
from penstock.wiring.pipeline_status import read_status

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.unit.web.shop import Shop

    from penstock.ports.table_actions import TableRequest

PAUSE = {"table": "shop.orders", "link": "shopdb-to-warehouse", "action": "pause"}
GRANTS = {
    "reader": GrantEntry(role=Role.READ),
    "writer": GrantEntry(role=Role.WRITE),
    "of-shopdb": GrantEntry(role=Role.WRITE, namespaces=("shop*",)),
    "of-others": GrantEntry(role=Role.ADMIN, namespaces=("freight",)),
}


def give_users(shop: Shop) -> Mapping[str, dict[str, str]]:
    """Give the page users, and return their headers by their names."""
    file = shop.file.with_name("users.yaml")
    told = {}
    for name, grant in GRANTS.items():
        put_user(file, name, "", (grant,))
        told[name] = {"Authorization": f"Bearer {put_token(file, name, 'test')}"}
    shop.file.write_text(f"{shop.file.read_text()}web: {{users: users.yaml}}\n")
    return told


def requests(shop: Shop) -> list[TableRequest]:
    with closing(open_table_actions(shop.spec)) as actions:
        return list(actions.requests())


def own(client: httpx.Client) -> dict[str, str]:
    return {"Origin": str(client.base_url).rstrip("/"), "Sec-Fetch-Site": "same-origin"}


def test_reading_takes_a_role_and_acting_takes_another(shop: Shop) -> None:
    users = give_users(shop)
    shop.run()
    with served(shop) as client:
        read = {name: client.get("/", headers=headers) for name, headers in users.items()}
        acted = {name: client.post("/tables", json=PAUSE, headers={**own(client), **users[name]}) for name in GRANTS}
        asked = [each.asked_by for each in requests(shop)]

    assert {name: answer.status_code for name, answer in read.items()} == {
        "reader": 200,
        "writer": 200,
        "of-shopdb": 200,
        "of-others": 403,
    }
    assert {name: answer.status_code for name, answer in acted.items()} == {
        "reader": 403,
        "writer": 200,
        # It is paused already.
        "of-shopdb": 409,
        "of-others": 403,
    }
    assert asked == ["writer at the page"]
    assert ["data-action" in read[name].text for name in ("reader", "writer")] == [False, True]
    assert "user add reader --users FILE --role write" in acted["reader"].json()["hint"]


def test_who_may_only_read_gets_403_for_every_action_and_nothing_changes(shop: Shop) -> None:
    users = give_users(shop)
    shop.run()
    with served(shop) as client:
        headers = {**own(client), **users["reader"]}
        actions = ("pause", "resume", "skip", "drop", "snapshot", "replay")
        answers = [client.post("/tables", json={**PAUSE, "action": each}, headers=headers) for each in actions]

    assert [each.status_code for each in answers] == [403] * 6
    assert (requests(shop), read_status(shop.spec).snapshots) == ([], [])


WRITERS = ("writer", "of-shopdb")
OTHER_SOURCE = """\
sources:
  - {name: hr, kind: mysql, host: 127.0.0.1, port: 1, user: cdc, password_env: SHOP_PASSWORD, tables: [hr.*]}
"""


def test_a_role_in_one_source_asks_for_no_snapshot_of_a_table_of_another(shop: Shop) -> None:
    users = give_users(shop)
    put_user(shop.file.with_name("users.yaml"), "of-shopdb", "", (GRANTS["reader"], GRANTS["of-shopdb"]))
    shop.file.write_text(shop.file.read_text().replace("sources:\n", OTHER_SOURCE))
    shop.run()
    ask = {"table": "hr.salaries", "action": "snapshot"}
    with served(shop) as client:
        headers = {**own(client), **users["of-shopdb"]}
        answers = [client.post("/tables", json={**ask, "link": each}, headers=headers) for each in ("shopdb", "hr")]
        body = {"table": "", "link": "big_orders", "action": "replay"}
        replayed = [client.post("/tables", json=body, headers={**own(client), **users[each]}) for each in WRITERS]

    assert [each.status_code for each in answers] == [409, 403]
    # What a spolt makes may be of any source: who may act in one alone is refused before anything is looked up.
    assert [each.status_code for each in replayed] == [409, 403]
    assert "hr.salaries is a table of hr, and not of shopdb" in answers[0].json()["error"]
    assert read_status(shop.spec).snapshots == []


def test_a_body_is_waited_for_from_nobody_who_may_not_act_and_from_nobody_for_long(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.web.actions._BODY_SECONDS", 0.3)
    users = give_users(shop)
    shop.run()
    with served(shop) as client:
        told = {name: _begin_to_ask(client, users[name]) for name in ("reader", "writer")}
        after = client.post("/tables", json=PAUSE, headers={**own(client), **users["writer"]})

    assert told == {"reader": b"HTTP/1.1 403", "writer": b"HTTP/1.1 408"}
    assert after.status_code == 200


def _begin_to_ask(client: httpx.Client, user: Mapping[str, str]) -> bytes:
    """The first line's begin of the answer to a request whose body does not come."""
    headers = {**own(client), **user, "Host": "localhost", "Content-Type": "application/json", "Content-Length": "9"}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    with socket.create_connection(("127.0.0.1", client.base_url.port or 0), 20) as connection:
        connection.sendall(f"POST /tables HTTP/1.1\r\n{head}\r\n".encode())
        return connection.recv(12)


def test_a_page_of_another_site_changes_nothing_though_the_browser_adds_the_password(shop: Shop) -> None:
    users = give_users(shop)
    shop.run()
    crossed: list[dict[str, str]] = [
        {"Origin": "https://evil.example"},
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "same-site"},
        {},
    ]
    with served(shop) as client:
        refused = [client.post("/tables", json=PAUSE, headers={**users["writer"], **each}) for each in crossed]
        form = client.post("/tables", data=PAUSE, headers={**users["writer"], **own(client)})

    assert [each.status_code for each in (*refused, form)] == [403] * 6
    assert requests(shop) == []


def test_an_open_page_of_a_user_who_was_removed_reads_no_longer(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.web.application._STREAM_SECONDS", 2.0)
    users = give_users(shop)
    shop.run()
    with served(shop) as client:
        with client.stream("GET", "/events/", headers=users["reader"]) as stream:
            remove_user(shop.file.with_name("users.yaml"), "reader")
            lines = list(stream.iter_lines())
        again = client.get("/events/", headers=users["reader"])

    assert sum(line.startswith("data: ") for line in lines) >= 1
    assert again.status_code == 401


def test_nobody_reads_anything_without_signing_in_but_whether_it_is_well(shop: Shop) -> None:
    give_users(shop)
    shop.run()
    with served(shop) as client:
        paths = ("/", "/metrics", "/events/", "/static/live.js", "/look/style.css", "/tables")
        refused = {path: client.get(path) for path in paths}
        health = client.get("/healthz")
        wrong = client.get("/", auth=("reader", "guess"))

    assert {answer.status_code for answer in (*refused.values(), wrong)} == {401}
    assert all(answer.headers["www-authenticate"].startswith("Basic ") for answer in refused.values())
    assert (health.status_code, health.text) == (503, "not well; sign in to see why\n")


def test_where_everybody_may_read_who_signs_in_may_act(shop: Shop) -> None:
    users = give_users(shop)
    file = shop.file.with_name("users.yaml")
    file.write_text(f"anonymous: read\n{file.read_text()}")
    shop.run()
    with served(shop) as client:
        page, refused = client.get("/"), client.post("/tables", json=PAUSE, headers=own(client))
        asked, signed_in = client.get("/sign-in"), client.get("/sign-in", headers=users["writer"])
        again = client.get("/", headers=users["writer"])

    assert (page.status_code, "data-action" in page.text, 'href="/sign-in"' in page.text) == (200, False, True)
    assert (refused.status_code, requests(shop)) == (401, [])
    assert (asked.status_code, signed_in.status_code, signed_in.headers["location"]) == (401, 303, "/")
    assert ("data-action" in again.text, 'href="/sign-in"' in again.text) == (True, False)


def test_where_everybody_may_read_no_site_has_its_own_name_lead_here(shop: Shop) -> None:
    give_users(shop)
    file = shop.file.with_name("users.yaml")
    file.write_text(f"anonymous: read\n{file.read_text()}")
    with served(shop) as client:
        named = [client.get("/", headers={"Host": each}) for each in ("evil.example", "localhost")]
        shop.file.write_text(shop.file.read_text().replace("users.yaml", "users.yaml, behind_proxy: 127.0.0.1"))
    with served(shop) as client:
        proxied = client.get("/", headers={"Host": "page.example"})

    assert [each.status_code for each in (*named, proxied)] == [403, 200, 200]
    assert "web: {behind_proxy: ADDRESS}" in named[0].text


def test_whoever_guesses_passwords_is_held_off(shop: Shop) -> None:
    give_users(shop)
    with served(shop) as client:
        guesses = [client.get("/", headers={"Authorization": f"Bearer {guess}"}).status_code for guess in range(12)]

    assert guesses[:10] == [401] * 10
    assert guesses[-1] == 429


@pytest.mark.parametrize(
    ("web", "said"),
    [
        ("{host: 0.0.0.0}", "penstock schematizer user add NAME --users users.yaml --role write"),
        ("{host: '::', port: 8800}", "on ::, everybody who reaches the page could stop tables"),
        ("{behind_proxy: 10.0.0.1}", "behind a proxy, everybody who reaches the page"),
        ("{host: 0.0.0.0, users: users.yaml}", "passwords would cross the network as they are"),
        ("{host: 0.0.0.0, users: users.yaml, tls: {key: k.pem}}", "missing key cert"),
    ],
)
def test_a_page_for_other_machines_is_refused_without_users_and_without_tls(shop: Shop, web: str, said: str) -> None:
    shop.file.write_text(f"{shop.file.read_text()}web: {web}\n")

    with pytest.raises(ConfigError) as refused:
        _ = shop.spec

    assert said in str(refused.value)
    assert CliRunner().invoke(app, ["web", str(shop.file)]).exit_code == 2


@pytest.mark.parametrize(
    "web", ["{host: '::1'}", "{host: 0.0.0.0, users: u, behind_proxy: 10.0.0.1}", "{host: h, users: u, tls: {cert: c}}"]
)
def test_a_page_for_other_machines_is_taken_with_users_and_tls(shop: Shop, web: str) -> None:
    shop.file.write_text(f"{shop.file.read_text()}web: {web}\n")

    assert shop.spec.web is not None


@pytest.mark.nightly
def test_over_tls_and_by_a_name_of_its_own_the_page_is_read_and_acted_on(shop: Shop, tmp_path: Path) -> None:
    users = give_users(shop)
    signed = authority(tmp_path / "ca")
    cert, key = signed.sign("page", "IP:127.0.0.1")
    text = shop.file.read_text().replace("users: users.yaml", f"users: users.yaml, tls: {{cert: {cert}, key: {key}}}")
    shop.file.write_text(text)
    shop.run()
    with served(shop) as client:
        url = str(client.base_url).replace("http://", "https://").rstrip("/")
        plain_is_served = _is_answered(client)
        with httpx.Client(base_url=url, verify=ssl.create_default_context(cafile=signed.ca), trust_env=False) as safe:
            # As a browser sends it that knows the machine by another name.
            named = {"Host": "page.example", "Origin": "https://page.example", **users["writer"]}
            read, acted = safe.get("/", headers=named), safe.post("/tables", json=PAUSE, headers=named)
            foreign = safe.post("/tables", json=PAUSE, headers={**named, "Origin": "https://evil.example"})

    assert not plain_is_served
    assert [each.status_code for each in (read, acted, foreign)] == [200, 200, 403]


def _is_answered(client: httpx.Client) -> bool:
    try:
        client.get("/healthz")
    except httpx.HTTPError:
        return False
    return True


def test_a_users_file_that_is_wrong_stops_the_start(shop: Shop) -> None:
    shop.file.write_text(f"{shop.file.read_text()}web: {{users: users.yaml}}\n")

    with pytest.raises(UsageError, match=r"users\.yaml cannot be read"):
        plan_page(shop.file, shop.spec)

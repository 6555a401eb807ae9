"""The Schematizer's documentation on every kind of database: the same answers, and upgrades that keep what is there."""

from __future__ import annotations

import contextlib
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import column, create_engine, text
from sqlalchemy import table as sa_table
from tests.servers.kinds import on_every_database
from tests.unit.schematizer.served import served
from tests.unit.schematizer.test_schematizer_app import ORDERS, register

from penstock.config.database_urls import parse_database_url
from penstock.core.avro.schemas import key_schema, value_schema
from penstock.core.tables import Column, IntegerType, TableId
from penstock.schematizer.http.protection import Protection
from penstock.schematizer.security.access import Role
from penstock.schematizer.security.users import GrantEntry
from penstock.schematizer.security.users_edit import put_token, put_user
from penstock.schematizer.storage.database import open_database
from penstock.schematizer.storage.models import Model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx
    from sqlalchemy import Connection

CALLERS = 20
NOTE = replace(ORDERS.columns[1], comment="Größe in cm, 50% off_ \\ x")
SIZES = replace(ORDERS, table=TableId("shop", "größe"), columns=(ORDERS.columns[0], NOTE), comment="all the orders")
STRANGE = "a/b.c%2F d%größe?#é"


@pytest.fixture
def database_url(state_url: str) -> str:
    return state_url


@pytest.fixture
def client(database_url: str) -> Iterator[httpx.Client]:
    with served(database_url) as opened:
        yield opened


def found(client: httpx.Client, words: str) -> list[str]:
    """What a search finds, in order, told in pages of one."""
    told: list[str] = []
    after = ""
    for _ in range(100):
        page = client.get("/v1/search", params={"q": words, "limit": 1, "after": after}).json()
        told += [f"{each['kind']} {each['name']}" for each in page["items"]]
        after = page["next"]
        if not after:
            return told
    pytest.fail("the pages have no end")


@on_every_database
def test_a_role_is_for_the_namespace_that_the_database_finds(database_url: str, tmp_path: Path) -> None:
    file = tmp_path / "users.yaml"
    put_user(file, "ada", "", (GrantEntry(role=Role.ADMIN),))
    put_user(file, "guest", "", (GrantEntry(role=Role.READ, namespaces=("team?",)),))
    tokens = {name: put_token(file, name, "test") for name in ("ada", "guest")}
    with served(database_url, Protection(file)) as client:
        client.headers["Authorization"] = f"Bearer {tokens['ada']}"
        for namespace in ("team", "team1"):
            register(client, namespace, ORDERS).raise_for_status()
        client.headers["Authorization"] = f"Bearer {tokens['guest']}"

        statuses = [client.get(f"/v1/namespaces/{each}").status_code for each in ("team1", "team", "team%20")]

    assert statuses[:2] == [200, 403]
    assert statuses[2] in {403, 404}


@on_every_database
def test_a_search_has_the_same_results(client: httpx.Client) -> None:
    register(client, "n", SIZES)
    register(client, "n", ORDERS)
    client.put("/v1/sources/n/shop/orders", json={"doc": "what was bought, by SIZE"})

    results = {
        words: found(client, words)
        for words in (
            "orders",
            "GRÖSSE",
            "ｇｒößｅ",
            "size",
            "note 50%",
            "f_ \\",
            "5_%",
            "shop.or",
            "all orders",
            "i",
            "zz",
        )
    }

    by_name = ["source shop.größe", "topic n.shop.gr__e"]
    assert results == {
        "orders": ["source shop.orders", "topic n.shop.orders", "source shop.größe"],
        "GRÖSSE": ["source shop.größe", "element note"],
        "ｇｒößｅ": ["source shop.größe", "element note"],
        "size": ["source shop.orders"],
        "note 50%": ["element note"],
        "f_ \\": ["element note"],
        "5_%": [],
        "shop.or": ["source shop.orders", "topic n.shop.orders"],
        "all orders": ["source shop.größe"],
        "i": ["element id", "element id", "source shop.orders", "element note"],
        "zz": [],
    }
    assert found(client, "gr")[:2] == by_name


@on_every_database
def test_documentation_is_kept_and_told_in_pages(client: httpx.Client) -> None:
    schema_id = register(client, STRANGE, SIZES).json()["value_schema_id"]
    path = f"/v1/sources/{quote(STRANGE, safe='')}/shop/{quote('größe', safe='')}"
    long = "ü😀" * 40_000

    client.put(path, json={"owner_email": "ada@example.com", "doc": long}, headers={"X-Penstock-Author": "Ada"})
    client.put(f"{path}/elements/id", json={"doc": "which", "contains_pii": False})
    note = client.post("/v1/notes", json={"schema_id": schema_id, "element": "note", "text": "😀"}).json()
    client.put(f"/v1/notes/{note['id']}", json={"text": "better"})

    assert client.get(path).json()["doc"] == long
    coverage = client.get(f"/v1/namespaces/{quote(STRANGE, safe='')}/coverage").json()
    assert (coverage["owned_percent"], coverage["documented_percent"]) == (100.0, 100.0)
    elements = client.get(f"/v1/schemas/{schema_id}/elements").json()["items"]
    assert [(each["path"], each["doc"]) for each in elements] == [("id", "which"), ("note", NOTE.comment)]
    told, after = [], ""
    for _ in range(6):
        page = client.get("/v1/history", params={"limit": 1, "after": after}).json()
        told += [(each["field"], each["before"], each["after"][:6]) for each in page["items"]]
        after = page["next"]
    assert told == [
        ("text", "😀", "better"),
        ("text", "", "😀"),
        ("doc", "", "which"),
        ("contains_pii", "", "false"),
        ("doc", "", long[:6]),
        ("owner_email", "", "ada@ex"),
    ]
    assert after == ""
    assert [each["id"] for each in client.get("/v1/notes?element=note").json()["items"]] == [note["id"]]
    for filters in ("namespace", "documented=true&owner_email=ada@example.com&table_name=größe"):
        assert (
            len(client.get(f"/v1/{'namespaces' if '=' not in filters else 'sources?' + filters}").json()["items"]) == 1
        )


@on_every_database
def test_what_is_refused_leaves_nothing(client: httpx.Client) -> None:
    client.put("/v1/namespaces/strict", json={"requires_owner": True})

    assert register(client, "strict").json()["code"] == "owner_required"

    assert client.get("/v1/sources").json()["items"] == []
    assert client.get("/subjects").json() == []
    assert found(client, "orders") == []
    for path in ("/v1/topics/a%00b", "/v1/topics?namespace=%00", "/v1/search?q=%00", "/v1/notes/9223372036854775808"):
        assert client.get(path).status_code in {404, 422}, path


@on_every_database
def test_lists_in_pages_have_everything_once(client: httpx.Client) -> None:
    names = ["a", "A", "ä", "z", "_", "é", "e", "Z", "b-1", "b_1", "b 1"]
    for name in names:
        register(client, "n", replace(ORDERS, table=TableId("s", name)))
    for path in ("/v1/sources", "/v1/topics"):
        told, after = [], ""
        for _ in names:
            page = client.get(path, params={"limit": 1, "after": after}).json()
            told += [each["table"] for each in page["items"]]
            after = page["next"]
        assert after == ""
        assert sorted(told) == sorted(f"s.{name}" for name in names)


@on_every_database
def test_callers_who_register_with_an_owner_at_once_get_one_answer_and_one_history(client: httpx.Client) -> None:
    client.put("/v1/namespaces/n", json={"requires_owner": True})
    body = {
        "namespace": "n",
        "key_schema": key_schema(SIZES),
        "value_schema": value_schema(SIZES),
        "owner_email": "ada@example.com",
    }

    with ThreadPoolExecutor(CALLERS) as pool:
        answers = list(pool.map(lambda _: client.post("/v1/tables", json=body), range(CALLERS)))

    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == 1
    assert len(client.get("/v1/history?field=owner_email").json()["items"]) == 1
    assert found(client, "note") == ["element note"]


@contextlib.contextmanager
def at_first_revision(url: str) -> Iterator[Connection]:
    """A connection to a database of the first release, in a transaction."""
    engine = create_engine(parse_database_url(url, "registry"))
    config = Config()
    config.set_main_option("script_location", "penstock.schematizer.storage:migrations")
    config.set_main_option("path_separator", "os")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        yield connection
    engine.dispose()


def fill(connection: Connection) -> None:
    """Write what the first release wrote for one table of two shapes, and for one without any shape."""
    plain, commented = value_schema(replace(ORDERS, table=SIZES.table)), value_schema(SIZES)
    rows: list[tuple[str, dict[str, object]]] = [
        ("namespaces", {"id": 7, "name": "nÿ😀", "created_at_ms": 2**40}),
        ("schemas", {"id": 1, "fingerprint": "k", "text": key_schema(SIZES), "created_at_ms": 1}),
        ("schemas", {"id": 2, "fingerprint": "p", "text": plain, "created_at_ms": 1}),
        ("schemas", {"id": 3, "fingerprint": "c", "text": commented, "created_at_ms": 1}),
    ]
    for number, name in ((4, "größe"), (5, "empty")):
        source: dict[str, object] = {
            "id": number,
            "namespace_id": 7,
            "table_schema": "shop",
            "table_name": name,
            "created_at_ms": 2**40,
        }
        rows.append(("sources", source | {"owner_email": "ada@example.com"}))
    topic: dict[str, object] = {
        "id": 9,
        "name": "n.shop.s",
        "collision_name": "n_shop_s",
        "source_id": 4,
        "ordinal": 1,
        "created_at_ms": 1,
    }
    lists: dict[str, object] = {
        "key_fields": json.dumps(["id"]),
        "opened_because": "[]",
        "key_schema_id": 1,
        "contains_pii": False,
    }
    rows.append(("topics", topic | lists))
    for number, schema_id in ((1, 2), (2, 3)):
        registration: dict[str, object] = {
            "id": number,
            "source_id": 4,
            "topic_id": 9,
            "value_schema_id": schema_id,
            "created_at_ms": 1,
        }
        rows.append(("table_registrations", registration))
    for table, row in rows:
        into = sa_table(table, *(column(name) for name in row))
        connection.execute(into.insert().values(row))


@on_every_database
@pytest.mark.parametrize("interrupted", [False, True])
def test_an_upgrade_keeps_what_is_there_and_describes_it(database_url: str, *, interrupted: bool) -> None:
    """MySQL commits each statement by itself: all may be done when a crash comes, and the revision not written down."""
    with at_first_revision(database_url) as connection:
        fill(connection)
    if interrupted:
        before = open_database(database_url)
        with before.engine.begin() as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))
        before.close()

    database = open_database(database_url)
    with database.engine.connect() as connection:
        difference = compare_metadata(MigrationContext.configure(connection), Model.metadata)
        times = connection.execute(text("SELECT created_at_ms FROM sources ORDER BY id")).scalars().all()
    database.close()

    assert difference == []
    assert times == [2**40, 2**40]
    with served(database_url) as client:
        sources = client.get("/v1/sources").json()["items"]
        assert [
            (each["id"], each["table"], each["owner_email"], each["doc"], each["category"]) for each in sources
        ] == [
            (5, "shop.empty", "ada@example.com", "", ""),
            (4, "shop.größe", "ada@example.com", "all the orders", ""),
        ]
        elements = client.get(f"/v1/sources/{quote('nÿ😀')}/shop/{quote('größe')}/elements").json()["items"]
        assert [(each["name"], each["type"], each["is_key"], each["doc"]) for each in elements] == [
            ("id", "bigint", True, ""),
            ("note", "varchar(64)", False, NOTE.comment),
        ]
        assert client.get(f"/v1/namespaces/{quote('nÿ😀')}").json()["requires_owner"] is False
        assert found(client, "grosse") == ["source shop.größe", "element note"]
        assert found(client, "shop") == ["source shop.größe", "source shop.empty", "topic n.shop.s"]


def test_a_column_that_comes_later_is_found_too(client: httpx.Client) -> None:
    register(client, "n", SIZES)
    more = Column("more", IntegerType(32, unsigned=False), nullable=True, declaration="int", comment="later on")

    register(client, "n", replace(SIZES, columns=(*SIZES.columns, more)))

    assert found(client, "later") == ["element more"]

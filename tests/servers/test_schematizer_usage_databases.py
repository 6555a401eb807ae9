"""Refreshes, targets, clients, meta attributes and migrations on every kind of database, many callers at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.servers.kinds import on_every_database
from tests.servers.test_schematizer_databases import STRANGE
from tests.unit.schematizer.served import served
from tests.unit.schematizer.test_documentation import items
from tests.unit.schematizer.test_schematizer_app import ORDERS, register

from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

CALLERS = 20


@pytest.fixture
def client(state_url: str) -> Iterator[httpx.Client]:
    url = state_url.replace("postgresql://", "postgresql+psycopg://").replace("mysql://", "mysql+pymysql://")
    with served(url) as opened:
        register(opened, "shopdb")
        register(opened, "shopdb", replace(ORDERS, table=TableId("shop", "größe")))
        yield opened


@on_every_database
def test_who_uses_topics_is_kept_and_told_the_same_everywhere(client: httpx.Client) -> None:
    client.put("/v1/data_targets/Red", json={"type": "redshift", "destination": "😀" * 30_000})
    client.put("/v1/data_targets/red", json={"type": "duckdb", "destination": "x"})
    client.put("/v1/consumer_groups/a%2Fb", json={"data_target": "Red"})
    source = {"namespace": "shopdb", "table_schema": "shop", "table_name": "größe"}
    client.post("/v1/consumer_groups/a%2Fb/data_sources", json=source)
    query = [client.post("/v1/sources/shopdb/shop/orders/refreshes", json={"priority": p}) for p in (5, 1000, 5)]
    client.put("/v1/refreshes/1/status", json={"status": "in_progress", "offset": STRANGE, "rows_done": 2**40})
    client.put("/v1/consumers/ada", json={"owner_email": "ada@example.com", "expected_frequency_seconds": 1})
    client.post("/v1/consumers/ada/seen", json={"topic": "shopdb.shop.orders", "schema_id": 2})
    client.post("/v1/namespaces/shopdb/meta_attributes", json={"schema_id": 1})
    client.post("/v1/schemas/2/meta_attributes", json={"schema_id": 1})
    client.put("/v1/topics/shopdb.shop.orders", json={"partitions": 8, "compacted": True, "cluster_type": "c"})
    client.put("/v1/topics/shopdb.shop.orders/schemas/2/status", json={"status": "read_only"})

    assert [each.status_code for each in query] == [200, 200, 200]
    assert [each["name"] for each in items(client, "/v1/data_targets")] == ["Red", "red"]
    assert len(str(client.get("/v1/data_targets/Red").json()["destination"])) == 30_000
    assert [each["table"] for each in items(client, "/v1/data_targets/Red/topics")] == ["shop.größe"]
    reached = items(client, f"/v1/topics/{items(client, '/v1/data_targets/Red/topics')[0]['name']}/data_targets")
    assert [each["consumer_groups"] for each in reached] == [["a/b"]]
    assert [each["id"] for each in items(client, "/v1/refreshes/next")] == [2, 3]
    page = client.get("/v1/refreshes/next?limit=1").json()
    assert [each["id"] for each in items(client, "/v1/refreshes/next", after=page["next"])] == [3]
    refresh = client.get("/v1/refreshes/1").json()
    assert (refresh["offset"], refresh["rows_done"]) == (STRANGE, 2**40)
    assert [each["name"] for each in items(client, "/v1/consumers", topic="shopdb.shop.orders")] == ["ada"]
    scopes = [each["scope"] for each in items(client, "/v1/schemas/2/meta_attributes")]
    assert scopes == ["namespace", "schema"]
    topic = client.get("/v1/topics/shopdb.shop.orders").json()
    assert (topic["partitions"], topic["compacted"], topic["cluster_type"]) == (8, True, "c")
    statuses = items(client, "/v1/topics/shopdb.shop.orders/schemas", kind="value")
    assert [each["status"] for each in statuses] == ["read_only"]
    assert items(client, "/v1/history", entity="shopdb.shop.orders", field="partitions")[0]["after"] == "8"
    sql = {"namespace": "shopdb", "create_table": "CREATE TABLE shop.orders (id bigint PRIMARY KEY, note int)"}
    assert not client.post("/v1/compatibility/schemas/postgres", json=sql).json()["stays"]
    plan = {"target": "redshift", "to_schema_id": 2}
    assert len(client.post("/v1/schema_migrations", json=plan).json()["statements"]) == 2
    assert client.delete("/v1/consumer_groups/a%2Fb").status_code == 200
    assert client.delete("/v1/data_targets/Red").status_code == 200


@on_every_database
def test_many_callers_at_once_make_each_thing_once_and_take_a_refresh_once(client: httpx.Client) -> None:
    client.put("/v1/consumers/ada", json={"owner_email": "ada@example.com"})
    client.post("/v1/sources/shopdb/shop/orders/refreshes", json={})

    def at_once(method: str, path: str, body: dict[str, object]) -> list[int]:
        with ThreadPoolExecutor(CALLERS) as pool:
            return list(pool.map(lambda _: client.request(method, path, json=body).status_code, range(CALLERS)))

    seen = at_once("POST", "/v1/consumers/ada/seen", {"topic": "shopdb.shop.orders"})
    targets = at_once("PUT", "/v1/data_targets/red", {"type": "redshift", "destination": "x"})
    client.put("/v1/consumer_groups/g", json={"data_target": "red"})
    sources = at_once("POST", "/v1/consumer_groups/g/data_sources", {"namespace": "shopdb"})
    taken = at_once("PUT", "/v1/refreshes/1/status", {"status": "in_progress"})

    assert set(seen) == set(targets) == set(sources) == {200}
    assert sorted(taken) == [200] + [409] * (CALLERS - 1)
    assert len(items(client, "/v1/consumers/ada/topics")) == 1
    assert len(items(client, "/v1/consumer_groups/g/data_sources")) == 1
    assert len(items(client, "/v1/history", kind="data_target", field="type")) == 1
    assert [each["after"] for each in items(client, "/v1/history", kind="refresh")] == ["in_progress", "not_started"]

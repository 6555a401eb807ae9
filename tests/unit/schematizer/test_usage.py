"""Refreshes, data targets, producers, consumers and meta attributes, over HTTP in this process."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import create_engine, text
from tests.unit.schematizer.served import served
from tests.unit.schematizer.test_documentation import items
from tests.unit.schematizer.test_schematizer_app import ORDERS, register

from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

LINES = replace(ORDERS, table=TableId("shop", "lines"))
REFRESHES = "/v1/sources/shopdb/shop/orders/refreshes"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    with served(f"sqlite:///{tmp_path / 'usage.db'}") as opened:
        register(opened, "shopdb")
        register(opened, "shopdb", LINES)
        register(opened, "other")
        yield opened


def code_of(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


def test_a_refresh_goes_from_its_wish_to_its_end(client: httpx.Client) -> None:
    new_refresh = {"priority": "high", "batch_rows": 50, "rows_per_second_max": 10, "filter_condition": "id > 7"}

    made = client.post(REFRESHES, json=new_refresh, headers={"X-Penstock-Author": "Ada"}).json()
    path = f"/v1/refreshes/{made['id']}"
    started = client.put(f"{path}/status", json={"status": "in_progress", "rows_total": 100}).json()
    client.put(f"{path}/progress", json={"rows_done": 50, "offset": "57"})
    client.put(f"{path}/status", json={"status": "paused"})
    client.put(f"{path}/status", json={"status": "in_progress"})
    ended = client.put(f"{path}/status", json={"status": "success", "rows_done": 100}).json()

    assert (made["status"], made["priority"], made["started_at_ms"]) == ("not_started", 75, None)
    assert started["started_at_ms"] is not None
    told = client.get(path).json()
    assert told == ended
    assert (told["rows_done"], told["rows_total"], told["offset"]) == (100, 100, "57")
    assert told["started_at_ms"] == started["started_at_ms"]
    assert told["ended_at_ms"] is not None
    changes = items(client, "/v1/history", kind="refresh", entity=made["id"])
    assert [each["after"] for each in changes] == ["success", "in_progress", "paused", "in_progress", "not_started"]
    assert changes[-1]["author"] == "Ada"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([], "paused"),
        ([], "success"),
        ([], "not_started"),
        (["in_progress"], "in_progress"),
        (["in_progress", "paused"], "success"),
        (["in_progress", "success"], "in_progress"),
        (["failed"], "in_progress"),
    ],
)
def test_another_transition_of_a_refresh_is_refused_and_changes_nothing(
    client: httpx.Client, before: list[str], after: str
) -> None:
    path = f"/v1/refreshes/{client.post(REFRESHES, json={}).json()['id']}"
    for status in before:
        assert client.put(f"{path}/status", json={"status": status}).status_code == 200
    was = client.get(path).json()

    refused = client.put(f"{path}/status", json={"status": after, "rows_done": 7})

    assert code_of(refused) == (409, "illegal_transition")
    assert client.get(path).json() == was


def test_progress_is_told_of_a_refresh_in_progress_and_never_goes_back(client: httpx.Client) -> None:
    path = f"/v1/refreshes/{client.post(REFRESHES, json={}).json()['id']}"

    assert code_of(client.put(f"{path}/progress", json={"rows_done": 1})) == (409, "illegal_transition")
    client.put(f"{path}/status", json={"status": "in_progress", "rows_done": 9})
    assert code_of(client.put(f"{path}/progress", json={"rows_done": 8})) == (422, "invalid_request")
    assert client.put(f"{path}/progress", json={}).json()["rows_done"] == 9


def test_refreshes_are_listed_by_what_is_asked_and_the_next_by_priority(client: httpx.Client) -> None:
    for priority in ("low", "max", 60, "max"):
        client.post(REFRESHES, json={"priority": priority})
    other = client.post("/v1/sources/other/shop/orders/refreshes", json={"priority": 1000}).json()
    client.put("/v1/refreshes/2/status", json={"status": "in_progress"})

    waiting = items(client, "/v1/refreshes/next", namespace="shopdb")

    assert [(each["id"], each["priority"]) for each in waiting] == [(4, 100), (3, 60), (1, 25)]
    page = client.get("/v1/refreshes/next?limit=2").json()
    assert [each["id"] for each in page["items"]] == [5, 4]
    assert [each["id"] for each in items(client, "/v1/refreshes/next", after=page["next"])] == [3, 1]
    assert [each["id"] for each in items(client, "/v1/refreshes", status="in_progress")] == [2]
    assert [each["id"] for each in items(client, "/v1/refreshes", namespace="other")] == [5]
    assert items(client, "/v1/refreshes", created_after=other["created_at_ms"]) == []
    assert client.put("/v1/refreshes/1/priority", json={"priority": 1}).json()["priority"] == 1
    for path in ("/v1/refreshes/77", f"/v1/refreshes/{1 << 70}"):
        assert code_of(client.get(path)) == (404, "unknown_refresh")


@pytest.mark.parametrize("body", [{"priority": "urgent"}, {"priority": 0}, {"batch_rows": 0}, {"rows": 1}])
def test_a_refresh_that_cannot_be_is_refused(client: httpx.Client, body: dict[str, object]) -> None:
    assert code_of(client.post(REFRESHES, json=body)) == (422, "invalid_request")
    assert items(client, "/v1/refreshes") == []


def test_targets_and_topics_find_each_other(client: httpx.Client) -> None:
    assert register(client, "shopdb", replace(ORDERS, key=())).json()["topic"] == "shopdb.shop.orders.v2"
    client.put("/v1/data_targets/lake", json={"type": "delta", "destination": "s3://lake"})
    client.put("/v1/data_targets/red", json={"type": "redshift", "destination": "cluster/dev"})
    for group, target in (("whole", "lake"), ("orders", "red"), ("one", "red")):
        assert client.put(f"/v1/consumer_groups/{group}", json={"data_target": target}).status_code == 200
    client.post("/v1/consumer_groups/whole/data_sources", json={"namespace": "shopdb"})
    orders = {"namespace": "shopdb", "table_schema": "shop", "table_name": "orders"}
    client.post("/v1/consumer_groups/orders/data_sources", json=orders)
    client.post("/v1/consumer_groups/one/data_sources", json={"topic": "shopdb.shop.orders"})

    def reached(path: str) -> dict[str, list[str]]:
        return {each["data_target"]["name"]: each["consumer_groups"] for each in client.get(path).json()["items"]}

    assert [each["name"] for each in items(client, "/v1/data_targets/lake/topics")] == [
        "shopdb.shop.lines",
        "shopdb.shop.orders",
        "shopdb.shop.orders.v2",
    ]
    assert [each["name"] for each in items(client, "/v1/data_targets/red/topics")] == [
        "shopdb.shop.orders",
        "shopdb.shop.orders.v2",
    ]
    assert reached("/v1/topics/shopdb.shop.orders.v2/data_targets") == {"lake": ["whole"], "red": ["orders"]}
    assert reached("/v1/topics/shopdb.shop.orders/data_targets") == {"lake": ["whole"], "red": ["one", "orders"]}
    assert reached("/v1/topics/shopdb.shop.lines/data_targets") == {"lake": ["whole"]}
    assert reached("/v1/topics/other.shop.orders/data_targets") == {}
    orders_id = client.get("/v1/topics/shopdb.shop.orders/schemas?kind=value").json()["items"][0]["id"]
    assert reached(f"/v1/schemas/{orders_id}/data_targets").keys() == {"lake", "red"}
    page = client.get(f"/v1/schemas/{orders_id}/data_targets?limit=1").json()
    assert [each["data_target"]["name"] for each in page["items"]] == ["lake"]
    assert [each["name"] for each in items(client, "/v1/consumer_groups", data_target="red")] == ["one", "orders"]
    assert [each["name"] for each in items(client, "/v1/data_targets", type="delta")] == ["lake"]


def test_what_a_group_reads_is_said_once_and_taken_back(client: httpx.Client) -> None:
    client.put("/v1/data_targets/red", json={"type": "redshift", "destination": "x"})
    client.put("/v1/consumer_groups/g", json={"data_target": "red"})
    path = "/v1/consumer_groups/g/data_sources"

    first = client.post(path, json={"namespace": "shopdb"}).json()
    again = client.post(path, json={"namespace": "shopdb"}).json()

    assert first == again
    assert (first["scope"], first["namespace"], first["table"], first["topic"]) == ("namespace", "shopdb", "", "")
    assert code_of(client.delete("/v1/data_targets/red")) == (409, "still_used")
    assert code_of(client.delete(f"{path}/99")) == (404, "unknown_data_source")
    assert client.delete(f"{path}/{first['id']}").json() == first
    assert items(client, path) == []
    client.post(path, json={"topic": "shopdb.shop.lines"})
    assert client.delete("/v1/consumer_groups/g").json()["name"] == "g"
    assert client.delete("/v1/data_targets/red").json()["name"] == "red"
    assert items(client, "/v1/data_targets") == items(client, "/v1/consumer_groups") == []
    assert [each["field"] for each in items(client, "/v1/history", kind="data_target")] == [
        "name",
        "destination",
        "type",
    ]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "invalid_request"),
        ({"namespace": "shopdb", "topic": "t"}, "invalid_request"),
        ({"namespace": "shopdb", "table_name": "orders"}, "invalid_request"),
        ({"namespace": "nowhere"}, "unknown_namespace"),
        ({"namespace": "shopdb", "table_schema": "shop", "table_name": "no"}, "unknown_source"),
        ({"topic": "no"}, "unknown_topic"),
    ],
)
def test_a_data_source_that_is_nothing_is_refused(client: httpx.Client, body: dict[str, str], code: str) -> None:
    client.put("/v1/data_targets/red", json={"type": "redshift", "destination": "x"})
    client.put("/v1/consumer_groups/g", json={"data_target": "red"})

    assert client.post("/v1/consumer_groups/g/data_sources", json=body).json()["code"] == code

    assert items(client, "/v1/consumer_groups/g/data_sources") == []
    assert code_of(client.put("/v1/consumer_groups/h", json={"data_target": "no"})) == (404, "unknown_data_target")
    assert client.put("/v1/data_targets/x", json={"type": "Red Shift", "destination": ""}).status_code == 422


@pytest.mark.parametrize("role", ["producer", "consumer"])
def test_a_client_is_made_with_an_owner_and_seen_on_topics(client: httpx.Client, role: str) -> None:
    path = f"/v1/{role}s/billing"
    assert code_of(client.put(path, json={"team": "payments"})) == (422, "owner_required")
    assert code_of(client.post(f"{path}/seen", json={"topic": "shopdb.shop.orders"})) == (404, f"unknown_{role}")
    body = {"owner_email": "ada@example.com", "team": "payments", "expected_frequency_seconds": 3600}

    made = client.put(path, json=body).json()
    seen = client.post(f"{path}/seen", json={"topic": "shopdb.shop.orders", "schema_id": 2}).json()

    assert made == {"name": "billing", "role": role, "created_at_ms": made["created_at_ms"], **body}
    assert (seen["topic"], seen["schema_id"], seen["is_late"]) == ("shopdb.shop.orders", 2, False)
    assert seen["client"] == made
    assert items(client, f"{path}/topics") == items(client, f"/v1/topics/shopdb.shop.orders/{role}s") == [seen]
    other = "producer" if role == "consumer" else "consumer"
    assert items(client, f"/v1/topics/shopdb.shop.orders/{other}s") == []
    assert items(client, f"/v1/{role}s", topic="shopdb.shop.orders", schema_id=2) == [made]
    assert items(client, f"/v1/{role}s", topic="shopdb.shop.lines") == items(client, f"/v1/{other}s") == []
    assert code_of(client.post(f"{path}/seen", json={"topic": "no"})) == (404, "unknown_topic")
    unknown = {"topic": "shopdb.shop.orders", "schema_id": 99}
    assert code_of(client.post(f"{path}/seen", json=unknown)) == (404, "unknown_schema")
    assert code_of(client.get("/v1/nothing")) == (404, "unknown_route")


def test_a_pair_that_was_seen_within_a_minute_is_not_written_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'seen.db'}"
    engine = create_engine(url)
    with served(url) as client:
        register(client, "shopdb")
        body = {"owner_email": "ada@example.com", "expected_frequency_seconds": 30}
        client.put("/v1/consumers/billing", json=body)
        on = {"topic": "shopdb.shop.orders"}
        first = client.post("/v1/consumers/billing/seen", json=on).json()

        def age(milliseconds: int) -> None:
            with engine.begin() as connection:
                since = first["last_seen_at_ms"] - milliseconds
                connection.execute(text("UPDATE client_uses SET last_seen_at_ms = :since"), {"since": since})

        age(50_000)
        within = client.post("/v1/consumers/billing/seen", json=on).json()
        age(70_000)
        late = items(client, "/v1/consumers/billing/topics")
        unseen = items(client, "/v1/topics/shopdb.shop.orders/consumers", unseen_since=first["last_seen_at_ms"])
        after = client.post("/v1/consumers/billing/seen", json=on).json()

    engine.dispose()
    assert within["last_seen_at_ms"] == first["last_seen_at_ms"] - 50_000
    assert [each["is_late"] for each in late] == [True]
    assert unseen == late
    assert after["last_seen_at_ms"] >= first["last_seen_at_ms"]
    assert after["is_late"] is False


def test_meta_attributes_hold_for_what_is_below(client: httpx.Client) -> None:
    orders = client.get("/v1/topics/shopdb.shop.orders/schemas?kind=value").json()["items"][0]["id"]
    key = client.get("/v1/topics/shopdb.shop.orders/schemas?kind=key").json()["items"][0]["id"]
    lines = client.get("/v1/topics/shopdb.shop.lines/schemas?kind=value").json()["items"][0]["id"]
    paths = {
        "namespace": "/v1/namespaces/shopdb/meta_attributes",
        "source": "/v1/sources/shopdb/shop/orders/meta_attributes",
        "schema": f"/v1/schemas/{orders}/meta_attributes",
    }

    for scope, path in paths.items():
        for _ in range(2):
            given = client.post(path, json={"schema_id": lines if scope != "source" else key})
            assert given.status_code == 200, given.text

    def told(path: str) -> list[tuple[object, object]]:
        return [(each["scope"], each["schema_id"]) for each in items(client, path)]

    assert told(paths["schema"]) == [("namespace", lines), ("source", key), ("schema", lines)]
    assert told(paths["source"]) == [("namespace", lines), ("source", key)]
    assert told(f"/v1/schemas/{lines}/meta_attributes") == [("namespace", lines)]
    assert told("/v1/sources/other/shop/orders/meta_attributes") == []
    assert code_of(client.delete(f"{paths['source']}/{lines}")) == (404, "unknown_meta_attribute")
    assert client.delete(f"{paths['source']}/{key}").json()["table"] == "shop.orders"
    assert client.delete(f"{paths['namespace']}/{lines}").status_code == 200
    assert client.delete(f"{paths['schema']}/{lines}").status_code == 200
    assert told(paths["schema"]) == []
    assert code_of(client.post(paths["namespace"], json={"schema_id": 999})) == (404, "unknown_schema")
    changes = items(client, "/v1/history", field="meta_attribute", kind="source")
    assert [(each["before"], each["after"]) for each in changes] == [(str(key), ""), ("", str(key))]

"""Avro that is no table's, compatibility checks, statuses of schemas and facts of topics, over HTTP in this process."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import create_engine, text
from tests.unit.schematizer.served import served
from tests.unit.schematizer.test_documentation import items
from tests.unit.schematizer.test_schematizer_app import ORDERS, register

from penstock.core.avro.schemas import value_schema
from penstock.schematizer.storage.models import Model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

FIELDS: list[dict[str, object]] = [
    {"name": "page", "type": "string", "doc": "Its path"},
    {"name": "at", "type": {"type": "record", "name": "At", "fields": [{"name": "x", "type": "int"}]}},
]
CLICK = {"type": "record", "name": "Click", "doc": "One click", "fields": FIELDS}
KEY = {"type": "record", "name": "K", "fields": [{"name": "page", "type": "string"}]}
ORDERS_SQL = "CREATE TABLE shop.orders (id bigint PRIMARY KEY, note {note})"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'checks.db'}"


@pytest.fixture
def client(url: str) -> Iterator[httpx.Client]:
    with served(url) as opened:
        yield opened


def avro(value: object = CLICK, **more: object) -> dict[str, object]:
    body = {"namespace": "site", "table_schema": "web", "table_name": "clicks", "value_schema": json.dumps(value)}
    return body | more


def with_field(name: str, type_: object, **more: object) -> dict[str, object]:
    return {**CLICK, "fields": [*FIELDS, {"name": name, "type": type_, **more}]}


def test_avro_of_no_table_is_registered_documented_and_held_to_the_topic_rule(client: httpx.Client) -> None:
    first = client.post("/v1/schemas/avro", json=avro(key_schema=json.dumps(KEY), owner_email="a@b.example")).json()
    again = client.post("/v1/schemas/avro", json=avro(key_schema=json.dumps(KEY))).json()
    more = avro(with_field("agent", ["null", "string"], default=None), key_schema=json.dumps(KEY))
    wider = client.post("/v1/schemas/avro", json=more).json()
    other = client.post("/v1/schemas/avro", json=avro(with_field("agent", "int"), key_schema=json.dumps(KEY))).json()

    assert first == again
    assert (first["topic"], first["follows"]) == ("site.web.clicks", "")
    assert wider["topic"] == "site.web.clicks"
    assert (other["topic"], other["follows"]) == ("site.web.clicks.v2", "site.web.clicks")
    source = client.get("/v1/sources/site/web/clicks").json()
    assert (source["owner_email"], source["doc"]) == ("a@b.example", "One click")
    elements = items(client, "/v1/sources/site/web/clicks/elements")
    assert [(each["name"], each["type"], each["is_key"], each["doc"]) for each in elements] == [
        ("page", "string", True, "Its path"),
        ("at", "record At", False, ""),
        ("at.x", "int", False, ""),
        ("agent", "int", False, ""),
    ]
    assert client.get("/v1/topics/site.web.clicks").json()["key_fields"] == ["page"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (avro({"type": "nothing"}), "invalid_schema"),
        (avro(key_schema="{"), "invalid_schema"),
        (avro(json.loads(value_schema(ORDERS))), "invalid_schema"),
        (avro(table_name="x" * 300), "invalid_table"),
        (avro(with_field("f" * 300, "int")), "invalid_schema"),
        (avro(base_schema_id=99), "unknown_schema"),
        (avro(partitions=0), "invalid_request"),
    ],
)
def test_avro_that_cannot_be_registered_is_refused_whole(
    client: httpx.Client, body: dict[str, object], code: str
) -> None:
    assert client.post("/v1/schemas/avro", json=body).json()["code"] == code
    assert client.post("/v1/compatibility/schemas/avro", json=body).json()["code"] == code
    assert items(client, "/v1/sources") == []


def everything(url: str) -> list[object]:
    engine = create_engine(url)
    with engine.connect() as connection:
        rows = [connection.execute(text(f"SELECT * FROM {table}")).all() for table in Model.metadata.tables]
    engine.dispose()
    return list(rows)


def test_a_check_tells_every_reason_field_by_field_and_writes_nothing(client: httpx.Client, url: str) -> None:
    value_id = register(client, "shopdb").json()["value_schema_id"]
    before = everything(url)

    def check(sql: str, dialect: str = "mysql", **more: object) -> dict[str, object]:
        body = {"namespace": "shopdb", "create_table": sql, **more}
        answer = client.post(f"/v1/compatibility/schemas/{dialect}", json=body)
        assert answer.status_code == 200, answer.text
        verdict: dict[str, object] = answer.json()
        return verdict

    same = check(ORDERS_SQL.format(note="varchar(64)"))
    number = check(ORDERS_SQL.format(note="bigint"), contains_pii=True)
    new = check("CREATE TABLE shop.new (id int)")

    assert same == {"is_known": True, "stays": True, "topic": "shopdb.shop.orders", "problems": []}
    assert new == {"is_known": False, "stays": False, "topic": "", "problems": []}
    assert (number["is_known"], number["stays"]) == (False, False)
    schema = {"version": 1, "schema_id": value_id}
    assert number["problems"] == [
        {
            "kind": "pii",
            "field": "",
            "reason": "only one of both contains personal data",
            "version": None,
            "schema_id": None,
        },
        {"kind": "backward", "field": "before.note", "reason": "string is not readable as union of null and long"}
        | schema,
        {"kind": "forward", "field": "before.note", "reason": "long is not readable as union of null and string"}
        | schema,
    ]
    assert everything(url) == before


def test_what_a_check_says_is_what_a_registration_does(client: httpx.Client) -> None:
    register(client, "shopdb")
    for note in ("varchar(99)", "int", "text COMMENT 'x'", "varchar(64) NOT NULL DEFAULT 'x'"):
        body = {"namespace": "shopdb", "create_table": ORDERS_SQL.format(note=note)}
        verdict = client.post("/v1/compatibility/schemas/mysql", json=body).json()

        registered = client.post("/v1/schemas/mysql", json=body).json()

        assert verdict["stays"] == (registered["topic"] == verdict["topic"]), note


def test_a_schemas_status_decides_where_its_table_goes(client: httpx.Client) -> None:
    first = register(client, "shopdb").json()
    path = f"/v1/topics/{first['topic']}/schemas/{first['value_schema_id']}/status"

    told = client.put(path, json={"status": "read_only"}, headers={"X-Penstock-Author": "Ada"}).json()

    assert told["status"] == "read_only"
    assert client.get(f"/subjects/{first['topic']}-value/versions").json() == [1]
    verdict = client.post(
        "/v1/compatibility/schemas/mysql",
        json={"namespace": "shopdb", "create_table": ORDERS_SQL.format(note="varchar(64)")},
    ).json()
    assert [(each["kind"], each["reason"]) for each in verdict["problems"]] == [
        ("status", "its schema is read only there")
    ]
    # What is read only is still compared with; what is disabled is not.
    number = {"namespace": "shopdb", "create_table": ORDERS_SQL.format(note="int")}
    assert not client.post("/v1/compatibility/schemas/mysql", json=number).json()["stays"]
    client.put(path, json={"status": "disabled"})
    assert client.post("/v1/compatibility/schemas/mysql", json=number).json()["stays"]
    assert client.get(f"/subjects/{first['topic']}-value/versions").status_code == 404
    client.put(path, json={"status": "read_and_write"})
    assert register(client, "shopdb").json() == first
    changes = items(client, "/v1/history", kind="schema", entity=first["value_schema_id"])
    assert [(each["author"], each["before"], each["after"]) for each in changes][-1] == (
        "Ada",
        "read_and_write",
        "read_only",
    )


def test_only_a_status_that_people_set_is_taken_and_only_of_a_value(client: httpx.Client) -> None:
    first = register(client, "shopdb").json()
    topic = f"/v1/topics/{first['topic']}/schemas"

    assert client.put(f"{topic}/{first['value_schema_id']}/status", json={"status": "deleted"}).status_code == 422
    for schema_id in (first["key_schema_id"], 99, 1 << 70, -7):
        refused = client.put(f"{topic}/{schema_id}/status", json={"status": "disabled"})
        assert (refused.status_code, refused.json()["code"]) == (404, "unknown_schema")


def test_facts_of_a_topic_are_set_and_filtered(client: httpx.Client) -> None:
    register(client, "shopdb")
    path = "/v1/topics/shopdb.shop.orders"

    told = client.put(path, json={"partitions": 12, "compacted": True, "cluster_type": "datapipe"}).json()

    assert (told["partitions"], told["compacted"], told["cluster_type"]) == (12, True, "datapipe")
    assert client.get(path).json() == told
    changes = items(client, "/v1/history", kind="topic", entity="shopdb.shop.orders")
    assert [(each["field"], each["after"]) for each in changes] == [
        ("compacted", "true"),
        ("partitions", "12"),
        ("cluster_type", "datapipe"),
    ]
    assert items(client, "/v1/topics", created_after=told["created_at_ms"]) == []
    assert items(client, "/v1/topics", created_after=told["created_at_ms"] - 1) == [told]
    assert client.put("/v1/topics/no", json={}).json()["code"] == "unknown_topic"


def test_a_column_type_that_changes_is_told_by_every_version(client: httpx.Client) -> None:
    register(client, "shopdb")
    register(client, "shopdb", replace(ORDERS, comment="another text"))

    body = {"namespace": "shopdb", "create_table": ORDERS_SQL.format(note="double")}
    problems = client.post("/v1/compatibility/schemas/mysql", json=body).json()["problems"]

    assert {(each["version"], each["kind"], each["field"]) for each in problems} == {
        (version, kind, "before.note") for version in (1, 2) for kind in ("backward", "forward")
    }


def in_group(schema: str, major: str) -> dict[str, object]:
    return {"schema": json.dumps(schema), "metadata": {"properties": {"major": major}}}


def test_a_check_compares_with_the_group_that_a_registration_would_be_in(client: httpx.Client) -> None:
    client.put("/config", json={"compatibilityGroup": "major"}).raise_for_status()
    client.post("/subjects/inherits/versions", json=in_group("int", "1")).raise_for_status()
    client.post("/subjects/changes/versions", json={"schema": '"int"'}).raise_for_status()
    client.post("/subjects/changes/versions", json=in_group("string", "2")).raise_for_status()

    for subject, schema, is_compatible in (("inherits", '"string"', False), ("changes", '"bytes"', True)):
        tried = client.post(f"/compatibility/subjects/{subject}/versions", json={"schema": schema}).json()
        tried_on_one = client.post(f"/compatibility/subjects/{subject}/versions/latest", json={"schema": schema}).json()
        registered = client.post(f"/subjects/{subject}/versions", json={"schema": schema})

        assert tried["is_compatible"] is tried_on_one["is_compatible"] is is_compatible, subject
        assert registered.status_code == (200 if is_compatible else 409), subject

    of_another_group = client.post("/compatibility/subjects/changes/versions/1", json=in_group("string", "2"))
    assert of_another_group.json() == {"is_compatible": True}

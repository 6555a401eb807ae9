"""JSON Schema and Protobuf in Confluent's face, as any HTTP client sees them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.schematizer.formats import protobuf_compiler
from penstock.schematizer.formats.protobuf_schemas import compile_schema
from penstock.schematizer.formats.schema_types import parse_text, plain_text

if TYPE_CHECKING:
    import httpx

ORDER = 'syntax = "proto3";\n// An order\nmessage Order { int32 id = 1; }\n'


def register(client: httpx.Client, subject: str, text: str, kind: str = "PROTOBUF", **more: object) -> httpx.Response:
    return client.post(f"/subjects/{subject}/versions", json={"schema": text, "schemaType": kind, **more})


def test_what_is_known_is_not_compiled_again(registry: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    use = [{"name": "order.proto", "subject": "orders", "version": 1}]
    basket = 'syntax = "proto3"; import "order.proto"; message Basket { repeated Order orders = 1; }'
    ids = [
        register(registry, "orders", ORDER).json()["id"],
        register(registry, "b", basket, references=use).json()["id"],
    ]
    descriptor = base64.b64encode(compile_schema(ORDER, {}).descriptor).decode()
    parse_text.cache_clear()
    plain_text.cache_clear()
    monkeypatch.setattr(protobuf_compiler, "_PROGRAM", Path("/nowhere"))

    assert register(registry, "orders", ORDER).json()["id"] == ids[0]
    assert register(registry, "orders", descriptor).json()["id"] == ids[0]
    assert register(registry, "b", basket, references=use).json()["id"] == ids[1]
    assert registry.get(f"/schemas/ids/{ids[1]}", params={"format": "serialized"}).json()["schema"] > ""
    assert register(registry, "orders", ORDER.replace("id", "number")).json()["error_code"] == 42201


def test_a_schema_is_answered_in_the_format_that_was_sent_or_asked_for(registry: httpx.Client) -> None:
    descriptor = base64.b64encode(compile_schema(ORDER, {}).descriptor).decode()

    sent = register(registry, "orders", descriptor).json()
    text = registry.get("/subjects/orders/versions/1/schema").text

    assert sent["schema"] == descriptor
    assert text == 'syntax = "proto3";\nmessage Order {\n  int32 id = 1;\n}\n'
    assert registry.get("/subjects/orders/versions/1/schema", params={"format": "serialized"}).text == descriptor
    assert registry.post("/subjects/orders", json={"schema": ORDER, "schemaType": "PROTOBUF"}).json()["schema"] == text


def test_compatibility_is_tried_with_every_reason(registry: httpx.Client) -> None:
    register(registry, "orders", ORDER)
    body = {"schema": 'syntax = "proto3"; message Order { string id = 1; reserved 2; }', "schemaType": "PROTOBUF"}

    tried = registry.post("/compatibility/subjects/orders/versions/latest", params={"verbose": True}, json=body)
    refused = register(registry, "orders", body["schema"])

    assert tried.json() == {
        "is_compatible": False,
        "messages": ["new reads old: Order.id: int32 is not readable as string"],
    }
    assert (refused.status_code, refused.json()["error_code"]) == (409, 409)


@pytest.mark.parametrize(
    ("kind", "text", "place"),
    [
        ("JSON", '{"type": 7}', "at $.type"),
        ("JSON", '{\n"type": }', "line 2, column 9"),
        ("JSON", '{"$ref": "#"}', "at $: it refers to itself"),
        ("PROTOBUF", "message {}", "line 1, column 9"),
        ("PROTOBUF", "AAAA", "line 1, column 1"),
        ("JSON", "[" * 20_000, "nested too deeply"),
    ],
)
def test_what_is_no_schema_is_refused_with_the_place(
    registry: httpx.Client, kind: str, text: str, place: str
) -> None:  # fmt: skip
    refused = register(registry, "wrong", text, kind)

    assert (refused.status_code, refused.json()["error_code"]) == (422, 42201)
    assert place in refused.json()["message"]
    assert registry.get("/subjects").json() == []


def test_elements_are_told_of_avro_alone(registry: httpx.Client) -> None:
    for kind, text in (("PROTOBUF", ORDER), ("JSON", '{"properties": {"a": {}}}')):
        schema_id = register(registry, kind, text, kind).json()["id"]

        assert registry.get(f"/v1/schemas/{schema_id}/elements").json()["items"] == []
        assert registry.post("/v1/notes", json={"schema_id": schema_id, "text": "Old"}).status_code == 200


def test_references_of_json_schemas_go_by_the_names_that_the_schema_gives_them(registry: httpx.Client) -> None:
    register(registry, "cities", '{"type": "string"}', "JSON")
    uses = [{"name": "http://shop/city.json", "subject": "cities", "version": 1}]
    text = '{"properties": {"home": {"$ref": "http://shop/city.json"}}}'

    missing = register(registry, "people", text, "JSON")
    found = register(registry, "people", text, "JSON", references=uses)
    other = register(registry, "people", text.replace("home", "house"), "JSON", references=uses)

    assert 'at $.properties.home: there is nothing that "$ref"' in missing.json()["message"]
    assert found.json()["references"] == uses
    assert "$.house" in other.json()["message"]

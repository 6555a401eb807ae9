"""Unmodified Confluent clients against the running service."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

from penstock.adapters.registry.client import HttpRegistry
from penstock.core.tables import Column, IntegerType, TableId, TableSchema

if TYPE_CHECKING:
    from collections.abc import Iterator

USER = {
    "type": "record",
    "name": "User",
    "fields": [{"name": "name", "type": "string"}, {"name": "age", "type": ["null", "int"], "default": None}],
}
NEWER = {**USER, "fields": [*USER["fields"], {"name": "city", "type": "string", "default": "?"}]}
NARROWER = {"type": "record", "name": "User", "fields": [{"name": "name", "type": "int"}]}
ORDERS = TableSchema(
    TableId("shop", "orders"), (Column("id", IntegerType(64, unsigned=False), nullable=False),), ("id",)
)


@pytest.fixture
def client(schematizer: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": schematizer, "max.retries": 0}) as opened:
        yield opened


def schema(declared: object) -> Schema:
    return Schema(json.dumps(declared), "AVRO")


def test_a_value_goes_through_serializer_and_deserializer_with_their_defaults(client: SchemaRegistryClient) -> None:
    serialize = AvroSerializer(client, json.dumps(USER))
    deserialize = AvroDeserializer(client)
    context = SerializationContext("users", MessageField.VALUE)

    encoded = serialize({"name": "Ada", "age": 36}, context)

    assert encoded is not None
    assert int.from_bytes(encoded[1:5], "big") == client.get_latest_version("users-value").schema_id
    assert deserialize(encoded, context) == {"name": "Ada", "age": 36}


def test_an_older_reader_reads_what_a_newer_writer_wrote(client: SchemaRegistryClient) -> None:
    context = SerializationContext("evolving", MessageField.VALUE)
    old = AvroSerializer(client, json.dumps(USER))({"name": "Ada"}, context)
    new = AvroSerializer(client, json.dumps(NEWER))({"name": "Bob", "city": "Rome"}, context)
    deserialize = AvroDeserializer(client, json.dumps(USER))

    assert [deserialize(each, context) for each in (old, new)] == [
        {"name": "Ada", "age": None},
        {"name": "Bob", "age": None},
    ]


def test_a_serializer_that_must_not_register_finds_what_is_registered(client: SchemaRegistryClient) -> None:
    context = SerializationContext("fixed", MessageField.KEY)
    strict = AvroSerializer(client, json.dumps(USER), conf={"auto.register.schemas": False})
    with pytest.raises(SchemaRegistryError) as caught:
        strict({"name": "Ada"}, context)
    assert caught.value.error_code == 40401
    schema_id = client.register_schema("fixed-key", schema(USER))

    encoded = strict({"name": "Ada"}, context)

    assert encoded is not None
    assert int.from_bytes(encoded[1:5], "big") == schema_id


def test_a_serializer_takes_the_latest_version_where_it_is_told_to(client: SchemaRegistryClient) -> None:
    schema_id = client.register_schema("latest-value", schema(USER))
    serialize = AvroSerializer(client, None, conf={"auto.register.schemas": False, "use.latest.version": True})

    encoded = serialize({"name": "Ada", "age": 1}, SerializationContext("latest", MessageField.VALUE))

    assert encoded is not None
    assert int.from_bytes(encoded[1:5], "big") == schema_id


def test_a_table_that_we_registered_is_read_by_their_client(client: SchemaRegistryClient, schematizer: str) -> None:
    registry = HttpRegistry(schematizer)

    registered = registry.register("confluent", ORDERS)

    assert registered.key_schema_id is not None
    assert client.get_schema(registered.value_schema_id).schema_str == registry.value_schema(registered.value_schema_id)
    assert client.get_versions("confluent.shop.orders-value") == [1]
    assert client.get_latest_version("confluent.shop.orders-key").schema_id == registered.key_schema_id
    key = AvroSerializer(client, client.get_schema(registered.key_schema_id).schema_str)
    context = SerializationContext("confluent.shop.orders", MessageField.KEY)
    encoded = key({"id": 7}, context)
    assert encoded is not None
    assert int.from_bytes(encoded[1:5], "big") == registered.key_schema_id
    assert AvroDeserializer(client)(encoded, context) == {"id": 7}


def test_their_other_calls_are_answered(client: SchemaRegistryClient) -> None:
    mine, newer = {**USER, "name": "Caller"}, {**NEWER, "name": "Caller"}
    schema_id = client.register_schema("calls-value", schema(mine))
    registered = client.lookup_schema("calls-value", schema(mine))

    assert (registered.schema_id, registered.version) == (schema_id, 1)
    assert client.get_schema(schema_id, "calls-value").schema_str == json.dumps(mine)
    assert client.get_schema_types() == ["AVRO", "JSON", "PROTOBUF"]
    assert client.get_subjects_by_schema_id(schema_id) == ["calls-value"]
    assert [(place.subject, place.version) for place in client.get_schema_versions(schema_id)] == [("calls-value", 1)]
    assert "calls-value" in client.get_subjects()
    assert client.get_version("calls-value", 1).schema_id == schema_id
    assert client.get_global_mode() == "READWRITE"
    assert client.test_compatibility("calls-value", schema(newer)) is True
    assert client.test_compatibility("calls-value", schema(NARROWER), verbose=True) is False
    client.set_compatibility("calls-value", "FULL")
    assert client.get_compatibility("calls-value") == "FULL"
    assert client.get_compatibility() == "BACKWARD"


def test_their_errors_carry_our_numbers(client: SchemaRegistryClient) -> None:
    client.register_schema("errors-value", schema(USER))

    with pytest.raises(SchemaRegistryError) as incompatible:
        client.register_schema("errors-value", schema(NARROWER))
    with pytest.raises(SchemaRegistryError) as unknown:
        client.get_schema(999_999)
    with pytest.raises(SchemaRegistryError) as invalid:
        client.register_schema("errors-value", Schema("{", "AVRO"))

    assert (incompatible.value.http_status_code, incompatible.value.error_code) == (409, 409)
    assert (unknown.value.http_status_code, unknown.value.error_code) == (404, 40403)
    assert (invalid.value.http_status_code, invalid.value.error_code) == (422, 42201)

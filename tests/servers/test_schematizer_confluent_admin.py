"""Confluent's administrative calls against the running service."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.schema_registry import (
    Metadata,
    MetadataProperties,
    Rule,
    RuleKind,
    RuleMode,
    RuleSet,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

if TYPE_CHECKING:
    from collections.abc import Iterator

ADDRESS = {"type": "record", "name": "shop.Address", "fields": [{"name": "city", "type": "string"}]}
CUSTOMER = {"type": "record", "name": "shop.Customer", "fields": [{"name": "home", "type": "shop.Address"}]}


@pytest.fixture
def client(schematizer: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": schematizer, "max.retries": 0}) as opened:
        yield opened


def fresh(client: SchemaRegistryClient) -> SchemaRegistryClient:
    """The client, which no longer remembers what it was told."""
    client.clear_caches()  # type: ignore[no-untyped-call]
    return client


def number(*names: str) -> Schema:
    declared = {"type": "record", "name": names[0], "fields": [{"name": each, "type": "int"} for each in names[1:]]}
    return Schema(json.dumps(declared), "AVRO")


def test_a_value_with_a_referenced_type_goes_through_serializer_and_deserializer(client: SchemaRegistryClient) -> None:
    client.register_schema("ref-address", Schema(json.dumps(ADDRESS), "AVRO"))
    uses = [SchemaReference("shop.Address", "ref-address", 1)]
    serialize = AvroSerializer(client, Schema(json.dumps(CUSTOMER), "AVRO", uses))
    context = SerializationContext("ref-customers", MessageField.VALUE)

    encoded = serialize({"home": {"city": "Rome"}}, context)

    assert encoded is not None
    assert AvroDeserializer(fresh(client))(encoded, context) == {"home": {"city": "Rome"}}
    schema_id = client.get_latest_version("ref-customers-value").schema_id
    assert client.get_referenced_by("ref-address", 1) == [schema_id]
    with pytest.raises(SchemaRegistryError) as refused:
        client.delete_version("ref-address", 1)
    assert (refused.value.http_status_code, refused.value.error_code) == (422, 42206)


def test_their_deletions_are_done_softly_and_for_ever(client: SchemaRegistryClient) -> None:
    schema_id = client.register_schema("del-value", number("Deleted", "a"))

    assert client.delete_version("del-value", 1) == 1
    assert client.get_versions("del-value", deleted=True) == [1]
    assert "del-value" in client.get_subjects(deleted_only=True)
    assert client.delete_subject("del-value", permanent=True) == [1]
    with pytest.raises(SchemaRegistryError) as unknown:
        fresh(client).get_schema(schema_id)
    assert unknown.value.error_code == 40403


def test_a_guid_is_in_their_answers_and_finds_the_schema(client: SchemaRegistryClient) -> None:
    registered = client.register_schema_full_response("guid-value", number("Guided", "a"))

    assert registered.guid is not None
    assert fresh(client).get_schema_by_guid(registered.guid).schema_str == number("Guided", "a").schema_str
    assert client.get_version("guid-value", 1).guid == registered.guid


def test_metadata_and_rules_come_back_as_they_went(client: SchemaRegistryClient) -> None:
    kind, mode = RuleKind.CONDITION, RuleMode.WRITE
    rule = Rule("positive", None, kind, mode, "CEL", None, None, "message.a > 0", None, None, disabled=False)
    schema = number("Ruled", "a")
    rich = Schema(
        schema.schema_str,
        "AVRO",
        [],
        Metadata(None, MetadataProperties({"owner": "ada"}), None),
        RuleSet(None, [rule]),
    )
    schema_id = client.register_schema("rules-value", rich)

    found = fresh(client).get_schema(schema_id)

    assert found.metadata is not None
    assert found.metadata.properties == MetadataProperties({"owner": "ada"})
    assert found.rule_set is not None
    assert found.rule_set.domain_rules == [rule]
    assert client.get_latest_with_metadata("rules-value", {"owner": "ada"}).schema_id == schema_id
    assert client.lookup_schema("rules-value", schema).schema_id == schema_id


def test_their_settings_are_set_and_taken_back(client: SchemaRegistryClient) -> None:
    client.register_schema("set-value", number("Set", "a"))
    client.set_compatibility("set-value", "FORWARD_TRANSITIVE")

    assert client.update_mode("set-value", "READONLY") == "READONLY"
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema("set-value", number("Set", "a", "b"))
    assert refused.value.error_code == 42205
    assert client.get_mode("set-value") == client.delete_mode("set-value") == "READONLY"
    assert client.get_compatibility("set-value") == "FORWARD_TRANSITIVE"
    client.delete_config("set-value")
    with pytest.raises(SchemaRegistryError) as none:
        client.get_config("set-value")
    assert none.value.error_code == 40408
    assert client.test_compatibility_all_versions("set-value", number("Set", "a")) is True


def test_a_client_may_live_in_a_context(client: SchemaRegistryClient, schematizer: str) -> None:
    with SchemaRegistryClient({"url": f"{schematizer}/contexts/.lab", "max.retries": 0}) as inside:
        schema_id = inside.register_schema("lab-value", number("InLab", "a"))

        assert inside.get_versions("lab-value") == [1]
        assert inside.get_subjects() == [":.lab:lab-value"]
        assert inside.get_schema(schema_id).schema_str == number("InLab", "a").schema_str
    assert ".lab" in client.get_contexts()
    assert "lab-value" not in client.get_subjects()

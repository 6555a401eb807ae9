"""Confluent's JSON Schema serializers against the running service."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
    topic_subject_name_strategy,
)
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError

if TYPE_CHECKING:
    from collections.abc import Iterator

CITY = {
    "title": "City",
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "additionalProperties": False,
}
CUSTOMER = {"title": "Customer", "type": "object", "properties": {"home": {"$ref": "city.json"}}}


@pytest.fixture
def client(schematizer: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": schematizer, "max.retries": 0}) as opened:
        yield opened


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        (None, "json-{}-value"),
        (topic_subject_name_strategy, "json-{}-value"),
        (record_subject_name_strategy, "City"),
        (topic_record_subject_name_strategy, "json-{}-City"),
    ],
)
@pytest.mark.parametrize("normalize", [False, True])
def test_a_value_goes_through_serializer_and_deserializer(
    client: SchemaRegistryClient, strategy: Any, subject: str, normalize: bool  # noqa: ANN401, FBT001 - theirs
) -> None:  # fmt: skip
    topic = f"{getattr(strategy, '__name__', 'default')}-{normalize}"
    context = SerializationContext(f"json-{topic}", MessageField.VALUE)
    conf = {"normalize.schemas": normalize, **({"subject.name.strategy": strategy} if strategy else {})}

    encoded = JSONSerializer(json.dumps(CITY), client, conf=conf)({"name": "Rome"}, context)

    assert JSONDeserializer(None, schema_registry_client=client)(encoded, context) == {"name": "Rome"}
    found = client.get_latest_version(subject.format(topic)).schema
    assert (found.schema_type, json.loads(str(found.schema_str))) == ("JSON", CITY)


def test_a_value_with_a_referenced_schema_goes_through(client: SchemaRegistryClient) -> None:
    client.register_schema("json-city", Schema(json.dumps(CITY), "JSON"))
    schema = Schema(json.dumps(CUSTOMER), "JSON", [SchemaReference("city.json", "json-city", 1)])
    context = SerializationContext("json-customers", MessageField.VALUE)

    encoded = JSONSerializer(schema, client)({"home": {"name": "Rome"}}, context)
    with pytest.raises(SerializationError):
        JSONSerializer(schema, client)({"home": {"name": 7}}, context)

    assert JSONDeserializer(None, schema_registry_client=client)(encoded, context) == {"home": {"name": "Rome"}}
    assert len(client.get_referenced_by("json-city", 1)) == 1


def test_a_serializer_uses_the_newest_version_where_it_is_told_to(client: SchemaRegistryClient) -> None:
    schema_id = client.register_schema("json-newest-value", Schema(json.dumps(CITY), "JSON"))
    conf = {"auto.register.schemas": False, "use.latest.version": True}
    context = SerializationContext("json-newest", MessageField.VALUE)

    encoded = JSONSerializer(None, client, conf=conf)({"name": "Rome"}, context)

    assert encoded is not None
    assert int.from_bytes(encoded[1:5], "big") == schema_id
    newest = JSONDeserializer(None, schema_registry_client=client, conf={"use.latest.version": True})
    assert newest(encoded, context) == {"name": "Rome"}


def test_what_cannot_be_read_any_more_is_refused_with_every_reason(client: SchemaRegistryClient) -> None:
    client.register_schema("json-narrow", Schema(json.dumps(CITY), "JSON"))
    narrower = {**CITY, "properties": {"name": {"type": "integer"}}, "required": ["name"]}

    with pytest.raises(SchemaRegistryError, match=r"\$\.name: the property is .*; .*\$\.name: string is") as refused:
        client.register_schema("json-narrow", Schema(json.dumps(narrower), "JSON"))
    with pytest.raises(SchemaRegistryError, match="different types"):
        client.register_schema("json-narrow", Schema('"string"', "AVRO"))
    with pytest.raises(SchemaRegistryError, match=r"at \$\.type") as invalid:
        client.register_schema("json-new", Schema('{"type": "objet"}', "JSON"))

    assert refused.value.error_code == 409
    assert invalid.value.error_code == 42201
    assert client.get_versions("json-narrow") == [1]

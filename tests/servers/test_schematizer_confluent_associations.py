"""Confluent's serializers ask for a topic's associations first."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.schema_registry import AsyncSchemaRegistryClient, Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AsyncAvroSerializer, AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.common.schema_registry_client import (
    AssociationCreateOrUpdateInfo,
    AssociationCreateOrUpdateRequest,
)
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError

if TYPE_CHECKING:
    from collections.abc import Iterator

USER = json.dumps({"type": "record", "name": "Member", "fields": [{"name": "name", "type": "string"}]})


@pytest.fixture
def client(schematizer: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": schematizer, "max.retries": 0}) as opened:
        yield opened


def associate(client: SchemaRegistryClient, topic: str, subject: str, namespace: str = "lkc-1") -> None:
    client.register_schema(subject, Schema(USER, "AVRO"))
    association = AssociationCreateOrUpdateInfo(subject, "value", "WEAK")
    name = f"{topic}-in-{namespace}"
    client.create_association(AssociationCreateOrUpdateRequest(topic, namespace, name, "topic", [association]))


def subject_of(client: SchemaRegistryClient, encoded: object) -> list[str]:
    assert isinstance(encoded, bytes)
    return client.get_subjects_by_schema_id(int.from_bytes(encoded[1:5], "big"))


def test_a_value_goes_by_the_subject_that_its_topic_is_associated_with(client: SchemaRegistryClient) -> None:
    associate(client, "members", "everybody")
    context = SerializationContext("members", MessageField.VALUE)

    encoded = AvroSerializer(client, USER)({"name": "Ada"}, context)

    assert "everybody" in subject_of(client, encoded)
    assert "members-value" not in client.get_subjects()
    assert AvroDeserializer(client)(encoded, context) == {"name": "Ada"}


def test_the_cluster_may_be_said(client: SchemaRegistryClient) -> None:
    for namespace in ("lkc-1", "lkc-2"):
        associate(client, "twice", f"of-{namespace}", namespace)
    context = SerializationContext("twice", MessageField.VALUE)
    conf = {"subject.name.strategy.kafka.cluster.id": "lkc-2"}

    AvroSerializer(client, USER, conf={"subject.name.strategy.conf": conf})({"name": "Ada"}, context)

    with pytest.raises(SerializationError, match="Multiple associated subjects"):
        AvroSerializer(client, USER)({"name": "Ada"}, context)


def test_a_topic_without_associations_goes_by_its_name_unless_that_is_ruled_out(client: SchemaRegistryClient) -> None:
    context = SerializationContext("strangers", MessageField.VALUE)
    conf = {"subject.name.strategy.conf": {"subject.name.strategy.fallback.type": "NONE"}}
    with pytest.raises(SerializationError, match="No associated subject"):
        AvroSerializer(client, USER, conf=conf)({"name": "Ada"}, context)

    AvroSerializer(client, USER)({"name": "Ada"}, context)

    assert client.get_versions("strangers-value") == [1]


def test_the_asynchronous_serializer_asks_as_well(client: SchemaRegistryClient, schematizer: str) -> None:
    associate(client, "async-members", "async-everybody")

    async def encode() -> object:
        async with AsyncSchemaRegistryClient({"url": schematizer, "max.retries": 0}) as opened:
            serialize = await AsyncAvroSerializer(opened, USER)
            return await serialize({"name": "Ada"}, SerializationContext("async-members", MessageField.VALUE))

    assert "async-everybody" in subject_of(client, asyncio.run(encode()))

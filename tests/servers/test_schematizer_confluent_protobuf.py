"""Confluent's Protobuf serializers against the running service."""

from __future__ import annotations

import base64
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
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import any_pb2, descriptor_pb2, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from penstock.schematizer.formats.protobuf_schemas import compile_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

CITY = 'syntax = "proto3";\npackage shop;\nmessage City { string name = 1; map<string, int32> sizes = 2; }\n'
BUYER = """syntax = "proto3";
package shop;
import "shop/city.proto";
import "google/protobuf/timestamp.proto";
message Buyer {
  message Card { int32 number = 1; }
  City home = 1; // where she lives
  google.protobuf.Timestamp since = 2;
  oneof pay { Card card = 3; string cash = 4; }
  optional int32 age = 5;
}
"""


def classes() -> dict[str, Any]:
    """What protoc's Python code has: the classes of both files, in a pool of their own."""
    city = compile_schema(CITY, {}).descriptor
    buyer = compile_schema(BUYER, {"shop/city.proto": city}).descriptor
    pool = DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    for name, content in (("shop/city.proto", city), ("shop/buyer.proto", buyer)):
        pool.Add(renamed(name, content))
    return {
        name: GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}")) for name in ("City", "Buyer", "Buyer.Card")
    }


def renamed(name: str, content: bytes) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto.FromString(content)
    file.name = name
    return file


@pytest.fixture
def client(schematizer: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": schematizer, "max.retries": 0}) as opened:
        yield opened


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        (None, "proto-{}-value"),
        (topic_subject_name_strategy, "proto-{}-value"),
        (record_subject_name_strategy, "shop.Buyer"),
        (topic_record_subject_name_strategy, "proto-{}-shop.Buyer"),
    ],
)
@pytest.mark.parametrize("normalize", [False, True])
def test_a_value_with_imports_goes_through_serializer_and_deserializer(
    client: SchemaRegistryClient, strategy: Any, subject: str, normalize: bool  # noqa: ANN401, FBT001 - theirs
) -> None:  # fmt: skip
    buyer = classes()["Buyer"]
    topic = f"{getattr(strategy, '__name__', 'default')}-{normalize}"
    context = SerializationContext(f"proto-{topic}", MessageField.VALUE)
    conf = {"normalize.schemas": normalize, **({"subject.name.strategy": strategy} if strategy else {})}
    sent = buyer(home={"name": "Rome", "sizes": {"x": 1}}, since={"seconds": 7}, card={"number": 3}, age=0)

    encoded = ProtobufSerializer(buyer, client, conf)(sent, context)

    received = ProtobufDeserializer(buyer, {}, client)(encoded, context)
    assert received == sent
    found = client.get_latest_version(subject.format(topic))
    assert found.schema.schema_type == "PROTOBUF"
    assert [each.name for each in found.schema.references or []] == ["shop/city.proto"]


def test_a_serializer_uses_the_newest_version_where_it_is_told_to(client: SchemaRegistryClient) -> None:
    city = classes()["City"]
    context = SerializationContext("proto-cities", MessageField.KEY)
    first = ProtobufSerializer(city, client)(city(name="Rome"), context)
    conf = {"auto.register.schemas": False, "use.latest.version": True}

    latest = ProtobufSerializer(city, client, conf)(city(name="Rome"), context)

    assert first == latest
    assert ProtobufDeserializer(city, {"use.latest.version": True}, client)(latest, context) == city(name="Rome")


def test_a_message_within_a_message_goes_through(client: SchemaRegistryClient) -> None:
    card = classes()["Buyer.Card"]
    context = SerializationContext("proto-cards", MessageField.VALUE)

    encoded = ProtobufSerializer(card, client)(card(number=1), context)

    assert ProtobufDeserializer(card, {}, client)(encoded, context) == card(number=1)


def test_a_file_of_google_is_a_schema_like_others(client: SchemaRegistryClient) -> None:
    # Their deserializer cannot take its own file from a registry: it has it already.
    context = SerializationContext("proto-any", MessageField.VALUE)

    assert ProtobufSerializer(any_pb2.Any, client)(any_pb2.Any(), context)
    assert "message Any {" in str(client.get_latest_version("proto-any-value", fmt="").schema.schema_str)


def test_text_and_descriptor_are_one_schema(client: SchemaRegistryClient) -> None:
    plain = CITY.replace("City", "Town")
    text = f"// Where buyers live\n{plain}"
    schema_id = client.register_schema("proto-text", Schema(text, "PROTOBUF"))
    descriptor = base64.b64encode(compile_schema(plain, {}).descriptor).decode()

    assert client.register_schema("proto-text", Schema(descriptor, "PROTOBUF")) == schema_id
    client.clear_caches()  # type: ignore[no-untyped-call]
    assert client.get_schema(schema_id).schema_str == text
    client.clear_caches()  # type: ignore[no-untyped-call]
    assert client.get_schema(schema_id, fmt="serialized").schema_str == descriptor
    client.clear_caches()  # type: ignore[no-untyped-call]
    assert client.get_version("proto-text", 1, fmt="serialized").schema.schema_str == descriptor


def test_what_cannot_be_read_any_more_is_refused_with_every_reason(client: SchemaRegistryClient) -> None:
    client.register_schema("proto-narrow", Schema(CITY, "PROTOBUF"))
    worse = CITY.replace("string name", "bool name").replace("int32>", "string>")

    with pytest.raises(
        SchemaRegistryError, match=r"City\.name: string is not .*City\.sizes\.value: int32 is"
    ) as refused:
        client.register_schema("proto-narrow", Schema(worse, "PROTOBUF"))
    with pytest.raises(SchemaRegistryError, match=r"line 4, column 13: .Strin. is not defined") as invalid:
        client.register_schema("proto-new", Schema(f"{CITY}message A {{ Strin b = 1; }}", "PROTOBUF"))
    lost = [SchemaReference("shop/city.proto", "proto-narrow", 9)]
    with pytest.raises(SchemaRegistryError, match="leads nowhere"):
        client.register_schema("proto-new", Schema(BUYER, "PROTOBUF", lost))
    with pytest.raises(SchemaRegistryError, match=r"shop/city.proto: File not found"):
        client.register_schema("proto-new", Schema(BUYER, "PROTOBUF"))

    assert refused.value.error_code == 409
    assert invalid.value.error_code == 42201
    assert client.get_versions("proto-narrow") == [1]

"""A use of each method of Confluent's Python clients, in a function called as the method."""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.schema_registry import (
    AsyncSchemaRegistryClient,
    Metadata,
    MetadataProperties,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
)
from confluent_kafka.schema_registry.common.schema_registry_client import (
    AssociationCreateOrUpdateInfo,
    AssociationCreateOrUpdateRequest,
    ConfigCompatibilityLevel,
)
from confluent_kafka.schema_registry.error import SchemaRegistryError

if TYPE_CHECKING:
    import asyncio


@dataclass(slots=True)
class Caller:
    """Calls methods of a client, of either kind, by name. Names of schemas and subjects begin with `prefix`."""

    client: SchemaRegistryClient | AsyncSchemaRegistryClient
    runner: asyncio.Runner
    url: str
    prefix: str
    called: set[str] = field(default_factory=set)

    def __call__(self, name: str, *arguments: object, **options: object) -> Any:  # noqa: ANN401 - whatever a method returns
        self.called.add(name)
        return self.wait(getattr(self.client, name)(*arguments, **options))

    def wait(self, answer: Any) -> Any:  # noqa: ANN401 - the same
        """Wait for an answer that is still to come."""

        async def awaited() -> object:
            return await answer

        return self.runner.run(awaited()) if inspect.isawaitable(answer) else answer

    def schema(self, *fields: str, **more: Any) -> Schema:  # noqa: ANN401 - what Schema takes
        """A record with these fields, all with defaults."""
        declared = [{"name": name, "type": "int", "default": 0} for name in fields]
        text = json.dumps({"type": "record", "name": f"{self.prefix}_record", "fields": declared})
        return Schema(text, "AVRO", **more)

    def registered(self, *versions: Schema) -> str:
        """The name of a subject with these versions, else with one."""
        subject = f"{self.prefix}-value"
        for version in versions or (self.schema("a"),):
            self("register_schema", subject, version)
        return subject


def register_schema(call: Caller) -> None:
    subject = call.registered()

    assert call("register_schema", subject, call.schema("a"), normalize_schemas=True) > 0


def register_schema_full_response(call: Caller) -> None:
    told = call("register_schema_full_response", f"{call.prefix}-value", call.schema("a"))

    assert (told.subject, told.version, told.guid is not None) == (f"{call.prefix}-value", 1, True)


def get_schema(call: Caller) -> None:
    schema_id = call("register_schema", f"{call.prefix}-value", call.schema("a"))
    call("clear_caches")

    assert call("get_schema", schema_id).schema_str == call.schema("a").schema_str
    assert call("get_schema", schema_id, f"{call.prefix}-value", "serialized").schema_type == "AVRO"


def get_schema_by_guid(call: Caller) -> None:
    told = call("register_schema_full_response", f"{call.prefix}-value", call.schema("a"))
    call("clear_caches")

    assert call("get_schema_by_guid", told.guid).schema_str == call.schema("a").schema_str


def get_schema_types(call: Caller) -> None:
    assert "AVRO" in call("get_schema_types")


def get_subjects_by_schema_id(call: Caller) -> None:
    subject = call.registered()
    schema_id = call("get_latest_version", subject).schema_id

    assert call("get_subjects_by_schema_id", schema_id) == [subject]
    assert call("get_subjects_by_schema_id", schema_id, subject, deleted=True, offset=1, limit=5) == []


def get_schema_versions(call: Caller) -> None:
    subject = call.registered()
    schema_id = call("get_latest_version", subject).schema_id

    (place,) = call("get_schema_versions", schema_id)
    assert (place.subject, place.version) == (subject, 1)


def lookup_schema(call: Caller) -> None:
    subject = call.registered()

    assert call("lookup_schema", subject, call.schema("a"), normalize_schemas=True, deleted=True).version == 1


def get_subjects(call: Caller) -> None:
    subject = call.registered()

    assert subject in call("get_subjects")
    assert call("get_subjects", subject_prefix=call.prefix, deleted=True, limit=1) == [subject]


def delete_subject(call: Caller) -> None:
    subject = call.registered()

    assert call("delete_subject", subject) == [1]
    assert call("get_subjects", subject_prefix=call.prefix, deleted_only=True) == [subject]
    assert call("delete_subject", subject, permanent=True) == [1]


def get_latest_version(call: Caller) -> None:
    subject = call.registered(call.schema("a"), call.schema("a", "b"))

    assert call("get_latest_version", subject).version == 2


def get_latest_with_metadata(call: Caller) -> None:
    properties = MetadataProperties({"stage": "one"})
    subject = call.registered(call.schema("a", metadata=Metadata(None, properties, None)))

    assert call("get_latest_with_metadata", subject, {"stage": "one"}, deleted=True).version == 1


def get_version(call: Caller) -> None:
    subject = call.registered(call.schema("a"), call.schema("a", "b"))

    assert call("get_version", subject, 1, deleted=True).schema.schema_str == call.schema("a").schema_str


def get_referenced_by(call: Caller) -> None:
    subject = call.registered()
    inner = json.loads(str(call.schema("a").schema_str))["name"]
    outer = {"type": "record", "name": f"{call.prefix}_outer", "fields": [{"name": "x", "type": inner}]}
    user = Schema(json.dumps(outer), "AVRO", [SchemaReference(inner, subject, 1)])
    schema_id = call("register_schema", f"{call.prefix}-outer", user)

    assert call("get_referenced_by", subject, 1) == [schema_id]


def get_versions(call: Caller) -> None:
    subject = call.registered(call.schema("a"), call.schema("a", "b"))

    assert call("get_versions", subject) == [1, 2]
    assert call("get_versions", subject, deleted=True, offset=1, limit=1) == [2]


def delete_version(call: Caller) -> None:
    subject = call.registered(call.schema("a"), call.schema("a", "b"))

    assert call("delete_version", subject, 1) == 1
    assert call("delete_version", subject, 1, permanent=True) == 1
    assert call("get_versions", subject, deleted=True) == [2]


def set_compatibility(call: Caller) -> None:
    subject = call.registered()

    assert call("set_compatibility", subject, "FULL")["compatibility"] == "FULL"
    assert call("set_compatibility", None, "BACKWARD")["compatibility"] == "BACKWARD"


def get_compatibility(call: Caller) -> None:
    subject = call.registered()
    call("set_compatibility", subject, "NONE")

    assert (call("get_compatibility", subject), call("get_compatibility")) == ("NONE", "BACKWARD")


def test_compatibility(call: Caller) -> None:
    subject = call.registered()
    wrong = Schema(json.dumps({"type": "string"}), "AVRO")

    assert call("test_compatibility", subject, call.schema("a", "b")) is True
    assert call("test_compatibility", subject, wrong, 1, normalize=True, verbose=True) is False


def test_compatibility_all_versions(call: Caller) -> None:
    subject = call.registered()

    assert call("test_compatibility_all_versions", subject, call.schema("b"), normalize=True, verbose=True) is True


def set_config(call: Caller) -> None:
    subject = call.registered()
    forward, backward = (
        ServerConfig(compatibility=ConfigCompatibilityLevel(level)) for level in ("FORWARD", "BACKWARD")
    )

    assert call("set_config", subject, forward)["compatibility"] == "FORWARD"
    assert call("set_config", None, backward)["compatibility"] == "BACKWARD"


def get_config(call: Caller) -> None:
    subject = call.registered()
    call("set_config", subject, ServerConfig(compatibility=ConfigCompatibilityLevel.FORWARD))

    told = [call("get_config", name) for name in (subject, None)]
    assert [each.compatibility_level or each.compatibility for each in told] == ["FORWARD", "BACKWARD"]


def delete_config(call: Caller) -> None:
    subject = call.registered()
    call("set_config", subject, ServerConfig(compatibility=ConfigCompatibilityLevel.FORWARD))

    call("delete_config", subject)
    with pytest.raises(SchemaRegistryError) as none:
        call("get_config", subject)
    assert none.value.error_code == 40408


def get_mode(call: Caller) -> None:
    subject = call.registered()
    call("update_mode", subject, "READONLY")

    assert call("get_mode", subject) == "READONLY"


def update_mode(call: Caller) -> None:
    assert call("update_mode", call.registered(), "IMPORT", force=True) == "IMPORT"


def delete_mode(call: Caller) -> None:
    subject = call.registered()
    call("update_mode", subject, "READONLY")

    assert call("delete_mode", subject) == "READONLY"


def get_global_mode(call: Caller) -> None:
    assert call("get_global_mode") == "READWRITE"


def update_global_mode(call: Caller) -> None:
    assert call("update_global_mode", "READWRITE", force=True) == "READWRITE"


def get_contexts(call: Caller) -> None:
    call("register_schema", f":.{call.prefix}:x", call.schema("a"))

    assert f".{call.prefix}" in call("get_contexts")
    assert call("get_contexts", offset=0, limit=1) == ["."]


def asked(call: Caller, *associations: AssociationCreateOrUpdateInfo) -> AssociationCreateOrUpdateRequest:
    """A request for associations of a topic called as the prefix."""
    name = call.prefix
    return AssociationCreateOrUpdateRequest(name, "lkc-1", f"{name}-id", "topic", list(associations))


def create_association(call: Caller) -> None:
    subject = call.registered()

    told = call(
        "create_association", asked(call, AssociationCreateOrUpdateInfo(subject, "value", "WEAK", frozen=False))
    )

    assert [(each.subject, each.lifecycle) for each in told.associations] == [(subject, "WEAK")]
    with pytest.raises(SchemaRegistryError) as refused:
        call("create_association", asked(call, AssociationCreateOrUpdateInfo(subject, "value", "STRONG")))
    assert (refused.value.http_status_code, refused.value.error_code) == (409, 40903)


def get_associations_by_resource_name(call: Caller) -> None:
    made = AssociationCreateOrUpdateInfo(None, "key", "STRONG", frozen=True, schema=call.schema("a"))
    call("create_association", asked(call, made))

    (told,) = call("get_associations_by_resource_name", call.prefix, "-", "topic", ["key"])
    assert (told.subject, told.frozen) == (f":.lkc-1:{call.prefix}-key", True)
    assert call("get_associations_by_resource_name", call.prefix, "lkc-1", "topic", ["value"], 0, 5) == []


def delete_associations(call: Caller) -> None:
    subject = call.registered()
    call("create_association", asked(call, AssociationCreateOrUpdateInfo(subject, "value", "STRONG")))

    call("delete_associations", f"{call.prefix}-id", "topic", ["value"], cascade_lifecycle=True)

    assert call("get_associations_by_resource_name", call.prefix, "-") == []
    assert call("get_subjects", subject_prefix=call.prefix, deleted=True) == []
    with pytest.raises(SchemaRegistryError) as unknown:
        call("delete_associations", f"{call.prefix}-id")
    assert (unknown.value.http_status_code, unknown.value.error_code) == (404, 40410)


def clear_caches(call: Caller) -> None:
    call.registered()

    call("clear_caches")


def clear_latest_caches(call: Caller) -> None:
    call("clear_latest_caches")


def config(call: Caller) -> None:
    assert call("config")["url"] == call.url


def new_client(call: Caller) -> None:
    client = call("new_client", {"url": call.url})

    assert "AVRO" in call.wait(client.get_schema_types())
    call.wait(client.aclose() if hasattr(client, "aclose") else client.close())

"""The /v1 routes that say something of a topic."""

from enum import StrEnum

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from penstock.schematizer.api.answers import TopicAnswer, TopicSchemaAnswer
from penstock.schematizer.api.dependencies import ERRORS, Writer
from penstock.schematizer.api.queries import ClusterType, Compacted, Partitions, SchemaId, TopicName
from penstock.schematizer.metadata.topics import set_facts, set_status
from penstock.schematizer.registry.topic_rule import TopicFacts
from penstock.schematizer.storage.models import Status

router = APIRouter(prefix="/v1", tags=["topics"], responses=dict(ERRORS))


class FactsRequest(BaseModel):
    """Facts of a topic; what is left out stays as it is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cluster_type: ClusterType = None
    partitions: Partitions = None
    compacted: Compacted = None


class SettableStatus(StrEnum):
    """What a schema may be used for: writing and reading, reading alone, or nothing."""

    READ_AND_WRITE = "read_and_write"
    READ_ONLY = "read_only"
    DISABLED = "disabled"


class SchemaStatusRequest(BaseModel):
    """What a schema may be used for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    status: SettableStatus = Field(examples=["read_only"])


@router.put("/topics/{name}", summary="Say facts of a topic")
def put_topic(writer: Writer, name: TopicName, body: FactsRequest) -> TopicAnswer:
    """Keep what Kafka's topic is like. Nothing is changed in Kafka."""
    facts = TopicFacts(body.cluster_type, body.partitions, body.compacted)
    return writer.write(lambda work: set_facts(work, name, facts))


@router.put("/topics/{name}/schemas/{schema_id}/status", summary="Say whether a schema still counts")
def put_schema_status(
    writer: Writer, name: TopicName, schema_id: SchemaId, body: SchemaStatusRequest
) -> TopicSchemaAnswer:
    """Say what a schema of a topic's values may be used for.

    A table of the shape of a schema that is not read_and_write opens a new topic. New
    schemas need not be compatible with one that is disabled.
    """
    return writer.write(lambda work: set_status(work, name, schema_id, Status(body.status)))

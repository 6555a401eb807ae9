"""The /v1 routes about data targets, consumer groups and what they read."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, Field

from penstock.core.tables import TableId
from penstock.schematizer.api.answers import TopicList
from penstock.schematizer.api.dependencies import ERRORS, Store, Writer
from penstock.schematizer.api.queries import PageQuery, SchemaId, TopicName
from penstock.schematizer.api.usage_answers import (
    DataSourceAnswer,
    DataSourceList,
    GroupAnswer,
    GroupList,
    ReachedTargetList,
    TargetAnswer,
    TargetList,
)
from penstock.schematizer.api.usage_queries import (
    GroupName,
    GroupQuery,
    LongWords,
    ShortText,
    TargetName,
    TargetQuery,
    new_name,
)
from penstock.schematizer.metadata.reach import read_targets_of_schema, read_targets_of_topic, read_topics_of_target
from penstock.schematizer.metadata.scopes import find_scoped
from penstock.schematizer.metadata.targets import (
    add_data_source,
    delete_data_source,
    delete_group,
    delete_target,
    find_group,
    find_target,
    put_group,
    put_target,
    read_data_sources,
    read_groups,
    read_targets,
)

router = APIRouter(prefix="/v1", tags=["data targets"], responses=dict(ERRORS))
_TARGET = "/data_targets/{data_target}"
_GROUP = "/consumer_groups/{consumer_group}"
Page = Annotated[PageQuery, Query()]


class TargetRequest(BaseModel):
    """What a data target is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: str = Field(
        pattern=r"^[a-z][a-z0-9_]{0,31}$",
        description="redshift, snowflake, duckdb, postgres, delta, or any other word",
        examples=["redshift"],
    )
    destination: LongWords = Field(description="Which one", examples=["analytics-cluster/dev"])


class GroupRequest(BaseModel):
    """What a consumer group is for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data_target: ShortText = Field(description="The data target that it fills", examples=["warehouse"])


class DataSourceRequest(BaseModel):
    """What a consumer group reads: a topic; or a namespace; or one table of it, with all topics it will have."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    namespace: ShortText = Field(default="", examples=["shopdb"])
    table_schema: ShortText = Field(default="", examples=["shop"])
    table_name: ShortText = Field(default="", examples=["orders"])
    topic: ShortText = Field(default="", examples=[""])


@router.put(_TARGET, summary="Make or change a data target")
def put_data_target(writer: Writer, data_target: TargetName, body: TargetRequest) -> TargetAnswer:
    """Say what a data target is; it is made if there is none of this name."""
    return writer.write(lambda work: put_target(work, new_name(data_target), body.type, body.destination))


@router.get("/data_targets", summary="List data targets")
def get_data_targets(store: Store, asked: Annotated[TargetQuery, Query()]) -> TargetList:
    """List data targets, by name."""
    return store.read(lambda session: read_targets(session, asked))


@router.get(_TARGET, summary="One data target")
def get_data_target(store: Store, data_target: TargetName) -> TargetAnswer:
    """Describe a data target."""
    return store.read(lambda session: TargetAnswer.of(find_target(session, data_target)))


@router.delete(_TARGET, summary="Forget a data target")
def delete_data_target(writer: Writer, data_target: TargetName) -> TargetAnswer:
    """Forget a data target that no consumer group fills any more; the answer is what it was."""
    return writer.write(lambda work: delete_target(work, data_target))


@router.get(_TARGET + "/topics", summary="Which topics a data target reads")
def get_topics_of_target(store: Store, data_target: TargetName, asked: Page) -> TopicList:
    """List every topic that a consumer group of the data target reads."""
    return store.read(lambda session: read_topics_of_target(session, data_target, asked.window))


@router.get("/topics/{name}/data_targets", summary="Where a topic ends up")
def get_targets_of_topic(store: Store, name: TopicName, asked: Page) -> ReachedTargetList:
    """List the data targets that a topic ends up in, and the consumer groups that bring it there."""
    return store.read(lambda session: read_targets_of_topic(session, name, asked.window))


@router.get("/schemas/{schema_id}/data_targets", summary="Where data of a schema ends up")
def get_targets_of_schema(store: Store, schema_id: SchemaId, asked: Page) -> ReachedTargetList:
    """List the data targets that the topics with a schema end up in."""
    return store.read(lambda session: read_targets_of_schema(session, schema_id, asked.window))


@router.put(_GROUP, summary="Make or change a consumer group")
def put_consumer_group(writer: Writer, consumer_group: GroupName, body: GroupRequest) -> GroupAnswer:
    """Say which data target a consumer group fills; the group is made if there is none of this name."""
    return writer.write(lambda work: put_group(work, new_name(consumer_group), body.data_target))


@router.get("/consumer_groups", summary="List consumer groups")
def get_consumer_groups(store: Store, asked: Annotated[GroupQuery, Query()]) -> GroupList:
    """List consumer groups, by name."""
    return store.read(lambda session: read_groups(session, asked))


@router.get(_GROUP, summary="One consumer group")
def get_consumer_group(store: Store, consumer_group: GroupName) -> GroupAnswer:
    """Describe a consumer group."""
    return store.read(lambda session: GroupAnswer.of(find_group(session, consumer_group)))


@router.delete(_GROUP, summary="Forget a consumer group")
def delete_consumer_group(writer: Writer, consumer_group: GroupName) -> GroupAnswer:
    """Forget a consumer group and what it reads; the answer is what it was."""
    return writer.write(lambda work: delete_group(work, consumer_group))


@router.post(_GROUP + "/data_sources", summary="Say what a consumer group reads")
def post_data_source(writer: Writer, consumer_group: GroupName, body: DataSourceRequest) -> DataSourceAnswer:
    """Add something that a consumer group reads. Saying it again changes nothing."""
    table = TableId(body.table_schema, body.table_name)
    return writer.write(
        lambda work: add_data_source(work, consumer_group, find_scoped(work.session, body.namespace, table, body.topic))
    )


@router.get(_GROUP + "/data_sources", summary="What a consumer group reads")
def get_data_sources(store: Store, consumer_group: GroupName, asked: Page) -> DataSourceList:
    """List what a consumer group reads, the oldest first."""
    return store.read(lambda session: read_data_sources(session, consumer_group, asked.window))


@router.delete(_GROUP + "/data_sources/{data_source_id}", summary="Say what a consumer group reads no more")
def delete_source(
    writer: Writer, consumer_group: GroupName, data_source_id: Annotated[int, Path(examples=[1])]
) -> DataSourceAnswer:
    """Take away something that a consumer group reads; the answer is what it was."""
    return writer.write(lambda work: delete_data_source(work, consumer_group, data_source_id))

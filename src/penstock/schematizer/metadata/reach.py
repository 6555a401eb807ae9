"""Which topics a data target gets, and which data targets a topic or a schema ends up in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import and_, or_, select
from sqlalchemy.orm import joinedload

from penstock.schematizer.api.answers import TopicAnswer, TopicList
from penstock.schematizer.api.paging import read_page
from penstock.schematizer.api.usage_answers import ReachedTargetAnswer, ReachedTargetList, TargetAnswer
from penstock.schematizer.metadata.catalog import find_topic
from penstock.schematizer.metadata.targets import find_target
from penstock.schematizer.registry.schemas import schema_by_id
from penstock.schematizer.storage.models import Namespace, Source, Subject, SubjectVersion, Topic
from penstock.schematizer.storage.usage_models import ConsumerGroup, DataSource, DataTarget, Scope

if TYPE_CHECKING:
    from sqlalchemy import Select
    from sqlalchemy.orm import Session
    from sqlalchemy.sql.elements import ColumnElement

    from penstock.schematizer.api.paging import Window

# Of a query with topics and their sources in it: a data source that has the topic.
_READS: ColumnElement[bool] = or_(
    and_(DataSource.scope == Scope.TOPIC, DataSource.entity_id == Topic.id),
    and_(DataSource.scope == Scope.SOURCE, DataSource.entity_id == Topic.source_id),
    and_(DataSource.scope == Scope.NAMESPACE, DataSource.entity_id == Source.namespace_id),
)


def read_topics_of_target(session: Session, name: str, window: Window) -> TopicList:
    """List the topics that consumer groups of a data target read, as GET /v1/topics lists them."""
    reading = (
        select(DataSource.id)
        .join(ConsumerGroup, ConsumerGroup.id == DataSource.consumer_group_id)
        .where(ConsumerGroup.data_target_id == find_target(session, name).id, _READS)
        .correlate(Topic, Source)
        .exists()
    )
    query = (
        select(Topic)
        .join(Source, Source.id == Topic.source_id)
        .join(Namespace, Namespace.id == Source.namespace_id)
        .where(reading)
        .options(joinedload(Topic.follows).lazyload(Topic.source))
    )
    keys = [Namespace.name, Source.table_schema, Source.table_name, Topic.ordinal]
    found, following = read_page(session, query, keys, window)
    return TopicList(items=[TopicAnswer.of(topic) for topic in found], next=following)


def read_targets_of_topic(session: Session, name: str, window: Window) -> ReachedTargetList:
    """List the data targets that a topic ends up in."""
    topic = find_topic(session, name)
    return _reached(session, select(Topic.id).where(Topic.id == topic.id), window)


def read_targets_of_schema(session: Session, schema_id: int, window: Window) -> ReachedTargetList:
    """List the data targets that topics with a schema, as key or value, end up in."""
    schema = schema_by_id(session, schema_id)
    topics = (
        select(Subject.topic_id)
        .join(SubjectVersion, SubjectVersion.subject_id == Subject.id)
        .where(SubjectVersion.schema_id == schema.id, Subject.topic_id.is_not(None))
    )
    return _reached(session, topics, window)


def _reached(session: Session, topics: Select[int] | Select[int | None], window: Window) -> ReachedTargetList:
    reading = (
        select(ConsumerGroup.data_target_id, ConsumerGroup.name)
        .join(DataSource, DataSource.consumer_group_id == ConsumerGroup.id)
        .join(Topic, Topic.id.in_(topics))
        .join(Source, Source.id == Topic.source_id)
        .where(_READS)
        .distinct()
    )
    targets = select(DataTarget).where(DataTarget.id.in_(select(reading.subquery().c.data_target_id)))
    found, following = read_page(session, targets, [DataTarget.name], window)
    groups: dict[int, list[str]] = {target.id: [] for target in found}
    for target_id, name in session.execute(reading).all():
        if target_id in groups:
            groups[target_id].append(name)
    items = [
        ReachedTargetAnswer(data_target=TargetAnswer.of(target), consumer_groups=sorted(groups[target.id]))
        for target in found
    ]
    return ReachedTargetList(items=items, next=following)

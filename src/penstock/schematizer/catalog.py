"""What is there: queries of the /v1 API. An empty filter lets everything through."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select
from sqlalchemy.orm import joinedload

from penstock.schematizer.answers import (
    NamespaceAnswer,
    NamespaceList,
    SchemaAnswer,
    SourceAnswer,
    SourceList,
    TopicAnswer,
    TopicList,
    TopicSchemaAnswer,
    TopicSchemaList,
)
from penstock.schematizer.models import Namespace, Source, Subject, SubjectVersion, Topic
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.schemas import schema_by_id

if TYPE_CHECKING:
    from sqlalchemy.orm import Session


def read_namespaces(session: Session) -> NamespaceList:
    """List every namespace."""
    found = session.scalars(select(Namespace).order_by(Namespace.name))
    return NamespaceList(items=[NamespaceAnswer.of(namespace) for namespace in found])


def read_sources(session: Session, namespace: str) -> SourceList:
    """List the sources of `namespace`."""
    query = select(Source).join(Namespace).order_by(Namespace.name, Source.table_schema, Source.table_name)
    if namespace:
        query = query.where(Namespace.name == namespace)
    return SourceList(items=[SourceAnswer.of(source) for source in session.scalars(query)])


def read_topics(session: Session, namespace: str) -> TopicList:
    """List the topics of `namespace`."""
    query = (
        select(Topic)
        .join(Source, Source.id == Topic.source_id)
        .join(Namespace, Namespace.id == Source.namespace_id)
        .order_by(Namespace.name, Source.table_schema, Source.table_name, Topic.ordinal)
        .options(joinedload(Topic.follows).lazyload(Topic.source))
    )
    if namespace:
        query = query.where(Namespace.name == namespace)
    return TopicList(items=[TopicAnswer.of(topic) for topic in session.scalars(query)])


def read_topic(session: Session, name: str) -> TopicAnswer:
    """Return the topic called `name`; RefusedError if there is none."""
    return TopicAnswer.of(_topic(session, name))


def read_topic_schemas(session: Session, name: str) -> TopicSchemaList:
    """List the schemas of the topic called `name`; RefusedError if there is none."""
    query = (
        select(SubjectVersion)
        .join(Subject, Subject.id == SubjectVersion.subject_id)
        .where(Subject.topic_id == _topic(session, name).id)
        .order_by(Subject.kind, SubjectVersion.version)
    )
    return TopicSchemaList(items=[TopicSchemaAnswer.of(version) for version in session.scalars(query)])


def read_schema(session: Session, schema_id: int) -> SchemaAnswer:
    """Return a schema and its users; RefusedError if there is none."""
    schema = schema_by_id(session, schema_id)
    query = select(SubjectVersion).where(SubjectVersion.schema_id == schema_id).order_by(SubjectVersion.id)
    return SchemaAnswer.of(schema, [TopicSchemaAnswer.of(version) for version in session.scalars(query)])


def _topic(session: Session, name: str) -> Topic:
    topic = session.scalars(select(Topic).where(Topic.name == name)).one_or_none()
    if topic is None:
        raise RefusedError(Code.UNKNOWN_TOPIC, f"there is no topic {name!r}", "see GET /v1/topics for those there are")
    return topic

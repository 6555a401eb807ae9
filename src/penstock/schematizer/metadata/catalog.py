"""What is there: queries of the /v1 API. An empty filter lets everything through."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import case, func, not_, or_, select
from sqlalchemy.orm import joinedload

from penstock.schematizer.api.answers import (
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
from penstock.schematizer.api.documentation_answers import CoverageAnswer, ElementAnswer, ElementList
from penstock.schematizer.api.paging import read_page
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.registry.schemas import schema_by_id
from penstock.schematizer.storage.models import Element, Namespace, Source, Subject, SubjectVersion, Topic

if TYPE_CHECKING:
    from sqlalchemy import Select
    from sqlalchemy.orm import Session
    from sqlalchemy.sql.elements import ColumnElement

    from penstock.schematizer.api.queries import (
        ElementQuery,
        NamespaceQuery,
        SourceQuery,
        TableQuery,
        TopicQuery,
        TopicSchemaQuery,
    )
    from penstock.schematizer.security.rights import Rights

T = TypeVar("T")
_TABLE_KEYS = (Namespace.name, Source.table_schema, Source.table_name)


def read_namespaces(session: Session, asked: NamespaceQuery) -> NamespaceList:
    """List every namespace."""
    query = select(Namespace)
    if asked.prefix:
        query = query.where(Namespace.name.startswith(asked.prefix, autoescape=True))
    found, following = read_page(session, query, [Namespace.name], asked.window)
    return NamespaceList(items=[NamespaceAnswer.of(namespace) for namespace in found], next=following)


def read_sources(session: Session, asked: SourceQuery) -> SourceList:
    """List sources."""
    query = of_tables(select(Source).join(Namespace), asked)
    if asked.owner_email is not None:
        query = query.where(Source.owner_email == asked.owner_email)
    if asked.category is not None:
        query = query.where(Source.category == asked.category)
    if asked.documented is not None:
        has_docs = or_(Source.doc != "", Source.comment != "")
        query = query.where(has_docs if asked.documented else not_(has_docs))
    found, following = read_page(session, query, _TABLE_KEYS, asked.window)
    return SourceList(items=[SourceAnswer.of(source) for source in found], next=following)


def read_elements(session: Session, source: Source, asked: ElementQuery) -> ElementList:
    """List the elements of `source`, those that are gone after the others."""
    query = select(Element).where(Element.source_id == source.id)
    if asked.documented is not None:
        has_docs = or_(Element.doc != "", Element.comment != "")
        query = query.where(has_docs if asked.documented else not_(has_docs))
    gone = case((Element.is_present, 0), else_=1)
    found, following = read_page(session, query, [gone, Element.position, Element.id], asked.window)
    return ElementList(items=[ElementAnswer.of(element) for element in found], next=following)


def read_topics(session: Session, asked: TopicQuery) -> TopicList:
    """List topics."""
    query = (
        select(Topic)
        .join(Source, Source.id == Topic.source_id)
        .join(Namespace, Namespace.id == Source.namespace_id)
        .options(joinedload(Topic.follows).lazyload(Topic.source))
    )
    if asked.created_after is not None:
        query = query.where(Topic.created_at_ms > asked.created_after)
    found, following = read_page(session, of_tables(query, asked), [*_TABLE_KEYS, Topic.ordinal], asked.window)
    return TopicList(items=[TopicAnswer.of(topic) for topic in found], next=following)


def read_topic(session: Session, name: str) -> TopicAnswer:
    """Return the topic called `name`; RefusedError if there is none."""
    return TopicAnswer.of(find_topic(session, name))


def read_topic_schemas(session: Session, name: str, asked: TopicSchemaQuery) -> TopicSchemaList:
    """List the schemas of the topic called `name`; RefusedError if there is none."""
    query = (
        select(SubjectVersion)
        .join(Subject, Subject.id == SubjectVersion.subject_id)
        .where(Subject.topic_id == find_topic(session, name).id)
    )
    if asked.kind is not None:
        query = query.where(Subject.kind == asked.kind)
    found, following = read_page(session, query, [Subject.kind, SubjectVersion.version], asked.window)
    return TopicSchemaList(items=[TopicSchemaAnswer.of(version) for version in found], next=following)


def read_coverage(session: Session, namespace: Namespace) -> CoverageAnswer:
    """Count what of `namespace` has docs and owners."""
    sources, owned, documented = session.execute(
        select(
            func.count(),
            _count_if(Source.owner_email != ""),
            _count_if(or_(Source.doc != "", Source.comment != "")),
        ).where(Source.namespace_id == namespace.id)
    ).one()
    elements, described = session.execute(
        select(func.count(), _count_if(or_(Element.doc != "", Element.comment != "")))
        .join_from(Element, Source, Source.id == Element.source_id)
        .where(Source.namespace_id == namespace.id, Element.is_present)
    ).one()
    return CoverageAnswer(
        namespace=namespace.name,
        sources=sources,
        sources_with_owner=owned,
        sources_with_doc=documented,
        elements=elements,
        elements_with_doc=described,
        owned_percent=_percent(owned, sources),
        documented_percent=_percent(documented + described, sources + elements),
    )


def read_schema(session: Session, schema_id: int, asking: Rights) -> SchemaAnswer:
    """Return a schema and those of its users that may be read; RefusedError if there is none."""
    schema = schema_by_id(session, schema_id)
    query = select(SubjectVersion).where(SubjectVersion.schema_id == schema_id).order_by(SubjectVersion.id)
    used_by = [each for each in session.scalars(query) if asking.may_read(session, each.subject.name)]
    return SchemaAnswer.of(schema, [TopicSchemaAnswer.of(version) for version in used_by])


def of_tables(query: Select[T], asked: TableQuery) -> Select[T]:
    """Narrow a query, of which namespaces and sources are a part, to the tables that are asked for."""
    filters = (
        (Namespace.name, asked.namespace),
        (Source.table_schema, asked.table_schema),
        (Source.table_name, asked.table_name),
    )
    return query.where(*(column == wanted for column, wanted in filters if wanted))


def _count_if(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.count(case((condition, 1)))


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 1) if whole else 100.0


def find_topic(session: Session, name: str, *, lock: bool = False) -> Topic:
    """Return the topic called `name`; RefusedError if there is none. With `lock` it is the caller's until the end."""
    query = select(Topic).where(Topic.name == name)
    topic = session.scalars(query.with_for_update(of=Topic) if lock else query).one_or_none()
    if topic is None:
        raise RefusedError(Code.UNKNOWN_TOPIC, f"there is no topic {name!r}", "see GET /v1/topics for those there are")
    return topic

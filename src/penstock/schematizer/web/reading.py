"""What the pages show, read in one piece of work each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import func, select

from penstock.schematizer.api.answers import NamespaceAnswer, SourceAnswer, SourceList, TopicAnswer
from penstock.schematizer.api.documentation_answers import ChangeList, CoverageAnswer, ElementAnswer
from penstock.schematizer.api.queries import HistoryQuery, NamespaceQuery, SourceQuery, TopicQuery
from penstock.schematizer.metadata.catalog import read_coverage, read_namespaces, read_sources, read_topics
from penstock.schematizer.metadata.documentation_catalog import read_history
from penstock.schematizer.registry.documentation import find_namespace, find_source
from penstock.schematizer.registry.elements import SchemaElement, avro_elements
from penstock.schematizer.storage.models import (
    Element,
    Namespace,
    Schema,
    Source,
    Subject,
    SubjectVersion,
    TableRegistration,
    Topic,
)

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from penstock.core.tables import TableId

_RECENT_CHANGES = 8
_SOURCES_PER_PAGE = 50
_NAMESPACES_PER_PAGE = 25
_TOPICS_MAX = 1000


@dataclass(frozen=True, slots=True)
class HomePage:
    """Every namespace with how much of it is documented, and what happened last."""

    namespaces: list[tuple[NamespaceAnswer, CoverageAnswer]]
    next: str
    sources: int
    columns: int
    topics: int
    schemas: int
    foreign_subjects: int
    changes: ChangeList


@dataclass(frozen=True, slots=True)
class NamespacePage:
    """A namespace and a window of its sources."""

    namespace: NamespaceAnswer
    coverage: CoverageAnswer
    sources: SourceList


@dataclass(frozen=True, slots=True)
class ColumnShown:
    """A column; `said` is what people say of it, without what the table says, `shape` what its newest schema says."""

    answer: ElementAnswer
    said: str
    shape: SchemaElement | None


@dataclass(frozen=True, slots=True)
class SourcePage:
    """A table with everything that belongs to it; `said` as in ColumnShown."""

    source: SourceAnswer
    said: str
    rules: NamespaceAnswer
    columns: list[ColumnShown]
    topics: list[TopicAnswer]
    changes: ChangeList


def read_home(session: Session, after: str) -> HomePage:
    """Read the first page that a visitor sees."""
    found = read_namespaces(session, NamespaceQuery(limit=_NAMESPACES_PER_PAGE, after=after))
    covered = [(each, read_coverage(session, find_namespace(session, each.name))) for each in found.items]
    return HomePage(
        covered,
        found.next,
        _count(session, Source),
        session.scalar(select(func.count(Element.id)).where(Element.is_present)) or 0,
        _count(session, Topic),
        session.scalar(select(func.count(SubjectVersion.schema_id.distinct()))) or 0,
        session.scalar(select(func.count(Subject.id)).where(Subject.topic_id.is_(None))) or 0,
        read_history(session, HistoryQuery(limit=_RECENT_CHANGES)),
    )


def read_namespace_page(session: Session, name: str, asked: SourceQuery) -> NamespacePage:
    """Read a namespace and those of its sources that are asked for."""
    namespace = find_namespace(session, name)
    query = asked.model_copy(update={"namespace": name, "limit": _SOURCES_PER_PAGE})
    return NamespacePage(NamespaceAnswer.of(namespace), read_coverage(session, namespace), read_sources(session, query))


def _newest_shapes(session: Session, source: Source) -> dict[str, SchemaElement]:
    """Return what the newest schema of a table says of each column, by its name."""
    query = (
        select(Schema.text)
        .join(TableRegistration, TableRegistration.value_schema_id == Schema.id)
        .where(TableRegistration.source_id == source.id)
        .order_by(TableRegistration.id.desc())
    )
    text = session.scalar(query.limit(1))
    return {} if text is None else {each.path: each for each in avro_elements(text, is_key=False)}


def read_source_page(session: Session, namespace: str, table: TableId) -> SourcePage:
    """Read a table, its columns, topics and history."""
    source = find_source(session, namespace, table)
    shapes = _newest_shapes(session, source)
    elements = session.scalars(
        select(Element)
        .where(Element.source_id == source.id)
        .order_by(Element.is_present.desc(), Element.position, Element.id)
    )
    return SourcePage(
        SourceAnswer.of(source),
        source.doc,
        NamespaceAnswer.of(source.namespace),
        [ColumnShown(ElementAnswer.of(each), each.doc, shapes.get(each.name)) for each in elements],
        read_topics(
            session,
            TopicQuery(limit=_TOPICS_MAX, namespace=namespace, table_schema=table.schema, table_name=table.name),
        ).items,
        read_history(
            session,
            HistoryQuery(limit=_RECENT_CHANGES, namespace=namespace, table_schema=table.schema, table_name=table.name),
        ),
    )


def _count(session: Session, model: type[Namespace | Source | Topic]) -> int:
    return session.scalar(select(func.count()).select_from(model)) or 0

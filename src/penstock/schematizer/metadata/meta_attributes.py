"""Meta attributes: data of other schemas that messages carry beside their own.

What is said of a namespace holds for all its sources, what is said of a source
for all its schemas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import and_, case, or_, select

from penstock.schematizer.api.paging import read_page
from penstock.schematizer.api.usage_answers import MetaAttributeAnswer, MetaAttributeList
from penstock.schematizer.metadata.scopes import Scoped, name_scoped
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.registry.schemas import schema_by_id
from penstock.schematizer.storage.database import now_ms
from penstock.schematizer.storage.history import HistoryPlace, add_change
from penstock.schematizer.storage.models import SchemaKind, Source, Subject, SubjectVersion, Thing, Topic
from penstock.schematizer.storage.usage_models import MetaAttribute, Scope

if TYPE_CHECKING:
    from sqlalchemy import Select
    from sqlalchemy.orm import Session
    from sqlalchemy.sql.elements import ColumnElement

    from penstock.schematizer.api.paging import Window
    from penstock.schematizer.storage.database import UnitOfWork

_THINGS = {Scope.NAMESPACE: Thing.NAMESPACE, Scope.SOURCE: Thing.SOURCE, Scope.SCHEMA: Thing.SCHEMA}
_ORDER = case({Scope.NAMESPACE.value: 0, Scope.SOURCE.value: 1}, value=MetaAttribute.scope, else_=2)


def add_meta_attribute(work: UnitOfWork, scoped: Scoped, schema_id: int) -> MetaAttributeAnswer:
    """Say that messages carry a meta attribute; saying it again changes nothing. Raises RefusedError."""
    schema_by_id(work.session, schema_id)
    query = _of(scoped).where(MetaAttribute.schema_id == schema_id)
    attribute = work.session.scalars(query).one_or_none()
    if attribute is None:
        attribute = MetaAttribute(
            scope=scoped.scope, entity_id=scoped.entity_id, schema_id=schema_id, created_at_ms=now_ms()
        )
        work.session.add(attribute)
        work.session.flush()
        add_change(work, _place(work.session, scoped), "meta_attribute", ("", schema_id))
    return _answer(work.session, attribute)


def delete_meta_attribute(work: UnitOfWork, scoped: Scoped, schema_id: int) -> MetaAttributeAnswer:
    """Say that messages carry a meta attribute no more. Raises RefusedError where it was never said of just that."""
    query = _of(scoped).where(MetaAttribute.schema_id == schema_id)
    attribute = work.session.scalars(query).one_or_none() if 0 <= schema_id < 1 << 63 else None
    if attribute is None:
        message = f"it has no meta attribute with the schema {schema_id}"
        raise RefusedError(Code.UNKNOWN_META_ATTRIBUTE, message, "see its meta attributes; a namespace has its own")
    answer = _answer(work.session, attribute)
    work.session.delete(attribute)
    add_change(work, _place(work.session, scoped), "meta_attribute", (schema_id, ""))
    return answer


def read_meta_attributes(session: Session, scoped: Scoped, window: Window) -> MetaAttributeList:
    """List the meta attributes that hold for something: its own, and those of what it belongs to."""
    query = select(MetaAttribute).where(_holds_for(scoped))
    found, following = read_page(session, query, [_ORDER, MetaAttribute.id], window)
    return MetaAttributeList(items=[_answer(session, each) for each in found], next=following)


def _of(scoped: Scoped) -> Select[MetaAttribute]:
    return select(MetaAttribute).where(MetaAttribute.scope == scoped.scope, MetaAttribute.entity_id == scoped.entity_id)


def _holds_for(scoped: Scoped) -> ColumnElement[bool]:
    own = and_(MetaAttribute.scope == scoped.scope, MetaAttribute.entity_id == scoped.entity_id)
    match scoped.scope:
        case Scope.SOURCE:
            sources = select(Source.id).where(Source.id == scoped.entity_id)
        case Scope.SCHEMA:
            sources = (
                select(Topic.source_id)
                .join(Subject, Subject.topic_id == Topic.id)
                .join(SubjectVersion, SubjectVersion.subject_id == Subject.id)
                .where(SubjectVersion.schema_id == scoped.entity_id, Subject.kind == SchemaKind.VALUE)
            )
        case _:
            return own
    namespaces = select(Source.namespace_id).where(Source.id.in_(sources))
    return or_(
        own,
        and_(MetaAttribute.scope == Scope.SOURCE, MetaAttribute.entity_id.in_(sources)),
        and_(MetaAttribute.scope == Scope.NAMESPACE, MetaAttribute.entity_id.in_(namespaces)),
    )


def _answer(session: Session, attribute: MetaAttribute) -> MetaAttributeAnswer:
    named = name_scoped(session, attribute.scope, attribute.entity_id)
    return MetaAttributeAnswer(
        schema_id=attribute.schema_id, scope=named.scope, namespace=named.namespace, table=named.table
    )


def _place(session: Session, scoped: Scoped) -> HistoryPlace:
    if scoped.scope is Scope.SCHEMA:
        return HistoryPlace(Thing.SCHEMA, entity=str(scoped.entity_id))
    if scoped.scope is Scope.SOURCE:
        return HistoryPlace.of_source(session.get_one(Source, scoped.entity_id))
    return HistoryPlace(_THINGS[scoped.scope], name_scoped(session, scoped.scope, scoped.entity_id).namespace)

"""Registration: which schema ids and which topic a table gets.

A table's topics form a chain, and only the newest takes changes, so whoever
reads the chain from its start reads every key's changes in order. A shape of
the table stays on the newest topic if the topic rule allows, else it opens the
next one. A table that goes back to an older shape is not
sent back to that shape's topic: its new changes would come before the changes
that lie in between.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlalchemy import and_, bindparam, delete, func, select
from sqlalchemy.orm import aliased

from penstock.schematizer.registry.documentation import (
    SourceAnnotations,
    document_source,
    enter_source,
    open_namespace,
    require_documentation,
)
from penstock.schematizer.registry.elements import Described, describe_source
from penstock.schematizer.registry.registered import Registered, Verdict
from penstock.schematizer.registry.schemas import keep_schema, schema_by_id
from penstock.schematizer.registry.subjects import add_version, find_version, is_used, open_subject
from penstock.schematizer.registry.topic_names import (
    collision_name,
    is_legal,
    plan_distinct_topic_name,
    plan_topic_name,
)
from penstock.schematizer.registry.topic_rule import (
    Problem,
    TableShape,
    keep_facts,
    same_cluster,
    same_key,
    topic_problems,
)
from penstock.schematizer.storage.database import AuthoredDatabase, UnitOfWork, now_ms
from penstock.schematizer.storage.history import HistoryPlace
from penstock.schematizer.storage.models import (
    Namespace,
    Schema,
    SchemaKind,
    Source,
    Status,
    Subject,
    SubjectVersion,
    TableRegistration,
    Thing,
    Topic,
)
from penstock.schematizer.storage.search import enter_new

if TYPE_CHECKING:
    from sqlalchemy.orm import Session


def register_table(writer: AuthoredDatabase, shape: TableShape, said: SourceAnnotations | None = None) -> Registered:
    """Register `shape`. The newest shape of a table gets the same answer however often it is registered.

    What is `said` of the table beside its shape is kept in the same transaction.
    Raises RefusedError for a new shape of a table that lacks what its namespace
    demands; a shape that is known gets its answer in any case.
    """
    said = said or SourceAnnotations()
    if said.is_nothing and shape.facts.is_nothing:
        known = writer.database.read(lambda session: _find(session, shape))
        if known is not None and known.is_newest:
            return replace(known.answer, known_as=known.registration_id)
    # What is compared here is known to the transaction, which holds up everybody else.
    writer.database.read(lambda session: check_table(session, shape))
    return writer.write(lambda work: _register(work, shape, said))


def check_table(session: Session, shape: TableShape) -> Verdict:
    """Tell what registering `shape` would do. Writes nothing."""
    if shape.facts.base_schema_id is not None:
        schema_by_id(session, shape.facts.base_schema_id)
    query = (
        select(Topic)
        .join(Source, Source.id == Topic.source_id)
        .join(Namespace, Namespace.id == Source.namespace_id)
        .where(
            Namespace.name == shape.namespace,
            Source.table_schema == shape.table.schema,
            Source.table_name == shape.table.name,
        )
        .order_by(Topic.ordinal.desc())
        .limit(1)
    )
    topic = session.scalars(query).one_or_none()
    if topic is None:
        return Verdict("", is_known=False, problems=())
    is_known = _find(session, shape) is not None
    return Verdict(topic.name, is_known, () if is_known else topic_problems(session, topic, shape))


@dataclass(frozen=True, slots=True)
class _Known:
    """A shape that has an answer; `is_newest`: it is where the table stands."""

    answer: Registered
    registration_id: int
    is_newest: bool


_Key, _Value, _Before = aliased(Schema), aliased(Schema), aliased(Topic)
_NEWEST = select(func.max(Topic.ordinal)).where(Topic.source_id == Source.id).correlate(Source).scalar_subquery()
_STANDS = (
    select(func.max(TableRegistration.id))
    .where(TableRegistration.source_id == Source.id)
    .correlate(Source)
    .scalar_subquery()
)
# Registering what is known is the common case: one statement, put together once.
_FIND = (
    select(
        *(Topic.name, Topic.key_schema_id, Topic.contains_pii, Topic.cluster_type, Topic.base_schema_id),
        *(_Key.fingerprint, _Key.text, _Value.id, _Before.name, TableRegistration.id, TableRegistration.id == _STANDS),
    )
    .select_from(Source)
    .join(Namespace, Namespace.id == Source.namespace_id)
    .join(Topic, and_(Topic.source_id == Source.id, Topic.ordinal == _NEWEST))
    .join(TableRegistration, TableRegistration.topic_id == Topic.id)
    .join(_Value, _Value.id == TableRegistration.value_schema_id)
    .join(Subject, and_(Subject.topic_id == Topic.id, Subject.kind == SchemaKind.VALUE))
    .join(SubjectVersion, and_(SubjectVersion.subject_id == Subject.id, SubjectVersion.schema_id == _Value.id))
    .outerjoin(_Key, _Key.id == Topic.key_schema_id)
    .outerjoin(_Before, _Before.id == Topic.follows_id)
    .where(
        Namespace.name == bindparam("namespace"),
        Source.table_schema == bindparam("table_schema"),
        Source.table_name == bindparam("table_name"),
        _Value.fingerprint == bindparam("fingerprint"),
        SubjectVersion.status == Status.ENABLED,
    )
)


def _find(session: Session, shape: TableShape) -> _Known | None:
    """Return the answer of a shape that is on the table's newest topic, None for any other."""
    parameters = {
        "namespace": shape.namespace,
        "table_schema": shape.table.schema,
        "table_name": shape.table.name,
        "fingerprint": shape.value.fingerprint,
    }
    found = session.execute(_FIND, parameters).one_or_none()
    if found is None:
        return None
    topic, key_id, contains_pii, cluster_type, base_id, *more = found
    key_fingerprint, key_text, value_id, before, registration_id, is_newest = more
    facts = shape.facts
    same_facts = contains_pii == shape.contains_pii and base_id == facts.base_schema_id
    if not same_facts or not same_cluster(cluster_type, facts):
        return None
    if not same_key((key_fingerprint, key_text) if key_id is not None else None, shape.key):
        return None
    return _Known(Registered(topic, key_id, value_id, before or ""), registration_id, bool(is_newest))


def _register(work: UnitOfWork, shape: TableShape, said: SourceAnnotations) -> Registered:
    if shape.facts.base_schema_id is not None:
        schema_by_id(work.session, shape.facts.base_schema_id)
    source = _locked_source(work.session, shape)
    document_source(work, source, said)
    known = _find(work.session, shape)
    topic = _newest_topic(work.session, source)
    if known is None or not known.is_newest:
        describe_source(work, source, Described(shape.value.text, shape.key_fields))
    if known is None:
        require_documentation(source)
        if topic:
            open_subject(work.session, f"{topic.name}-value", topic)
        problems = topic_problems(work.session, topic, shape) if topic else ()
        if topic is None or problems:
            topic = _open_topic(work.session, source, topic, shape, problems)
    assert topic is not None  # noqa: S101 - what is known has a topic
    keep_facts(work, topic, shape.facts)
    if known is not None:
        if not known.is_newest:
            _stand_at(work.session, topic, known.answer.value_schema_id)
        return known.answer
    value = keep_schema(work.session, shape.value)
    subject = open_subject(work.session, f"{topic.name}-value", topic)
    if find_version(work.session, subject, shape.value) is None:
        add_version(work.session, subject, value)
    _stand_at(work.session, topic, value.id)
    return _answer(topic, value)


def _stand_at(session: Session, topic: Topic, value_schema_id: int) -> None:
    """Make a shape the newest one of its table; one that comes back gets a new place in the order."""
    session.execute(
        delete(TableRegistration).where(
            TableRegistration.topic_id == topic.id, TableRegistration.value_schema_id == value_schema_id
        )
    )
    session.add(
        TableRegistration(
            source_id=topic.source_id, topic_id=topic.id, value_schema_id=value_schema_id, created_at_ms=now_ms()
        )
    )


def _locked_source(session: Session, shape: TableShape) -> Source:
    """Return the table's row, locked, so that one registration of a table at a time decides.

    Two that make the row at the same time meet in its unique constraint; the
    loser's work runs again and finds the winner's row.
    """
    namespace = open_namespace(session, shape.namespace)
    query = select(Source).where(
        Source.namespace_id == namespace.id,
        Source.table_schema == shape.table.schema,
        Source.table_name == shape.table.name,
    )
    source = session.scalars(query.with_for_update(of=Source)).one_or_none()
    if source is None:
        source = Source(
            namespace=namespace,
            table_schema=shape.table.schema,
            table_name=shape.table.name,
            created_at_ms=now_ms(),
        )
        session.add(source)
        session.flush()
        enter_source(session, source)
    return source


def _newest_topic(session: Session, source: Source) -> Topic | None:
    query = select(Topic).where(Topic.source_id == source.id).order_by(Topic.ordinal.desc()).limit(1)
    return session.scalars(query).one_or_none()


def _open_topic(
    session: Session, source: Source, before: Topic | None, shape: TableShape, problems: tuple[Problem, ...]
) -> Topic:
    key = keep_schema(session, shape.key) if shape.key else None
    name = _free_name(session, shape, before.ordinal + 1 if before else 1)
    topic = Topic(
        name=name,
        collision_name=collision_name(name),
        source=source,
        ordinal=before.ordinal + 1 if before else 1,
        follows=before,
        key_schema_id=key.id if key else None,
        key_fields=list(shape.key_fields),
        opened_because=[str(problem) for problem in problems],
        contains_pii=shape.contains_pii,
        cluster_type="",
        base_schema_id=shape.facts.base_schema_id,
        created_at_ms=now_ms(),
    )
    session.add(topic)
    session.flush()
    place = HistoryPlace(Thing.TOPIC, shape.namespace, shape.table.schema, shape.table.name)
    enter_new(session, place, topic.id, name, "")
    if key:
        add_version(session, open_subject(session, f"{name}-key", topic), key)
    return topic


def _free_name(session: Session, shape: TableShape, ordinal: int) -> str:
    """Return the plain name unless Kafka or another table, or a subject of somebody else's, stands against it."""
    plain = plan_topic_name(shape.namespace, shape.table, ordinal)
    if not is_legal(plain) or _is_taken(session, plain):
        return plan_distinct_topic_name(shape.namespace, shape.table, ordinal)
    return plain


def _is_taken(session: Session, name: str) -> bool:
    query = select(Topic.id).where(Topic.collision_name == collision_name(name))
    return session.scalar(query) is not None or any(is_used(session, f"{name}-{kind}") for kind in ("key", "value"))


def _answer(topic: Topic, value: Schema) -> Registered:
    follows = topic.follows.name if topic.follows else ""
    return Registered(topic.name, topic.key_schema_id, value.id, follows)

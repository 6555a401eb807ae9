"""The topic rule: which schema ids and which topic a table gets.

A table's topics form a chain, and only the newest takes changes, so whoever
reads the chain from its start reads every key's changes in order. A shape of
the table stays on the newest topic if everybody who reads that topic can read
it and the other way round: it is compatible both ways, exactly, with every
enabled schema there, its key encodes to the same bytes, and it is as private.
Else it opens the next topic. A table that goes back to an older shape is not
sent back to that shape's topic: its new changes would come before the changes
that lie in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import and_, bindparam, func, select
from sqlalchemy.orm import aliased

from penstock.core.compatibility import mutual_problems, same_encoding
from penstock.schematizer.database import Database, now_ms
from penstock.schematizer.models import (
    Kind,
    Namespace,
    Schema,
    Source,
    Status,
    Subject,
    SubjectVersion,
    TableRegistration,
    Topic,
)
from penstock.schematizer.schemas import keep_schema, parse_schema
from penstock.schematizer.subjects import add_version, enabled_versions, find_subject, find_version, open_subject
from penstock.schematizer.topic_names import collision_name, is_legal, plan_distinct_topic_name, plan_topic_name

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from penstock.core.tables import TableId
    from penstock.schematizer.schemas import ParsedSchema


@dataclass(frozen=True, slots=True)
class TableShape:
    """One shape of a table of `namespace`; `key` is None, and `key_fields` empty, without a primary key."""

    namespace: str
    table: TableId
    key: ParsedSchema | None
    key_fields: tuple[str, ...]
    value: ParsedSchema
    contains_pii: bool


@dataclass(frozen=True, slots=True)
class Registered:
    """What a shape was given; `follows` is the topic before this one, "" if this is the first."""

    topic: str
    key_schema_id: int | None
    value_schema_id: int
    follows: str


def register_table(database: Database, shape: TableShape) -> Registered:
    """Register `shape`. The newest shape of a table gets the same answer however often it is registered."""
    known = database.read(lambda session: _find(session, shape))
    return known or database.write(lambda session: _register(session, shape))


_Key, _Value, _Before = aliased(Schema), aliased(Schema), aliased(Topic)
_NEWEST = select(func.max(Topic.ordinal)).where(Topic.source_id == Source.id).correlate(Source).scalar_subquery()
# Registering what is known is the common case: one statement, put together once.
_FIND = (
    select(Topic.name, Topic.key_schema_id, Topic.contains_pii, _Key.fingerprint, _Key.text, _Value.id, _Before.name)
    .select_from(Source)
    .join(Namespace, Namespace.id == Source.namespace_id)
    .join(Topic, and_(Topic.source_id == Source.id, Topic.ordinal == _NEWEST))
    .join(TableRegistration, TableRegistration.topic_id == Topic.id)
    .join(_Value, _Value.id == TableRegistration.value_schema_id)
    .join(Subject, and_(Subject.topic_id == Topic.id, Subject.kind == Kind.VALUE))
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


def _find(session: Session, shape: TableShape) -> Registered | None:
    """Return the answer of a shape that is where the table stands now, None for any other."""
    parameters = {
        "namespace": shape.namespace,
        "table_schema": shape.table.schema,
        "table_name": shape.table.name,
        "fingerprint": shape.value.fingerprint,
    }
    found = session.execute(_FIND, parameters).one_or_none()
    if found is None:
        return None
    topic, key_id, contains_pii, key_fingerprint, key_text, value_id, before = found
    key = (key_fingerprint, key_text) if key_id is not None else None
    if contains_pii != shape.contains_pii or not _same_key(key, shape.key):
        return None
    return Registered(topic, key_id, value_id, before or "")


def _same_key(stored: tuple[str, str] | None, key: ParsedSchema | None) -> bool:
    """Tell whether a key writes the bytes of the stored one (fingerprint and text); None is "no key"."""
    if stored is None or key is None:
        return stored is None and key is None
    fingerprint, text = stored
    return fingerprint == key.fingerprint or same_encoding(parse_schema(text).avro, key.avro)


def _register(session: Session, shape: TableShape) -> Registered:
    source = _locked_source(session, shape)
    known = _find(session, shape)
    if known is not None:
        return known
    topic = _newest_topic(session, source)
    problems = _problems(session, topic, shape) if topic else ()
    if topic is None or problems:
        topic = _open_topic(session, source, topic, shape, problems)
    value = keep_schema(session, shape.value)
    subject = open_subject(session, f"{topic.name}-value", topic)
    if find_version(session, subject, shape.value) is None:
        add_version(session, subject, value)
    session.add(
        TableRegistration(source_id=source.id, topic_id=topic.id, value_schema_id=value.id, created_at_ms=now_ms())
    )
    return _answer(topic, value)


def _locked_source(session: Session, shape: TableShape) -> Source:
    """Return the table's row, locked, so that one registration of a table at a time decides.

    Two that make the row at the same time meet in its unique constraint; the
    loser's work runs again and finds the winner's row.
    """
    namespace = session.scalars(select(Namespace).where(Namespace.name == shape.namespace)).one_or_none()
    if namespace is None:
        namespace = Namespace(name=shape.namespace, created_at_ms=now_ms())
        session.add(namespace)
        session.flush()
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
    return source


def _newest_topic(session: Session, source: Source) -> Topic | None:
    query = select(Topic).where(Topic.source_id == source.id).order_by(Topic.ordinal.desc()).limit(1)
    return session.scalars(query).one_or_none()


def _problems(session: Session, topic: Topic, shape: TableShape) -> tuple[str, ...]:
    """List what keeps `shape` off `topic`; empty if nothing does."""
    problems = list(_key_problems(session, topic, shape))
    subject = open_subject(session, f"{topic.name}-value", topic)
    known = find_version(session, subject, shape.value)
    if known is not None and known.status == Status.DISABLED:
        problems.append("its schema is disabled there")
    for version in enabled_versions(session, subject):
        found = mutual_problems(shape.value.avro, parse_schema(version.schema.text).avro)
        problems += [f"version {version.version}: {problem}" for problem in found]
    return tuple(problems)


def _key_problems(session: Session, topic: Topic, shape: TableShape) -> tuple[str, ...]:
    """List what the key and the privacy of `shape` have against `topic`.

    A key's bytes decide its partition, and begin with its schema's id: a topic
    has one key schema for ever, and a key that encodes the same is given that.
    """
    if topic.contains_pii != shape.contains_pii:
        return ("only one of both contains personal data",)
    stored = session.get_one(Schema, topic.key_schema_id) if topic.key_schema_id is not None else None
    if _same_key((stored.fingerprint, stored.text) if stored else None, shape.key):
        return ()
    return (f"the key was ({', '.join(topic.key_fields)}), and is another or encoded in another way",)


def _open_topic(
    session: Session, source: Source, before: Topic | None, shape: TableShape, problems: tuple[str, ...]
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
        opened_because=list(problems),
        contains_pii=shape.contains_pii,
        created_at_ms=now_ms(),
    )
    session.add(topic)
    session.flush()
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
    subjects: list[Subject | None] = [find_subject(session, f"{name}-{kind}") for kind in ("key", "value")]
    return session.scalar(query) is not None or any(subjects)


def _answer(topic: Topic, value: Schema) -> Registered:
    follows = topic.follows.name if topic.follows else ""
    return Registered(topic.name, topic.key_schema_id, value.id, follows)

"""Where the things are that requests name: the namespaces and subjects that grants are for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select

from penstock.schematizer.ids import is_storable, parse_guid
from penstock.schematizer.security.access import InNamespace, InSubject
from penstock.schematizer.security.demands import InGuid, InNote, InSchema, InTopic
from penstock.schematizer.storage.models import Namespace, Note, Schema, Source, Subject, SubjectVersion, Topic

if TYPE_CHECKING:
    from sqlalchemy import Select
    from sqlalchemy.orm import Session

    from penstock.schematizer.security.access import Place
    from penstock.schematizer.security.demands import Target

_SUBJECTS = (
    select(Subject.name, Namespace.name)
    .outerjoin(Topic, Topic.id == Subject.topic_id)
    .outerjoin(Source, Source.id == Topic.source_id)
    .outerjoin(Namespace, Namespace.id == Source.namespace_id)
)


def places_of(session: Session, target: Target) -> list[Place]:  # noqa: PLR0911 - a line for each kind of target
    """Return the places that a target is in; none for what is not there, one for what is not there yet."""
    match target:
        case InNamespace(name):
            # MySQL finds a name that is asked for with blanks behind it.
            known = session.scalar(select(Namespace.name).where(Namespace.name == _storable(name)))
            return [InNamespace(known)] if known is not None else [target]
        case InSubject(name):
            return _subjects(session, _SUBJECTS.where(Subject.name == _storable(name))) or [target]
        case InTopic(name):
            query = select(Namespace.name).join(Source, Source.namespace_id == Namespace.id)
            query = query.join(Topic, Topic.source_id == Source.id).where(Topic.name == _storable(name))
            return [InNamespace(each) for each in session.scalars(query)]
        case InSchema(number) if is_storable(number):
            return _of_schema(session, number)
        case InGuid(guid):
            return _of_guid(session, guid)
        case InNote(number) if is_storable(number):
            noted = session.scalar(select(Note.schema_id).where(Note.id == number))
            return _of_schema(session, noted) if noted is not None else []
        case _:
            return []


def _of_schema(session: Session, schema_id: int) -> list[Place]:
    query = _SUBJECTS.join(SubjectVersion, SubjectVersion.subject_id == Subject.id)
    return _subjects(session, query.where(SubjectVersion.schema_id == schema_id).distinct())


def _of_guid(session: Session, guid: str) -> list[Place]:
    try:
        digits = parse_guid(guid)
    except ValueError:
        return []
    query = _SUBJECTS.join(SubjectVersion, SubjectVersion.subject_id == Subject.id)
    query = query.join(Schema, Schema.id == SubjectVersion.schema_id)
    return _subjects(session, query.where(Schema.fingerprint.startswith(digits)).distinct())


def _subjects(session: Session, query: Select[str, str]) -> list[Place]:
    return [
        InNamespace(namespace) if namespace else InSubject(subject) for subject, namespace in session.execute(query)
    ]


def _storable(name: str) -> str:
    """Return a name that every database can be asked for; none that is kept has a zero byte."""
    return name.replace("\x00", "\x01")

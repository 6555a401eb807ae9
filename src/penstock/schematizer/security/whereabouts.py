"""Where the things are that requests name: the namespaces and subjects that grants are for."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from sqlalchemy import select

from penstock.schematizer.security.access import InNamespace, InSubject
from penstock.schematizer.security.demands import InNote, InSchema, InTopic
from penstock.schematizer.storage.models import Namespace, Note, Schema, Source, Subject, SubjectVersion, Topic

if TYPE_CHECKING:
    from sqlalchemy import Select
    from sqlalchemy.orm import Session

    from penstock.schematizer.security.access import Place
    from penstock.schematizer.security.demands import Target

_ID_MAX = (1 << 63) - 1
_SUBJECTS = (
    select(Subject.name, Namespace.name)
    .outerjoin(Topic, Topic.id == Subject.topic_id)
    .outerjoin(Source, Source.id == Topic.source_id)
    .outerjoin(Namespace, Namespace.id == Source.namespace_id)
)


def places_of(session: Session, target: Target) -> list[Place]:
    """Return the places that a target is in; none for what is not there, one for what is not there yet."""
    match target:
        case InNamespace():
            return [target]
        case InSubject(name):
            return _subjects(session, _SUBJECTS.where(Subject.name == _storable(name))) or [target]
        case InTopic(name):
            query = select(Namespace.name).join(Source, Source.namespace_id == Namespace.id)
            query = query.join(Topic, Topic.source_id == Source.id).where(Topic.name == _storable(name))
            return [InNamespace(each) for each in session.scalars(query)]
        case InSchema(named):
            return _of_schema(session, named)
        case InNote(number):
            noted = session.scalar(select(Note.schema_id).where(Note.id == min(int(number[:20]), _ID_MAX)))
            return _of_schema(session, str(noted)) if noted is not None else []
        case _:
            return []


def _of_schema(session: Session, named: str) -> list[Place]:
    query = _SUBJECTS.join(SubjectVersion, SubjectVersion.subject_id == Subject.id)
    if named.isascii() and named.isdecimal():
        query = query.where(SubjectVersion.schema_id == min(int(named[:20]), _ID_MAX))
    else:
        try:
            digits = UUID(named).hex
        except ValueError:
            return []
        query = query.join(Schema, Schema.id == SubjectVersion.schema_id)
        query = query.where(Schema.fingerprint.startswith(digits))
    return _subjects(session, query.distinct())


def _subjects(session: Session, query: Select[str, str]) -> list[Place]:
    return [
        InNamespace(namespace) if namespace else InSubject(subject) for subject, namespace in session.execute(query)
    ]


def _storable(name: str) -> str:
    """Return a name that every database can be asked for; none that is kept has a zero byte."""
    return name.replace("\x00", "\x01")

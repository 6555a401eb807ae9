"""Associations: the subject that the keys, or the values, of a topic go by.

Source: Confluent Schema Registry API reference, "Associations". Serializers ask
for a topic's associations first, and go by the topic's name where it has none.
A STRONG association's subject belongs to that topic alone, and is deleted with it
where that is asked for; WEAK ones share subjects. A frozen one is not changed any
more, and deleted only together with its subject.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn
from uuid import uuid4

from sqlalchemy import select

from penstock.schematizer.contexts import parse_subject
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.registry.deletion import delete_subject
from penstock.schematizer.registry.modes import check_changeable
from penstock.schematizer.registry.registering import find_declared, register_declared
from penstock.schematizer.registry.subjects import enabled_versions, open_subject
from penstock.schematizer.security.access import Role
from penstock.schematizer.storage.association_models import Association, Lifecycle
from penstock.schematizer.storage.database import now_ms
from penstock.schematizer.storage.models import Subject

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.orm import Session
    from sqlalchemy.sql.elements import ColumnElement

    from penstock.schematizer.registry.schemas import Declared
    from penstock.schematizer.security.rights import Rights
    from penstock.schematizer.storage.models import SubjectVersion

_ANY_NAMESPACE = "-"


@dataclass(frozen=True, slots=True)
class Resource:
    """A topic of a cluster."""

    namespace: str
    name: str
    id: str
    type: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """An association that is asked for; None is "as it is", or the default of a new one."""

    type: str
    subject: str | None
    lifecycle: Lifecycle | None
    frozen: bool | None
    schema: Declared | None


@dataclass(frozen=True, slots=True)
class Filters:
    """Which associations; what is empty lets all through."""

    resource_type: str
    association_types: tuple[str, ...] = ()
    lifecycle: Lifecycle | None = None


@dataclass(frozen=True, slots=True)
class Associated:
    """An association, and the version that was registered with it."""

    association: Association
    version: SubjectVersion | None


def associate(
    session: Session, asking: Rights, resource: Resource, wanted: Sequence[Wanted], *, is_new: bool
) -> list[Associated]:
    """Make or change the associations of a resource; where they must be new, only the same ones may be there.

    Who is `asking` may write every subject, and read what is used of others. Raises
    RefusedError, and then nothing is done.
    """
    if len({each.type for each in wanted}) < len(wanted):
        refuse("associationType", "one association for keys and one for values is all that a topic has")
    there = {each.association_type: each for each in by_resource_id(session, resource.id, Filters(resource.type))}
    planned = [_planned(resource, each, there.get(each.type)) for each in wanted]
    for made, known in [(each, there.get(each.type)) for each in planned]:
        _check_rights(session, asking, resource, made, known)
    return [_associate(session, resource, each, there.get(each.type), is_new=is_new) for each in planned]


def by_subject(session: Session, subject: str, filters: Filters) -> list[Association]:
    """List the associations of a subject."""
    return _listed(session, filters, Subject.name == subject)


def by_resource_id(session: Session, resource_id: str, filters: Filters) -> list[Association]:
    """List the associations of a resource."""
    return _listed(session, filters, Association.resource_id == resource_id)


def by_resource_name(session: Session, namespace: str, name: str, filters: Filters) -> list[Association]:
    """List the associations of the resources of that name; the namespace `-` is any."""
    conditions = [Association.resource_name == name]
    if namespace != _ANY_NAMESPACE:
        conditions.append(Association.resource_namespace == namespace)
    return _listed(session, filters, *conditions)


def dissociate(session: Session, asking: Rights, resource_id: str, filters: Filters, *, cascade: bool) -> list[int]:
    """Delete associations, and for `cascade` the subjects of strong ones, for ever; the ids of those schemas.

    Raises RefusedError where there are none, for frozen ones without `cascade`, and
    for those of subjects that who is `asking` may not write, or not delete for ever.
    """
    found = by_resource_id(session, resource_id, filters)
    if not found:
        message = f"there is no association for {resource_id!r}"
        raise RefusedError(Code.UNKNOWN_ASSOCIATION, message, "see GET /associations/resources/-/{topic}")
    for association in found:
        goes_for_ever = cascade and association.lifecycle == Lifecycle.STRONG
        asking.require(session, Role.ADMIN if goes_for_ever else Role.WRITE, association.subject.name)
        check_changeable(session, association.subject.name)
        if association.frozen and not cascade:
            raise _frozen(association)
        session.delete(association)
    session.flush()
    if not cascade:
        return []
    strong = [each.subject.name for each in found if each.lifecycle == Lifecycle.STRONG]
    return [schema_id for name in strong for schema_id in _delete_for_ever(session, name)]


def refuse(field: str, problem: str) -> NoReturn:
    """Refuse a field that does not do."""
    raise RefusedError(Code.INVALID_ASSOCIATION, f"{field}: {problem}", "correct the association and try again")


def _associate(
    session: Session, resource: Resource, made: Wanted, there: Association | None, *, is_new: bool
) -> Associated:
    name = made.subject or ""
    check_changeable(session, name)
    if there is not None:
        if _is_same(session, there, made):
            return Associated(there, None)
        _check_change(there, made, resource, is_new=is_new)
    subject = open_subject(session, name)
    version = register_declared(session, name, made.schema) if made.schema else None
    if not enabled_versions(session, subject):
        message = f"subject {name!r} has no schema"
        raise RefusedError(Code.NO_SCHEMA_TO_ASSOCIATE, message, "register one first, or send one along")
    _check_others(session, subject, made, there)
    if there is None:
        there = _add(session, resource, made, subject)
    else:
        there.lifecycle, there.frozen, there.updated_at_ms = str(made.lifecycle), bool(made.frozen), now_ms()
    session.flush()
    return Associated(there, version)


def _check_rights(
    session: Session, asking: Rights, resource: Resource, made: Wanted, there: Association | None
) -> None:
    name = made.subject or ""
    asking.require(session, Role.WRITE, name)
    # Without an association the topic goes by this one: whoever may not write it does not lead the topic elsewhere.
    asking.require(session, Role.WRITE, f"{resource.name}-{made.type}")
    if there is not None:
        # Its subject is in what is answered.
        asking.require(session, Role.WRITE, there.subject.name)
    for use in made.schema.uses if made.schema else ():
        asking.require(session, Role.READ, str(parse_subject(use.subject, parse_subject(name).context)))


def _planned(resource: Resource, wanted: Wanted, there: Association | None) -> Wanted:
    """Fill in what the caller left out."""
    owned = Lifecycle.STRONG if wanted.schema or wanted.frozen else Lifecycle.WEAK
    lifecycle = wanted.lifecycle or (Lifecycle(there.lifecycle) if there else owned)
    frozen = wanted.frozen if wanted.frozen is not None else bool(there and there.frozen)
    subject = wanted.subject or (there.subject.name if there else None)
    if lifecycle is Lifecycle.WEAK:
        if wanted.schema is not None:
            refuse("lifecycle", "a schema that is sent along belongs to one topic: that is STRONG")
        if frozen:
            refuse("frozen", "what is WEAK cannot be frozen")
        if subject is None:
            refuse("subject", "say which one is shared")
    if subject is None:
        subject = f":.{resource.namespace}:{resource.name}-{wanted.type}"
    if not parse_subject(subject).plain:
        refuse("subject", "a context is no subject")
    return Wanted(wanted.type, subject, lifecycle, frozen, wanted.schema)


def _is_same(session: Session, there: Association, made: Wanted) -> bool:
    if (there.subject.name, there.lifecycle, there.frozen) != (made.subject, made.lifecycle, made.frozen):
        return False
    return made.schema is None or find_declared(session, there.subject.name, made.schema) is not None


def _check_change(there: Association, made: Wanted, resource: Resource, *, is_new: bool) -> None:
    if is_new:
        message = f"{resource.name!r} has another association for its {made.type}s: subject {there.subject.name!r}"
        hint = "change it with PUT /associations/resources/{resourceId}"
        raise RefusedError(Code.ASSOCIATION_EXISTS, message, hint)
    if there.frozen:
        raise _frozen(there)
    if there.subject.name != made.subject:
        refuse("subject", f"it is {there.subject.name!r} for ever; delete the association to make another one")


def _check_others(session: Session, subject: Subject, made: Wanted, there: Association | None) -> None:
    query = select(Association).where(Association.subject_id == subject.id)
    others = [each for each in session.scalars(query) if there is None or each.id != there.id]
    if made.lifecycle is Lifecycle.STRONG and others:
        message = f"subject {subject.name!r} has associations, so it cannot belong to one topic alone"
        raise RefusedError(Code.SUBJECT_ASSOCIATED, message, "use another subject, or a WEAK association")
    if any(each.lifecycle == Lifecycle.STRONG for each in others):
        message = f"subject {subject.name!r} belongs to the topic {others[0].resource_name!r} alone"
        raise RefusedError(Code.SUBJECT_OWNED, message, "use another subject")


def _add(session: Session, resource: Resource, made: Wanted, subject: Subject) -> Association:
    named = by_resource_name(session, resource.namespace, resource.name, Filters(resource.type, (made.type,)))
    if named:
        message = f"{resource.name!r} has an association for its {made.type}s by another id, {named[0].resource_id!r}"
        raise RefusedError(Code.ASSOCIATION_EXISTS, message, "delete that one first")
    association = Association(
        guid=str(uuid4()),
        resource_namespace=resource.namespace,
        resource_name=resource.name,
        resource_id=resource.id,
        resource_type=resource.type,
        association_type=made.type,
        subject=subject,
        lifecycle=str(made.lifecycle),
        frozen=bool(made.frozen),
        created_at_ms=now_ms(),
        updated_at_ms=now_ms(),
    )
    session.add(association)
    return association


def _listed(session: Session, filters: Filters, *conditions: ColumnElement[bool]) -> list[Association]:
    query = select(Association).join(Subject, Subject.id == Association.subject_id).where(*conditions)
    query = query.where(Association.resource_type == filters.resource_type)
    if filters.association_types:
        query = query.where(Association.association_type.in_(filters.association_types))
    if filters.lifecycle is not None:
        query = query.where(Association.lifecycle == filters.lifecycle)
    return list(session.scalars(query.order_by(Association.id)))


def _delete_for_ever(session: Session, name: str) -> list[int]:
    deleted = [each.schema_id for each in delete_subject(session, name, permanent=False)]
    delete_subject(session, name, permanent=True)
    return deleted


def _frozen(association: Association) -> RefusedError:
    message = f"the association of {association.resource_name!r} with subject {association.subject.name!r} is frozen"
    hint = "delete it together with its subject: cascadeLifecycle=true"
    return RefusedError(Code.ASSOCIATION_FROZEN, message, hint)

"""Deletion: softly, so that ids still answer and versions can be read with `deleted`; then for ever.

Source: Confluent Schema Registry API reference, "Subjects". What a table
registered is not deleted: its topic has messages with these ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, func, select

from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.registry.references import users_of
from penstock.schematizer.registry.subjects import open_subject, subject_versions, version_of
from penstock.schematizer.storage.association_models import Association
from penstock.schematizer.storage.models import (
    DeletedSchema,
    Note,
    Schema,
    SearchEntry,
    Status,
    Subject,
    SubjectVersion,
    TableRegistration,
    Thing,
    Topic,
)
from penstock.schematizer.storage.usage_models import ClientUse, MetaAttribute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.orm import Session


def delete_subject(session: Session, name: str, *, permanent: bool) -> list[SubjectVersion]:
    """Delete a subject's versions, and return those that were. Raises RefusedError."""
    versions = _locked_versions(session, name)
    live = [version for version in versions if version.status != Status.DELETED]
    if permanent and live:
        message = f"Subject '{name}' was not deleted first before being permanently deleted"
        raise RefusedError(Code.SUBJECT_NOT_DELETED, message, "delete it without permanent=true first")
    if not permanent and not live:
        message = f"Subject '{name}' was soft deleted.Set permanent=true to delete permanently"
        raise RefusedError(Code.SUBJECT_DELETED, message, "say permanent=true to delete it for ever")
    chosen = list(versions) if permanent else live
    subject = chosen[0].subject
    _check_unassociated(session, subject)
    _delete(session, chosen, permanent=permanent)
    subject.compatibility = subject.mode = ""
    subject.normalize = subject.compatibility_group = None
    return chosen


def delete_version(session: Session, name: str, wanted: str, *, permanent: bool) -> SubjectVersion:
    """Delete one version of a subject, and return it. Raises RefusedError."""
    version = version_of(_locked_versions(session, name), wanted)
    if wanted in {"latest", "-1"} and not permanent:
        version = version_of(subject_versions(session, name), wanted)
    place = f"Subject '{name}' Version {version.version}"
    if permanent and version.status != Status.DELETED:
        message = f"{place} was not deleted first before being permanently deleted"
        raise RefusedError(Code.VERSION_NOT_DELETED, message, "delete it without permanent=true first")
    if not permanent and version.status == Status.DELETED:
        message = f"{place} was soft deleted.Set permanent=true to delete permanently"
        raise RefusedError(Code.VERSION_DELETED, message, "say permanent=true to delete it for ever")
    if not permanent and len(subject_versions(session, name)) == 1:
        _check_unassociated(session, version.subject)
    _delete(session, [version], permanent=permanent)
    return version


def _locked_versions(session: Session, name: str) -> Sequence[SubjectVersion]:
    """Lock a subject that has versions and return them, as they are after the wait; refuse one of a table."""
    subject_versions(session, name, deleted=True)
    if open_subject(session, name).topic_id is not None:
        message = f"subject {name!r} belongs to a table's topic, whose messages need its schemas"
        raise RefusedError(Code.NOT_PERMITTED, message, "disable the schema, so that the table opens a new topic")
    session.expire_all()
    return subject_versions(session, name, deleted=True)


def _check_unassociated(session: Session, subject: Subject) -> None:
    """Refuse a subject that topics go by: their serializers would find nothing there."""
    query = select(Association).where(Association.subject_id == subject.id)
    topics = [f"{association.resource_name!r}" for association in session.scalars(query)]
    if topics:
        message = f"subject {subject.name!r} has associations with {', '.join(topics)}"
        hint = "delete those: DELETE /associations/resources/{resourceId}"
        raise RefusedError(Code.SUBJECT_ASSOCIATED, message, hint)


def _delete(session: Session, versions: Sequence[SubjectVersion], *, permanent: bool) -> None:
    for version in versions:
        users = users_of(session, version, deleted=permanent)
        if users:
            names = ", ".join(str(user) for user in users)
            message = (
                f"One or more references exist to the schema: version {version.version} of subject "
                f"{version.subject.name!r} is used by the schemas {names}"
            )
            raise RefusedError(Code.REFERENCED, message, "delete those first")
    for version in versions:
        version.status = Status.DELETED
        if permanent:
            session.delete(version)
    session.flush()
    if permanent:
        for schema in {version.schema_id: version.schema for version in versions}.values():
            _forget_unused(session, schema)


def _forget_unused(session: Session, schema: Schema) -> None:
    """Delete a schema that nothing has any more; its id is not given to another one.

    Of several who take its last uses away at once, the last one sees that it was the last.
    """
    session.execute(select(Schema.id).where(Schema.id == schema.id).with_for_update())
    uses = (
        select(func.count()).where(SubjectVersion.schema_id == schema.id),
        select(func.count()).where(TableRegistration.value_schema_id == schema.id),
        select(func.count()).where(Topic.key_schema_id == schema.id),
        select(func.count()).where(Topic.base_schema_id == schema.id),
        select(func.count()).where(ClientUse.schema_id == schema.id),
        select(func.count()).where(MetaAttribute.schema_id == schema.id),
    )
    if not any(session.scalar(use) for use in uses):
        if session.scalar(select(DeletedSchema.id).where(DeletedSchema.schema_id == schema.id)) is None:
            session.add(DeletedSchema(schema_id=schema.id, fingerprint=schema.fingerprint))
        _delete_notes(session, schema)
        session.delete(schema)
        session.flush()


def _delete_notes(session: Session, schema: Schema) -> None:
    """Delete what was remarked on a schema; the history keeps who said it."""
    noted = select(Note.id).where(Note.schema_id == schema.id)
    entries = delete(SearchEntry).where(SearchEntry.kind == Thing.NOTE, SearchEntry.entity_id.in_(noted))
    session.execute(entries.execution_options(synchronize_session=False))
    session.execute(delete(Note).where(Note.schema_id == schema.id).execution_options(synchronize_session=False))

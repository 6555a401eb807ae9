"""What Confluent's clients register: looked up, checked, and given its place.

Source: Confluent Schema Registry documentation, "Data contracts" and "Migrate
schemas". A schema that comes without metadata and rules stands for the newest
version with its text, and takes over what was added to the version before it.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from sqlalchemy import select

from penstock.schematizer.contexts import parse_subject
from penstock.schematizer.formats.schema_types import SchemaType
from penstock.schematizer.ids import is_storable
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.registry.modes import check_importing
from penstock.schematizer.registry.schemas import Additions, keep_schema, parse_declared
from penstock.schematizer.registry.subjects import (
    add_version,
    check_compatible,
    enabled_versions,
    find_latest_text,
    find_subject,
    find_version,
    open_subject,
    register_version,
    subject_versions,
)
from penstock.schematizer.storage.database import now_ms
from penstock.schematizer.storage.models import DeletedSchema, Schema, Status, SubjectVersion

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from penstock.schematizer.registry.schemas import Declared, ParsedSchema


def find_declared(session: Session, name: str, declared: Declared, *, deleted: bool = False) -> SubjectVersion | None:
    """Return the version of subject `name` with this schema, a `deleted` one only if asked for; None without one."""
    subject = find_subject(session, name)
    if subject is None:
        return None
    schema = parse_declared(session, name, declared, deleted=True)
    found = find_version(session, subject, schema)
    if found is None and not schema.additions:
        found = find_latest_text(session, subject, schema)
    if found is not None and found.status == Status.ENABLED:
        return found
    if not deleted:
        return None
    versions = subject_versions(session, name, deleted=True)
    return next(
        (each for each in reversed(versions) if schema.is_kept_as(each.schema_id, each.schema.fingerprint)), None
    )


def foresee(session: Session, name: str, declared: Declared) -> SubjectVersion | None:
    """Return the version of subject `name` with this schema, None if it may become one. Writes nothing.

    Whatever takes long is done here, and remembered: a program that compiles Protobuf,
    and comparisons. No transaction that writes waits for it. Raises RefusedError.
    """
    if declared.kind == SchemaType.PROTOBUF:
        parse_declared(session, name, declared, deleted=True)
    known = find_declared(session, name, declared)
    subject = find_subject(session, name)
    if known is None and subject is not None:
        _check_name(session, name)
        check_compatible(session, subject, with_older_additions(session, name, declared))
    return known


def with_older_additions(session: Session, name: str, declared: Declared) -> ParsedSchema:
    """Return the schema that `declared` would be as the next version of subject `name`. Raises RefusedError."""
    schema = parse_declared(session, name, declared)
    subject = find_subject(session, name)
    older = enabled_versions(session, subject) if subject else ()
    if not older:
        return schema
    before = older[-1].schema
    additions = Additions(
        before.metadata_json if schema.additions.metadata is None else schema.additions.metadata,
        before.rule_set_json if schema.additions.rules is None else schema.additions.rules,
    )
    return dataclasses.replace(schema, additions=additions)


def register_declared(session: Session, name: str, declared: Declared) -> SubjectVersion:
    """Return the version of subject `name` with this schema, adding it if all rules allow. Raises RefusedError."""
    _check_name(session, name)
    open_subject(session, name)
    known = find_declared(session, name, declared)
    if known is not None:
        return known
    return register_version(session, name, with_older_additions(session, name, declared))


def import_declared(
    session: Session, name: str, declared: Declared, schema_id: int, number: int | None
) -> SubjectVersion:
    """Give a schema the id and the version (the next one for None) that it had elsewhere, whatever levels say.

    Raises RefusedError where another schema has one of them, and outside IMPORT mode.
    """
    check_importing(session, name, wanted=True)
    subject = open_subject(session, name)
    schema = parse_declared(session, name, declared)
    if subject.topic_id is not None:
        message = f"subject {name!r} belongs to a table, which gives its schemas their ids"
        raise RefusedError(Code.NOT_PERMITTED, message, "import into another subject")
    _check_id(session, schema_id, schema)
    stored = keep_schema(session, schema, schema_id)
    _follow_id(session)
    query = select(SubjectVersion).where(SubjectVersion.subject_id == subject.id).order_by(SubjectVersion.version)
    at_number: SubjectVersion | None = None
    for each in session.scalars(query):
        is_live, is_this = each.status == Status.ENABLED, each.schema_id == schema_id
        if is_live and is_this and number in {None, each.version}:
            return each
        if is_this and each.version == number:
            at_number = each
        elif each.version == number or (is_live and is_this):
            message = f"subject {name!r} has schema {each.schema_id} as version {each.version}"
            hint = "import it as it is there, or delete that version for ever"
            raise RefusedError(Code.NOT_PERMITTED, message, hint)
        if is_live and each.schema.text == schema.text and schema.is_kept_as(each.schema_id, each.schema.fingerprint):
            message = f"subject {name!r} has the schema already, as {each.schema_id}"
            raise RefusedError(Code.NOT_PERMITTED, message, "use the id that it has here, or import another subject")
    if at_number is not None:
        # It was deleted softly, and is as it was.
        at_number.status = Status.ENABLED
        return at_number
    if number is None:
        return add_version(session, subject, stored)
    return _put_version(session, subject_id=subject.id, number=number, stored=stored)


def _check_name(session: Session, name: str) -> None:
    check_importing(session, name, wanted=False)
    if not parse_subject(name).plain:
        message = f"The specified subject {name!r} is not a valid name: it is that of a context"
        raise RefusedError(Code.INVALID_SUBJECT, message, "put the subject's name after it")


def _check_id(session: Session, schema_id: int, schema: ParsedSchema) -> None:
    if not is_storable(schema_id):
        message = f"a schema cannot have the id {schema_id}"
        raise RefusedError(Code.INVALID_REQUEST, message, "ids begin at 1; leave `id` out for the next one")
    there = session.get(Schema, schema_id)
    if there is not None and not schema.is_kept_as(schema_id, there.fingerprint):
        message = f"the id {schema_id} is another schema's"
        raise RefusedError(Code.NOT_PERMITTED, message, "import into an empty registry")
    # In this order: whoever deletes a schema writes its id down in the same transaction.
    deleted = session.scalar(select(DeletedSchema.fingerprint).where(DeletedSchema.schema_id == schema_id))
    if there is None and deleted is not None and not schema.is_kept_as(schema_id, deleted):
        message = f"the id {schema_id} was another schema's, which was deleted for ever"
        hint = "import into an empty registry: whoever knows the id would read data by the wrong schema"
        raise RefusedError(Code.NOT_PERMITTED, message, hint)


def _follow_id(session: Session) -> None:
    """See to it that the next schema gets an id that is free; PostgreSQL does not look at ids that were given."""
    connection = session.connection()
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(
            "SELECT setval(pg_get_serial_sequence('schemas', 'id'), GREATEST((SELECT MAX(id) FROM schemas), "
            "(SELECT last_value FROM schemas_id_seq)))"
        )


def _put_version(session: Session, *, subject_id: int, number: int, stored: Schema) -> SubjectVersion:
    version = SubjectVersion(
        subject_id=subject_id, version=number, schema=stored, status=Status.ENABLED, created_at_ms=now_ms()
    )
    session.add(version)
    session.flush()
    session.refresh(version)
    return version

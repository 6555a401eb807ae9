"""Schemas that use other schemas, which are named by their place in a subject.

Source: Confluent Schema Registry documentation, "Schema references".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import select
from sqlalchemy.orm import object_session

from penstock.schematizer.contexts import parse_subject
from penstock.schematizer.formats.protobuf_schemas import ProtobufSchema, serialized
from penstock.schematizer.formats.schema_types import Dependency, Form, SchemaType, parse_text
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.registry.protobuf_files import find_descriptor
from penstock.schematizer.storage.models import READABLE, Schema, SchemaReference, Status, Subject, SubjectVersion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.orm import Session

_NEWEST = -1


@dataclass(frozen=True, slots=True)
class Use:
    """What a caller says that its schema uses; version -1 is the newest."""

    name: str
    subject: str
    version: int


def resolve_uses(
    session: Session, subject: str, uses: Sequence[Use], *, deleted: bool = False
) -> tuple[SchemaReference, ...]:
    """Find what a schema for `subject` uses. Raises RefusedError for what is not there, or is deleted."""
    return tuple(
        SchemaReference(ordinal=ordinal, name=use.name, version=_find(session, subject, use, deleted=deleted))
        for ordinal, use in enumerate(uses)
    )


def dependencies_of(kind: str, references: Sequence[SchemaReference]) -> tuple[Dependency, ...]:
    """List everything that references lead to, what is used before what uses it.

    Raises RefusedError where they lead to another type of schema, or to two
    schemas by one name.
    """
    found: dict[str, Schema] = {}
    for reference in references:
        _collect(kind, reference, found)
    listed: dict[int, Dependency] = {}
    for name, schema in found.items():
        # Avro goes by the names in the texts; the others by the names of references, of which a schema may have two.
        place = schema.id if kind == SchemaType.AVRO else len(listed)
        listed.setdefault(place, Dependency(name, schema.text, _descriptor(schema)))
    return tuple(listed.values())


def form_of(schema: Schema) -> Form:
    """Return what a stored schema says."""
    kind, dependencies = SchemaType(schema.type), dependencies_of(schema.type, schema.references)
    session = object_session(schema)
    compiled = b""
    if kind == SchemaType.PROTOBUF and session is not None:
        compiled = find_descriptor(session, schema.text, dependencies)
    return parse_text(kind, schema.text, dependencies, compiled).form


def text_of(schema: Schema, wanted: str) -> str:
    """Return a stored schema's text in the format that is `wanted`: Protobuf also has `serialized`."""
    form = form_of(schema) if wanted == "serialized" and schema.type == SchemaType.PROTOBUF else None
    return serialized(form) if isinstance(form, ProtobufSchema) else schema.text


def users_of(session: Session, version: SubjectVersion, *, deleted: bool = False) -> list[int]:
    """List the ids of schemas that use `version`, of those that are `deleted` everywhere only if asked for."""
    query = select(SchemaReference.schema_id).where(SchemaReference.version_id == version.id)
    if not deleted:
        query = query.join(SubjectVersion, SubjectVersion.schema_id == SchemaReference.schema_id).where(
            SubjectVersion.status != Status.DELETED
        )
    return list(session.scalars(query.distinct().order_by(SchemaReference.schema_id)))


def _collect(kind: str, reference: SchemaReference, found: dict[str, Schema]) -> None:
    schema = reference.version.schema
    if schema.type != kind:
        message = f"Invalid schema: the reference {reference.name!r} leads to a schema of another type, {schema.type}"
        raise RefusedError(Code.INVALID_SCHEMA, message, f"refer to {kind} schemas only")
    known = found.get(reference.name)
    if known is not None and known.id != schema.id:
        two = f"{known.id} and {schema.id}"
        message = f"Invalid schema: the references lead to two schemas called {reference.name!r}: {two}"
        raise RefusedError(Code.INVALID_SCHEMA, message, "refer to one version of it, everywhere")
    if known is None:
        for inner in schema.references:
            _collect(kind, inner, found)
        found[reference.name] = schema


def _descriptor(schema: Schema) -> bytes:
    form = form_of(schema) if schema.type == SchemaType.PROTOBUF else None
    return form.descriptor if isinstance(form, ProtobufSchema) else b""


def _find(session: Session, subject: str, use: Use, *, deleted: bool) -> SubjectVersion:
    name = str(parse_subject(use.subject, within=parse_subject(subject).context))
    query = select(SubjectVersion).join(Subject, Subject.id == SubjectVersion.subject_id).where(Subject.name == name)
    if not deleted:
        query = query.where(SubjectVersion.status.in_(READABLE))
    if use.version != _NEWEST:
        query = query.where(SubjectVersion.version == use.version)
    version = session.scalars(query.order_by(SubjectVersion.version.desc()).limit(1)).one_or_none()
    if version is None:
        nowhere = f"subject {name!r} has no version {use.version}"
        message = f"Invalid schema: the reference {use.name!r} leads nowhere: {nowhere}"
        raise RefusedError(Code.INVALID_SCHEMA, message, "register what the schema refers to first")
    return version

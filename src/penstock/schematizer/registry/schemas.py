"""The store of schemas: one id per schema, whoever registers it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from sqlalchemy import select

from penstock.core.avro_types import AvroSchema
from penstock.schematizer.formats.protobuf_schemas import ProtobufSchema, is_descriptor
from penstock.schematizer.formats.schema_types import Form, SchemaType, digest, parse_text, plain_text
from penstock.schematizer.formats.strict_schemas import default_problem, json_problem
from penstock.schematizer.ids import is_storable, parse_guid
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.registry.protobuf_files import find_descriptor, keep_descriptor
from penstock.schematizer.registry.references import Use, dependencies_of, resolve_uses
from penstock.schematizer.storage.database import now_ms
from penstock.schematizer.storage.models import Schema, SchemaReference

if TYPE_CHECKING:
    from pydantic import JsonValue
    from sqlalchemy.orm import Session

_GUID_DIGITS = 32


@dataclass(frozen=True, slots=True)
class Additions:
    """What Confluent's clients add to a schema: None where they add nothing. A part of what a schema is."""

    metadata: dict[str, JsonValue] | None = None
    rules: dict[str, JsonValue] | None = None

    def __bool__(self) -> bool:
        """Tell whether there are any."""
        return self.metadata is not None or self.rules is not None


@dataclass(frozen=True, slots=True)
class Declared:
    """A schema as a caller sends it, before anything was looked at."""

    kind: SchemaType
    text: str
    uses: tuple[Use, ...] = ()
    additions: Additions = Additions()
    normalize: bool = False

    @property
    def format(self) -> str:
        """Return the format of the text. Its sender is answered in that: clients keep an answer as what they sent."""
        return "serialized" if self.kind == SchemaType.PROTOBUF and is_descriptor(self.text) else ""


@dataclass(frozen=True, slots=True)
class ParsedSchema:
    """A schema that is known to be one.

    `text_fingerprint` is the same for texts that differ only in white space, in
    how names are written and in the order of attributes or references;
    `fingerprint` tells additions too. `older_fingerprint` is the text's in a
    registry of an older release, which told more texts apart.
    """

    kind: SchemaType
    text: str
    form: Form
    text_fingerprint: str
    references: tuple[SchemaReference, ...] = ()
    additions: Additions = Additions()
    older_fingerprint: str = ""

    @property
    def fingerprint(self) -> str:
        """Return what no other schema has."""
        return self._with_additions(self.text_fingerprint)

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """Return all that it may be known by here: what it has had for longest first."""
        return tuple(self._with_additions(each) for each in self.text_fingerprints)

    @property
    def text_fingerprints(self) -> tuple[str, ...]:
        """Return all that its text may be known by here."""
        return (*([self.older_fingerprint] if self.older_fingerprint else []), self.text_fingerprint)

    def is_kept_as(self, schema_id: int, fingerprint: str) -> bool:
        """Tell whether this is the schema that is, or was, kept by this id and fingerprint."""
        return fingerprint in self.fingerprints or fingerprint in {
            second_fingerprint(each, schema_id) for each in self.fingerprints
        }

    def _with_additions(self, fingerprint: str) -> str:
        if not self.additions:
            return fingerprint
        return digest([fingerprint, self.additions.metadata, self.additions.rules])

    @property
    def avro(self) -> AvroSchema:
        """Return what an Avro schema says; callers know that it is one."""
        assert isinstance(self.form, AvroSchema)  # noqa: S101 - only subjects of tables ask, which take nothing else
        return self.form


def parse_schema(text: str) -> ParsedSchema:
    """Check that `text` is an Avro schema. Raises RefusedError that says where it is not."""
    parsed = parse_text(SchemaType.AVRO, text, ())
    return ParsedSchema(
        SchemaType.AVRO, text, parsed.form, parsed.fingerprint, older_fingerprint=parsed.older_fingerprint
    )


def parse_declared(session: Session, subject: str, declared: Declared, *, deleted: bool = False) -> ParsedSchema:
    """Check a schema for `subject` together with what it uses, `deleted` or not. Raises RefusedError."""
    references = resolve_uses(session, subject, declared.uses, deleted=deleted)
    dependencies = dependencies_of(declared.kind, references)
    text = plain_text(declared.kind, declared.text, dependencies)
    compiled = find_descriptor(session, text, dependencies) if declared.kind == SchemaType.PROTOBUF else b""
    parsed = parse_text(declared.kind, text, dependencies, compiled)
    if text != declared.text and isinstance(parsed.form, ProtobufSchema) and parsed.form.text != text:
        message = "Invalid schema: this descriptor was not compiled from a Protobuf text"
        raise RefusedError(
            Code.INVALID_SCHEMA,
            message,
            "send the text of the .proto file, or the descriptor that protoc compiled from it",
        )
    fingerprint, older = parsed.fingerprint, parsed.older_fingerprint
    if references or declared.kind != SchemaType.AVRO:
        used = sorted([use.name, use.version.subject.name, use.version.version] for use in references)
        fingerprint, older = (each and digest([declared.kind, each, used]) for each in (fingerprint, older))
    kept = parsed.normal if declared.normalize else text
    return ParsedSchema(declared.kind, kept, parsed.form, fingerprint, references, declared.additions, older)


def require_strict(schema: ParsedSchema) -> None:
    """Refuse a new schema with numbers that are no JSON, or with a default that is no value of its field."""
    if schema.kind == SchemaType.PROTOBUF:
        return
    problem = json_problem(schema.text)
    if not problem and schema.kind == SchemaType.AVRO:
        problem = default_problem(schema.text, [each.text for each in dependencies_of(schema.kind, schema.references)])
    if problem:
        message = f"Invalid schema: {problem}"
        raise RefusedError(Code.INVALID_SCHEMA, message, "correct the schema and try again")


def second_fingerprint(fingerprint: str, schema_id: int) -> str:
    """Return the fingerprint of a schema that was imported by another id than it has here already."""
    return digest([fingerprint, schema_id])


def find_schema(session: Session, schema: ParsedSchema) -> Schema | None:
    """Return the stored schema, None if there is none yet."""
    query = select(Schema).where(Schema.fingerprint.in_(schema.fingerprints))
    found = {stored.fingerprint: stored for stored in session.scalars(query)}
    return next((found[each] for each in schema.fingerprints if each in found), None)


def keep_schema(session: Session, schema: ParsedSchema, schema_id: int | None = None) -> Schema:
    """Return the stored schema, storing it first if need be.

    `schema_id` is the id that an import wants, which no other schema has. If the
    schema is here by another one, it is kept once more, with the text that it
    comes with: data and clients know it by both.
    """
    stored, fingerprint = find_schema(session, schema), schema.fingerprint
    if schema_id is not None and stored is not None and stored.id != schema_id:
        fingerprint = second_fingerprint(fingerprint, schema_id)
    if schema_id is not None:
        stored = session.get(Schema, schema_id)
    if stored is None:
        if schema_id is None:
            # What is imported is as it was elsewhere.
            require_strict(schema)
        stored = Schema(
            id=schema_id,
            fingerprint=fingerprint,
            text=schema.text,
            created_at_ms=now_ms(),
            type=schema.kind,
            text_fingerprint=schema.text_fingerprint,
            metadata_json=schema.additions.metadata,
            rule_set_json=schema.additions.rules,
            references=list(schema.references),
        )
        session.add(stored)
        if isinstance(schema.form, ProtobufSchema):
            texts, dependencies = (schema.text, schema.form.text), dependencies_of(schema.kind, schema.references)
            keep_descriptor(session, texts, dependencies, schema.form.descriptor)
        session.flush()
    return stored


def schema_by_id(session: Session, schema_id: int) -> Schema:
    """Return the schema `schema_id`; RefusedError if there is none."""
    stored = session.get(Schema, schema_id) if is_storable(schema_id) else None
    return _found(stored, str(schema_id))


def schema_by_guid(session: Session, guid: str) -> Schema:
    """Return the schema with this GUID; RefusedError if there is none."""
    try:
        digits = parse_guid(guid)
    except ValueError:
        return _found(None, guid[:80])
    return _found(session.scalars(select(Schema).where(Schema.fingerprint.startswith(digits))).first(), guid)


def guid_of(schema: Schema) -> str:
    """Return a name that a schema has in every registry of this kind: the first half of its fingerprint."""
    return str(UUID(schema.fingerprint[:_GUID_DIGITS]))


def _found(stored: Schema | None, wanted: str) -> Schema:
    if stored is None:
        hint = "check that this registry is the one that the data was written with"
        raise RefusedError(Code.UNKNOWN_SCHEMA, f"Schema {wanted} not found", hint)
    return stored

"""The store of schemas: one id per schema, whoever registers it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import fastavro
from fastavro.schema import SchemaParseException, UnknownType
from sqlalchemy import select

from penstock.core.avro_types import AvroSchema, parse_avro
from penstock.schematizer.database import now_ms
from penstock.schematizer.models import Schema
from penstock.schematizer.refusals import Code, RefusedError

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

_TEXT_CHARACTERS_MAX = 1 << 20
_PARSED_SCHEMAS_MAX = 256


@dataclass(frozen=True, slots=True)
class ParsedSchema:
    """A schema that is known to be Avro.

    `fingerprint` is the same for texts that differ only in white space and in
    the order of attributes.
    """

    text: str
    fingerprint: str
    avro: AvroSchema


@lru_cache(_PARSED_SCHEMAS_MAX)
def parse_schema(text: str) -> ParsedSchema:
    """Check that `text` is an Avro schema. Raises RefusedError that says where it is not."""
    try:
        return _parse(text)
    except UnknownType as error:
        reason = f'there is no type "{error.name}"'
        cause: Exception = error
    except (ValueError, SchemaParseException) as error:
        reason, cause = str(error), error
    message = f"this is no Avro schema: {reason}"
    raise RefusedError(Code.INVALID_SCHEMA, message, "correct the schema and try again") from cause


def find_schema(session: Session, schema: ParsedSchema) -> Schema | None:
    """Return the stored schema, None if there is none yet."""
    return session.scalars(select(Schema).where(Schema.fingerprint == schema.fingerprint)).one_or_none()


def keep_schema(session: Session, schema: ParsedSchema) -> Schema:
    """Return the stored schema, storing it first if need be."""
    stored = find_schema(session, schema)
    if stored is None:
        stored = Schema(fingerprint=schema.fingerprint, text=schema.text, created_at_ms=now_ms())
        session.add(stored)
        session.flush()
    return stored


def schema_by_id(session: Session, schema_id: int) -> Schema:
    """Return the schema `schema_id`; RefusedError if there is none."""
    stored = session.get(Schema, schema_id) if schema_id < 1 << 63 else None
    if stored is None:
        raise RefusedError(
            Code.UNKNOWN_SCHEMA,
            f"there is no schema {schema_id}",
            "check that this registry is the one that the data was written with",
        )
    return stored


def _parse(text: str) -> ParsedSchema:
    if len(text) > _TEXT_CHARACTERS_MAX:
        message = f"it is longer than {_TEXT_CHARACTERS_MAX} characters"
        raise ValueError(message)
    avro = parse_avro(text)
    declared = json.loads(text)
    # fastavro also checks what does not matter for compatibility: defaults, symbols, precisions.
    fastavro.parse_schema(declared)
    canonical = json.dumps(declared, sort_keys=True, separators=(",", ":"))
    return ParsedSchema(text, hashlib.sha256(canonical.encode()).hexdigest(), avro)

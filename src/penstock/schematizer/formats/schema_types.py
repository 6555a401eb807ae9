"""From a schema's text to what compatibility looks at, for every type of schema."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from penstock.core.avro_types import AvroSchema, parse_avro
from penstock.schematizer.formats.avro_forms import normal_text, one_form
from penstock.schematizer.formats.avro_place import find_place
from penstock.schematizer.formats.json_schemas import JsonSchema, parse_json_schema
from penstock.schematizer.formats.protobuf_schemas import ProtobufSchema, compile_schema, compiled_schema, protobuf_text
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.storage.words import is_clean, print_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastavro.types import NamedSchemas

    from penstock.core.avro_types import Named

_TEXT_CHARACTERS_MAX = 1 << 20
_PARSED_SCHEMAS_MAX = 256
# A longer text is not searched for the place of its mistake, which takes some dozen parses.
_PLACED_CHARACTERS_MAX = 1 << 16


class SchemaType(StrEnum):
    """The languages that schemas are written in."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


Form: TypeAlias = AvroSchema | JsonSchema | ProtobufSchema


@dataclass(frozen=True, slots=True)
class Dependency:
    """A schema that another one uses, under the name by which it is used; `descriptor` is Protobuf's."""

    name: str
    text: str
    descriptor: bytes = b""


@dataclass(frozen=True, slots=True)
class ParsedText:
    """What a text says.

    `fingerprint` is the same for texts that differ only in what does not count:
    white space, the order of attributes and, of Avro, how names are written.
    Registries of older releases have `older_fingerprint`, which tells names apart.
    """

    fingerprint: str
    form: Form
    normal: str
    older_fingerprint: str = ""


@lru_cache(_PARSED_SCHEMAS_MAX)
def parse_text(kind: SchemaType, text: str, dependencies: tuple[Dependency, ...], compiled: bytes = b"") -> ParsedText:
    """Check that `text` is a schema of this type; what it uses comes before what uses that.

    `compiled` is the descriptor of a Protobuf schema that is known to be one.
    Raises RefusedError that says where it is none.
    """
    try:
        if len(text) > _TEXT_CHARACTERS_MAX:
            message = f"it is longer than {_TEXT_CHARACTERS_MAX} characters"
            raise ValueError(message)  # noqa: TRY301 - one way out for all that is wrong with a text
        if not is_clean(text):
            message = "it has half of a surrogate pair, or NUL, which no text in UTF-8 is kept with"
            raise ValueError(message)  # noqa: TRY301 - as above
        match kind:
            case SchemaType.AVRO:
                return _parse_avro(text, dependencies)
            case SchemaType.JSON:
                return _parse_json(text, dependencies)
            case _:
                return _parse_protobuf(text, dependencies, compiled)
    except (ValueError, OverflowError, SchemaParseException, UnknownType) as error:
        message = f"Invalid schema: this is no {_NAMES[kind]} schema: {_reason(error)}"
        raise RefusedError(Code.INVALID_SCHEMA, message, "correct the schema and try again") from error


_NAMES = {SchemaType.AVRO: "Avro", SchemaType.JSON: "JSON", SchemaType.PROTOBUF: "Protobuf"}


@lru_cache(_PARSED_SCHEMAS_MAX)
def plain_text(kind: SchemaType, text: str, dependencies: tuple[Dependency, ...]) -> str:
    """Return a schema's text as it is kept: of a Protobuf descriptor, its canonical one. Raises RefusedError."""
    if kind != SchemaType.PROTOBUF or len(text) > _TEXT_CHARACTERS_MAX:
        return text
    try:
        return protobuf_text(text, {each.name: each.descriptor for each in dependencies})
    except ValueError as error:
        message = f"Invalid schema: this is no Protobuf schema: {error}"
        raise RefusedError(Code.INVALID_SCHEMA, message, "correct the schema and try again") from error


def digest(parts: object) -> str:
    """Return the SHA-256 of some JSON, in hexadecimal: the same whatever the order of its attributes."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _parse_avro(text: str, dependencies: tuple[Dependency, ...]) -> ParsedText:
    known: dict[str, Named] = {}
    checked: NamedSchemas = {}
    for dependency in dependencies:
        known = dict(parse_avro(dependency.text, known).names)
        fastavro.parse_schema(json.loads(dependency.text), named_schemas=checked)

    def check(text: str) -> AvroSchema:
        form = parse_avro(text, known)
        # fastavro also checks what does not matter for compatibility: defaults, symbols, precisions.
        fastavro.parse_schema(json.loads(text), named_schemas=dict(checked))
        return form

    try:
        form = check(text)
    except (ValueError, SchemaParseException, UnknownType) as error:
        if len(text) > _PLACED_CHARACTERS_MAX or not _is_json(text):
            raise
        line, column = find_place(text, lambda document: _is_avro(document, check))
        message = f"line {line}, column {column}: {_reason(error)}"
        raise ValueError(message) from error
    declared = json.loads(text)
    return ParsedText(digest(one_form(declared)), form, normal_text(declared), digest(declared))


def _reason(error: Exception) -> str:
    return f'there is no type "{error.name}"' if isinstance(error, UnknownType) else str(error)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _is_avro(document: object, check: Callable[[str], AvroSchema]) -> bool:
    try:
        check(json.dumps(document))
    except (ValueError, SchemaParseException, UnknownType):
        return False
    return True


def _parse_json(text: str, dependencies: tuple[Dependency, ...]) -> ParsedText:
    form = parse_json_schema(text, {each.name: each.text for each in dependencies})
    return ParsedText(digest(form.declared), form, print_json(form.declared, sort_keys=True))


def _parse_protobuf(text: str, dependencies: tuple[Dependency, ...], compiled: bytes) -> ParsedText:
    used = {each.name: each.descriptor for each in dependencies}
    form = compiled_schema(compiled, used) if compiled else compile_schema(text, used)
    return ParsedText(digest(form.text), form, form.text)

"""What Confluent's clients send and are answered.

Source: Confluent Schema Registry API reference. What is None is left out of an
answer; a schema without a type is Avro.
"""

import json
from collections.abc import Sequence
from typing import Annotated, TypeVar

from fastapi import Depends, Path, Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from penstock.schematizer.confluent_paths import CONTEXT, MEDIA_TYPE
from penstock.schematizer.contexts import DEFAULT_CONTEXT, parse_subject
from penstock.schematizer.formats.schema_types import SchemaType
from penstock.schematizer.path_segments import name_in
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.registry.configs import Config
from penstock.schematizer.registry.levels import Level
from penstock.schematizer.registry.references import Use, text_of
from penstock.schematizer.registry.schemas import Additions, Declared, guid_of
from penstock.schematizer.storage.models import Schema, SubjectVersion
from penstock.schematizer.storage.words import is_clean

_VERSION_MAX = (1 << 31) - 1
_ID_MAX = (1 << 31) - 1
_NOT_KEPT = frozenset({"alias", "defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet"})
_ALIAS_HINT = (
    "leave `alias` out; a topic that is to go by the subject of another name has an association: POST /associations"
)
T = TypeVar("T")


class ConfluentResponse(JSONResponse):
    """JSON under Confluent's own name."""

    media_type = MEDIA_TYPE


class Body(BaseModel):
    """What a client sends; what it adds and we do not know is left alone."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class ReferenceBody(Body):
    """A use of another schema."""

    name: str = Field(min_length=1)
    subject: str = Field(min_length=1)
    version: int = Field(ge=-1, le=_VERSION_MAX)


class RuleBody(BaseModel):
    """A rule, of which only the form is looked at: clients run rules, we keep them."""

    model_config = ConfigDict(extra="allow")

    name: str = Field(min_length=1)
    kind: str | None = None
    mode: str | None = None
    type: str | None = None


class RuleSetBody(BaseModel):
    """Rules, by what they are for."""

    model_config = ConfigDict(extra="allow")

    migration: list[RuleBody] | None = Field(alias="migrationRules", default=None)
    domain: list[RuleBody] | None = Field(alias="domainRules", default=None)
    encoding: list[RuleBody] | None = Field(alias="encodingRules", default=None)


class SchemaBody(Body):
    """A schema; `id` and `version` are for IMPORT mode."""

    text: str = Field(alias="schema", examples=['{"type": "string"}'])
    type: str | None = Field(alias="schemaType", default=None)
    references: list[ReferenceBody] | None = None
    metadata: dict[str, JsonValue] | None = None
    rules: dict[str, JsonValue] | None = Field(alias="ruleSet", default=None)
    id: int | None = Field(default=None, le=_ID_MAX)
    version: int | None = Field(default=None, le=_VERSION_MAX)

    def parse(self, *, normalize: bool = False) -> Declared:
        """Return what is declared, to be kept in one form where it is to `normalize`.

        Raises RefusedError for an unknown type, for rules that are none, and for what no answer could repeat.
        """
        name = self.type or SchemaType.AVRO
        if name not in list(SchemaType):
            message = f"Invalid schema type {name[:80]}"
            raise RefusedError(Code.INVALID_SCHEMA, message, f"use one of {', '.join(SchemaType)}")
        _check_rules(self.rules)
        _check_tellable(Code.INVALID_SCHEMA, "metadata", self.metadata)
        _check_tellable(Code.INVALID_RULES, "ruleset", self.rules)
        uses = tuple(Use(each.name, each.subject, each.version) for each in self.references or ())
        additions = Additions(self.metadata or None, self.rules or None)
        return Declared(SchemaType(name), self.text, uses, additions, normalize=normalize)


class ConfigBody(BaseModel):
    """A config. What else Confluent's configs have is refused: we do not act on it."""

    model_config = ConfigDict(frozen=True, extra="allow")

    compatibility: str | None = Field(default=None, examples=["FULL_TRANSITIVE"])
    normalize: bool | None = None
    group: str | None = Field(
        alias="compatibilityGroup", default=None, min_length=1, max_length=255, examples=["application.major.version"]
    )

    def parse(self) -> Config:
        """Return the config. Raises RefusedError for an unknown level, for what would be lost, and for nothing."""
        lost = [name for name, value in (self.model_extra or {}).items() if value is not None and name in _NOT_KEPT]
        if lost:
            message = f"this registry does not act on {', '.join(lost)}"
            hint = (
                _ALIAS_HINT if "alias" in lost else "send `compatibility`, `normalize` and `compatibilityGroup` alone"
            )
            raise RefusedError(Code.INVALID_REQUEST, message, hint)
        config = Config(self._level(), self.normalize, self.group)
        if config == Config():
            message = "the config says neither `compatibility` nor `normalize` nor `compatibilityGroup`"
            raise RefusedError(Code.INVALID_REQUEST, message, 'send {"compatibility": "FULL"}, or another level')
        return config

    def _level(self) -> Level | None:
        if self.compatibility is None:
            return None
        try:
            return Level(self.compatibility.upper())
        except ValueError as error:
            message = f"Invalid compatibility level. {self.compatibility[:80]!r} is none"
            raise RefusedError(Code.INVALID_LEVEL, message, f"use one of {', '.join(Level)}") from error


class ModeBody(Body):
    """A mode."""

    mode: str = Field(examples=["READONLY"])


class Answer(BaseModel):
    """Part of an answer."""

    model_config = ConfigDict(frozen=True)


class ReferenceAnswer(Answer):
    """A use of another schema."""

    name: str
    subject: str
    version: int


class SchemaAnswer(Answer):
    """A schema, and its place where it was asked for by that."""

    subject: str | None = None
    id: int | None = None
    version: int | None = None
    guid: str
    schema_type: str | None = Field(serialization_alias="schemaType", default=None)
    schema_text: str = Field(serialization_alias="schema")
    references: list[ReferenceAnswer] | None = None
    metadata: dict[str, JsonValue] | None = None
    rule_set: dict[str, JsonValue] | None = Field(serialization_alias="ruleSet", default=None)
    deleted: bool | None = None

    @classmethod
    def of(
        cls, schema: Schema, place: SubjectVersion | None = None, *, deleted: bool = False, wanted: str = ""
    ) -> "SchemaAnswer":
        """Render `schema`, at `place` if it is given, in the format that is `wanted`."""
        references = [
            ReferenceAnswer(name=use.name, subject=use.version.subject.name, version=use.version.version)
            for use in schema.references
        ]
        return cls(
            subject=place.subject.name if place else None,
            id=schema.id if place else None,
            version=place.version if place else None,
            guid=guid_of(schema),
            schema_type=None if schema.type == SchemaType.AVRO else schema.type,
            schema_text=text_of(schema, wanted),
            references=references or None,
            metadata=schema.metadata_json,
            rule_set=schema.rule_set_json,
            deleted=deleted or None,
        )


class PlaceAnswer(Answer):
    """A place in a subject."""

    subject: str
    version: int


class CompatibilityAnswer(Answer):
    """Whether a schema may follow a version; `messages` say why not, where `verbose` was asked for."""

    is_compatible: bool
    messages: list[str] | None = None


class Page(BaseModel):
    """A part of a list; a negative `limit` is no limit."""

    offset: int = Field(default=0, ge=0)
    limit: int = -1

    def of(self, items: Sequence[T]) -> list[T]:
        """Cut the part out."""
        return list(items[self.offset :] if self.limit < 0 else items[self.offset : self.offset + self.limit])


async def subject_in_path(request: Request, subject: Annotated[str, Path()]) -> str:
    """Return the whole name of the subject that a request is about."""
    within = request.scope.get(CONTEXT) or DEFAULT_CONTEXT
    # Not every database can be asked for a zero byte. No subject's name has a control character.
    return str(parse_subject(name_in(subject).replace("\x00", "\x01"), within))


SubjectPath = Annotated[str, Depends(subject_in_path)]
Deleted = Annotated[bool, Query(description="Those that are deleted too")]
Format = Annotated[str, Query(alias="format", description="Of Protobuf: `serialized`, a descriptor in Base64")]


def _check_rules(rules: dict[str, JsonValue] | None) -> None:
    try:
        RuleSetBody.model_validate(rules or {})
    except ValidationError as error:
        mistakes = "; ".join(f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}" for each in error.errors())
        raise RefusedError(Code.INVALID_RULES, f"Invalid ruleset: {mistakes}", "correct the rules") from error


def _check_tellable(code: Code, part: str, value: dict[str, JsonValue] | None) -> None:
    """Refuse what JSON in UTF-8 has not: one schema with it would spoil every list that it is in."""
    try:
        is_tellable = is_clean(json.dumps(value, ensure_ascii=False, allow_nan=False))
    except ValueError:
        is_tellable = False
    if not is_tellable:
        message = f"Invalid {part}: it has half of a surrogate pair, NaN or Infinity, which JSON in UTF-8 has not"
        raise RefusedError(code, message, f"leave that out of the {part}")

"""The routes that Confluent's clients know.

Source: Confluent Schema Registry API reference. Answers are
`application/vnd.schemaregistry.v1+json`. A route that is not here is a 404 in
the form of every other error, from which clients see that there are no
associations and go on without.
"""

import json
from typing import Annotated

from fastapi import APIRouter, Body, Depends, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field, JsonValue
from sqlalchemy import select
from sqlalchemy.orm import Session

from penstock.schematizer.answers import SchemaText
from penstock.schematizer.levels import Level, pair_problems
from penstock.schematizer.models import Status, Subject, SubjectVersion
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.schema_cache import SchemaCache
from penstock.schematizer.schemas import ParsedSchema, parse_schema, schema_by_id
from penstock.schematizer.subjects import (
    find_subject,
    find_version,
    global_level,
    level_of,
    open_subject,
    reading_of,
    register_version,
    set_global_level,
    subject_versions,
    version_of,
)
from penstock.schematizer.v1 import Store

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


class ConfluentResponse(JSONResponse):
    """JSON under Confluent's own name."""

    media_type = MEDIA_TYPE


class SchemaBody(BaseModel):
    """A schema as Confluent's clients send it; what they add and we do not know is left alone."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    text: str = Field(alias="schema", examples=['{"type": "string"}'])
    type: str = Field(alias="schemaType", default="AVRO")
    references: list[JsonValue] | None = None
    rules: JsonValue = Field(alias="ruleSet", default=None)

    def parse(self) -> ParsedSchema:
        """Check the schema. Raises RefusedError, also for what would be lost if we took it."""
        if self.type != "AVRO" or self.references or self.rules:
            message = "this release takes Avro schemas only, without references and rules"
            raise RefusedError(Code.INVALID_SCHEMA, message, "send one whole Avro schema")
        return parse_schema(self.text)


class LevelBody(BaseModel):
    """A compatibility level."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    compatibility: str = Field(examples=["FULL_TRANSITIVE"])

    def parse(self) -> Level:
        """Return the level. Raises RefusedError for an unknown one."""
        try:
            return Level(self.compatibility.upper())
        except ValueError as error:
            message = f"{self.compatibility[:80]!r} is not a compatibility level"
            raise RefusedError(Code.INVALID_LEVEL, message, f"use one of {', '.join(Level)}") from error


class RegisteredId(BaseModel):
    """The id of a schema that is registered."""

    id: int
    version: int


class SubjectVersionAnswer(BaseModel):
    """A schema and its place in a subject."""

    subject: str
    id: int
    version: int
    schema_text: SchemaText

    @classmethod
    def of(cls, version: SubjectVersion) -> "SubjectVersionAnswer":
        """Render `version`."""
        return cls(
            subject=version.subject.name, id=version.schema_id, version=version.version, schema_text=version.schema.text
        )


class PlaceAnswer(BaseModel):
    """A place in a subject."""

    subject: str
    version: int


class CompatibilityAnswer(BaseModel):
    """Whether a schema may follow a version; `messages` say why not, where `verbose` was asked for."""

    is_compatible: bool
    messages: list[str] | None = None


router = APIRouter(tags=["confluent"], default_response_class=ConfluentResponse)
SchemaFrom = Annotated[SchemaBody, Body()]


async def cache_of(request: Request) -> SchemaCache:
    """Return the cache of the application that a request came to."""
    cache = request.app.state.schemas
    assert isinstance(cache, SchemaCache)  # noqa: S101 - the application's factory put it there
    return cache


@router.get("/schemas/types", summary="Types of schemas")
async def get_types() -> list[str]:
    """List the types of schemas that are taken."""
    return ["AVRO"]


@router.get("/schemas/ids/{schema_id}", summary="A schema by its id")
async def get_schema(store: Store, cache: Annotated[SchemaCache, Depends(cache_of)], schema_id: int) -> Response:
    """Return a schema's text. What is asked for as `subject` makes no difference: ids are the same everywhere."""
    body = cache.get(schema_id)
    if body is None:
        text = await run_in_threadpool(store.read, lambda session: schema_by_id(session, schema_id).text)
        body = json.dumps({"schema": text}, ensure_ascii=False).encode()
        cache.put(schema_id, body)
    return Response(body, media_type=MEDIA_TYPE)


@router.get("/schemas/ids/{schema_id}/versions", summary="A schema's places")
def get_places(store: Store, schema_id: int) -> list[PlaceAnswer]:
    """List the subjects and versions that have a schema."""
    return store.read(lambda session: _places(session, schema_id))


@router.get("/schemas/ids/{schema_id}/subjects", summary="A schema's subjects")
def get_subjects_of_schema(store: Store, schema_id: int) -> list[str]:
    """List the subjects that have a schema."""
    return [place.subject for place in store.read(lambda session: _places(session, schema_id))]


@router.get("/subjects", summary="List subjects")
def get_subjects(store: Store, subject_prefix: Annotated[str, Query(alias="subjectPrefix")] = "") -> list[str]:
    """List the subjects that have a schema, by name."""
    query = (
        select(Subject.name)
        .join(SubjectVersion, SubjectVersion.subject_id == Subject.id)
        .where(SubjectVersion.status == Status.ENABLED, Subject.name.startswith(subject_prefix, autoescape=True))
        .group_by(Subject.name)
        .order_by(Subject.name)
    )
    return store.read(lambda session: list(session.scalars(query)))


@router.get("/subjects/{subject:path}/versions", summary="A subject's versions")
def get_versions(store: Store, subject: str) -> list[int]:
    """List the numbers of a subject's versions."""
    return store.read(lambda session: [version.version for version in subject_versions(session, subject)])


@router.get("/subjects/{subject:path}/versions/{version}", summary="One version")
def get_version(store: Store, subject: str, version: str) -> SubjectVersionAnswer:
    """Return one version of a subject by its number, or the newest as `latest`."""
    return store.read(lambda s: SubjectVersionAnswer.of(version_of(subject_versions(s, subject), version)))


@router.post("/subjects/{subject:path}/versions", summary="Register a schema")
def post_version(store: Store, subject: str, body: SchemaFrom) -> RegisteredId:
    """Register a schema under a subject; one that is there already keeps its id."""
    schema = body.parse()
    known = store.read(lambda session: _known(session, subject, schema))
    return known or store.write(lambda session: _registered_id(register_version(session, subject, schema)))


@router.post("/subjects/{subject:path}", summary="Look a schema up")
def post_lookup(store: Store, subject: str, body: SchemaFrom) -> SubjectVersionAnswer:
    """Say where in a subject a schema is."""
    schema = body.parse()
    return store.read(lambda session: _lookup(session, subject, schema))


@router.post("/compatibility/subjects/{subject:path}/versions/{version}", summary="Try a schema")
def post_compatibility(
    store: Store,
    subject: str,
    version: str,
    body: SchemaFrom,
    *,
    verbose: bool = False,
) -> CompatibilityAnswer:
    """Say whether a schema may follow one version of a subject at the subject's level."""
    schema = body.parse()
    problems = store.read(lambda session: _problems(session, subject, version, schema))
    return CompatibilityAnswer(is_compatible=not problems, messages=list(problems) if verbose else None)


@router.get("/config", summary="The global level")
def get_config(store: Store) -> dict[str, str]:
    """Return the level of subjects that have none of their own."""
    return {"compatibilityLevel": store.read(global_level)}


@router.put("/config", summary="Set the global level")
def put_config(store: Store, body: LevelBody) -> dict[str, str]:
    """Change the level of subjects that have none of their own."""
    level = body.parse()
    store.write(lambda session: set_global_level(session, level))
    return {"compatibility": level}


@router.get("/config/{subject:path}", summary="A subject's level")
def get_subject_config(
    store: Store, subject: str, *, default_to_global: Annotated[bool, Query(alias="defaultToGlobal")] = False
) -> dict[str, str]:
    """Return a subject's own level; the global one too where `defaultToGlobal` is asked for."""
    return {"compatibilityLevel": store.read(lambda session: _own_level(session, subject, or_global=default_to_global))}


@router.put("/config/{subject:path}", summary="Set a subject's level")
def put_subject_config(store: Store, subject: str, body: LevelBody) -> dict[str, str]:
    """Give a subject a level of its own. The subjects of a table still go by the topic rule as well."""
    level = body.parse()
    store.write(lambda session: _set_own_level(session, subject, level))
    return {"compatibility": level}


@router.get("/mode", summary="The mode")
async def get_mode() -> dict[str, str]:
    """Return the mode, which is always READWRITE."""
    return {"mode": "READWRITE"}


def _places(session: Session, schema_id: int) -> list[PlaceAnswer]:
    schema = schema_by_id(session, schema_id)
    query = select(SubjectVersion).where(SubjectVersion.schema_id == schema.id, SubjectVersion.status == Status.ENABLED)
    found = session.scalars(query.order_by(SubjectVersion.id))
    return [PlaceAnswer(subject=version.subject.name, version=version.version) for version in found]


def _known(session: Session, name: str, schema: ParsedSchema) -> RegisteredId | None:
    subject = find_subject(session, name)
    version = find_version(session, subject, schema) if subject else None
    return _registered_id(version) if version and version.status == Status.ENABLED else None


def _registered_id(version: SubjectVersion) -> RegisteredId:
    return RegisteredId(id=version.schema_id, version=version.version)


def _lookup(session: Session, name: str, schema: ParsedSchema) -> SubjectVersionAnswer:
    subject = subject_versions(session, name)[0].subject
    version = find_version(session, subject, schema)
    if version is None or version.status != Status.ENABLED:
        raise RefusedError(Code.UNKNOWN_SCHEMA, f"subject {name!r} does not have this schema", "register it first")
    return SubjectVersionAnswer.of(version)


def _problems(session: Session, name: str, wanted: str, schema: ParsedSchema) -> tuple[str, ...]:
    version = version_of(subject_versions(session, name), wanted)
    level = level_of(session, version.subject)
    return pair_problems(level, reading_of(version.subject), schema.avro, parse_schema(version.schema.text).avro)


def _own_level(session: Session, name: str, *, or_global: bool) -> Level:
    subject = find_subject(session, name)
    if (subject is None or not subject.compatibility) and not or_global:
        message = f"subject {name!r} has no compatibility level of its own"
        raise RefusedError(Code.NO_LEVEL_OF_ITS_OWN, message, "the global one holds: see GET /config")
    return level_of(session, subject)


def _set_own_level(session: Session, name: str, level: Level) -> None:
    open_subject(session, name).compatibility = level

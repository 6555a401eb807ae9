"""Confluent's routes of schemas: by id, by GUID, and all of them."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import PlainTextResponse, RedirectResponse, Response
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from penstock.schematizer.api.dependencies import Store
from penstock.schematizer.api.queries import Id
from penstock.schematizer.confluent.bodies import Deleted, Format, Page, PlaceAnswer, SchemaAnswer
from penstock.schematizer.confluent_paths import CONTEXT, MEDIA_TYPE
from penstock.schematizer.contexts import DEFAULT_CONTEXT, EVERY_CONTEXT, parse_subject
from penstock.schematizer.formats.schema_types import SchemaType
from penstock.schematizer.registry.references import text_of
from penstock.schematizer.registry.schema_cache import SchemaCache
from penstock.schematizer.registry.schemas import schema_by_guid, schema_by_id
from penstock.schematizer.security.rights import Asking, Rights
from penstock.schematizer.storage.models import READABLE, Schema, Status, Subject, SubjectVersion

router = APIRouter()


class Listing(Page):
    """Which schemas are listed."""

    subject_prefix: str = Query(alias="subjectPrefix", default=EVERY_CONTEXT)
    deleted: bool = False
    latest_only: bool = Query(alias="latestOnly", default=False)


async def cache_of(request: Request) -> SchemaCache:
    """Return the cache of the application that a request came to."""
    cache = request.app.state.schemas
    assert isinstance(cache, SchemaCache)  # noqa: S101 - the application's factory put it there
    return cache


def prefix_of(request: Request, subject_prefix: str) -> str:
    """Return what the names of the subjects that are wanted begin with, in the context that a path names."""
    within = request.scope.get(CONTEXT) or DEFAULT_CONTEXT
    if subject_prefix.startswith(EVERY_CONTEXT):
        return subject_prefix if within == DEFAULT_CONTEXT else f":{within}:{subject_prefix[len(EVERY_CONTEXT) :]}"
    return str(parse_subject(subject_prefix, within))


def begins_with(name: str, prefix: str) -> bool:
    """Tell whether a subject's name begins so; `:*:` is any context, the default one too."""
    if prefix.startswith(EVERY_CONTEXT):
        return parse_subject(name).plain.startswith(prefix[len(EVERY_CONTEXT) :])
    return name.startswith(prefix) and parse_subject(name).context == parse_subject(prefix).context


@router.get("/", summary="The root", include_in_schema=False)
async def get_root(request: Request) -> Response:
    """Answer those who ask whether anybody is here, and lead people with a browser to the pages."""
    if "text/html" in request.headers.get("accept", ""):
        return RedirectResponse(f"{request.scope.get('root_path', '')}/ui/", headers={"Vary": "Accept"})
    return Response("{}", media_type=MEDIA_TYPE, headers={"Vary": "Accept"})


@router.get("/schemas/types", summary="Types of schemas")
async def get_types() -> list[str]:
    """List the types of schemas that are taken."""
    return list(SchemaType)


@router.get("/schemas", summary="All schemas", response_model_exclude_none=True)
def get_schemas(store: Store, request: Request, listing: Annotated[Listing, Query()]) -> list[SchemaAnswer]:
    """List the schemas of subjects, by subject and version."""
    return store.read(lambda session: _listed(session, prefix_of(request, listing.subject_prefix), listing))


@router.get("/schemas/ids/{schema_id}", summary="A schema by its id")
async def get_schema(
    store: Store,
    cache: Annotated[SchemaCache, Depends(cache_of)],
    schema_id: Id,
    wanted: Format = "",
    *,
    fetch_max_id: Annotated[bool, Query(alias="fetchMaxId")] = False,
) -> Response:
    """Return a schema. What is asked for as `subject` makes no difference: ids are the same everywhere."""
    body, drops = None if wanted else cache.get(schema_id), cache.drops
    if body is None:
        body = await run_in_threadpool(store.read, lambda session: _rendered(session, schema_id, wanted))
    if not wanted:
        cache.put(schema_id, body, drops)
    if fetch_max_id:
        newest = await run_in_threadpool(store.read, lambda session: session.scalar(select(func.max(Schema.id))))
        body = body[:-1] + f',"maxId":{newest}}}'.encode()
    return Response(body, media_type=MEDIA_TYPE)


@router.get("/schemas/ids/{schema_id}/schema", summary="A schema's text")
def get_text(store: Store, schema_id: Id, wanted: Format = "") -> Response:
    """Return a schema's text alone."""
    text = store.read(lambda session: text_of(schema_by_id(session, schema_id), wanted))
    return PlainTextResponse(text, media_type=MEDIA_TYPE)


@router.get("/schemas/ids/{schema_id}/versions", summary="A schema's places")
def get_places(
    store: Store,
    schema_id: Id,
    asking: Asking,
    page: Annotated[Page, Query()],
    *,
    subject: str = "",
    deleted: Deleted = False,
) -> list[PlaceAnswer]:
    """List the subjects and versions that have a schema, of those subjects that the user may read."""
    return page.of(store.read(lambda session: _places(session, asking, schema_id, subject, deleted=deleted)))


@router.get("/schemas/ids/{schema_id}/subjects", summary="A schema's subjects")
def get_subjects_of_schema(
    store: Store,
    schema_id: Id,
    asking: Asking,
    page: Annotated[Page, Query()],
    *,
    subject: str = "",
    deleted: Deleted = False,
) -> list[str]:
    """List the subjects that have a schema, of those that the user may read."""
    places = store.read(lambda session: _places(session, asking, schema_id, subject, deleted=deleted))
    return page.of(list(dict.fromkeys(place.subject for place in places)))


@router.get("/schemas/guids/{guid}", summary="A schema by its GUID", response_model_exclude_none=True)
def get_schema_by_guid(store: Store, guid: str, wanted: Format = "") -> SchemaAnswer:
    """Return a schema by the name that it has in every registry of this kind."""
    return store.read(lambda session: SchemaAnswer.of(schema_by_guid(session, guid), wanted=wanted))


@router.get("/schemas/guids/{guid}/ids", summary="A GUID's ids")
def get_ids(store: Store, guid: str) -> list[dict[str, str | int]]:
    """List the ids that a schema has, one for all contexts."""
    return [{"context": DEFAULT_CONTEXT, "id": store.read(lambda session: schema_by_guid(session, guid).id)}]


def _rendered(session: Session, schema_id: int, wanted: str) -> bytes:
    answer = SchemaAnswer.of(schema_by_id(session, schema_id), wanted=wanted)
    return answer.model_dump_json(by_alias=True, exclude_none=True).encode()


def _places(session: Session, asking: Rights, schema_id: int, subject: str, *, deleted: bool) -> list[PlaceAnswer]:
    schema = schema_by_id(session, schema_id)
    query = select(SubjectVersion).where(SubjectVersion.schema_id == schema.id)
    if not deleted:
        query = query.where(SubjectVersion.status.in_(READABLE))
    if subject:
        query = query.join(Subject, Subject.id == SubjectVersion.subject_id).where(Subject.name == subject)
    found = session.scalars(query.order_by(SubjectVersion.id))
    return [
        PlaceAnswer(subject=version.subject.name, version=version.version)
        for version in found
        if asking.may_read(session, version.subject.name)
    ]


def _listed(session: Session, prefix: str, listing: Listing) -> list[SchemaAnswer]:
    query = select(SubjectVersion).join(Subject, Subject.id == SubjectVersion.subject_id)
    if not listing.deleted:
        query = query.where(SubjectVersion.status.in_(READABLE))
    found = session.scalars(query.order_by(Subject.name, SubjectVersion.version))
    wanted = [version for version in found if begins_with(version.subject.name, prefix)]
    if listing.latest_only:
        wanted = list({version.subject_id: version for version in wanted}.values())
    return [
        SchemaAnswer.of(version.schema, version, deleted=version.status == Status.DELETED)
        for version in listing.of(wanted)
    ]

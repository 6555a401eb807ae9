"""Confluent's routes of subjects: their versions, looked up, registered, tried and deleted."""

from typing import Annotated

from fastapi import APIRouter, Body, Depends, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import PlainTextResponse, Response
from sqlalchemy import select
from sqlalchemy.orm import Session

from penstock.schematizer.api.dependencies import Store
from penstock.schematizer.confluent.bodies import (
    CompatibilityAnswer,
    Deleted,
    Format,
    Page,
    SchemaAnswer,
    SchemaBody,
    SubjectPath,
)
from penstock.schematizer.confluent.schemas import begins_with, cache_of, prefix_of
from penstock.schematizer.confluent.shortcuts import remember
from penstock.schematizer.confluent_paths import MEDIA_TYPE
from penstock.schematizer.contexts import EVERY_CONTEXT
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.registry.configs import normalizes
from penstock.schematizer.registry.deletion import delete_subject, delete_version
from penstock.schematizer.registry.known_answers import Ground, Known
from penstock.schematizer.registry.levels import pair_problems
from penstock.schematizer.registry.modes import check_changeable
from penstock.schematizer.registry.references import form_of, users_of
from penstock.schematizer.registry.registering import (
    find_declared,
    foresee,
    import_declared,
    register_declared,
    with_older_additions,
)
from penstock.schematizer.registry.schema_cache import SchemaCache
from penstock.schematizer.registry.schemas import Declared, require_strict
from penstock.schematizer.registry.subjects import (
    find_subject,
    level_of,
    of_group,
    reading_of,
    subject_versions,
    version_of,
    version_problems,
)
from penstock.schematizer.security.access import Role
from penstock.schematizer.security.demands import InSchema
from penstock.schematizer.security.rights import Asking
from penstock.schematizer.storage.database import Database
from penstock.schematizer.storage.models import READABLE, Status, Subject, SubjectVersion

router = APIRouter()
SchemaFrom = Annotated[SchemaBody, Body()]
Normalize = Annotated[bool, Query(description="Keep a new schema's text in one form")]
Permanent = Annotated[bool, Query(description="For ever, after it was deleted softly")]


class Versions(Page):
    """Which subjects or versions are listed; the clients write `deleted_only`, the documentation `deletedOnly`."""

    deleted: bool = False
    deleted_only: bool = False
    deleted_only_documented: bool = Query(alias="deletedOnly", default=False)

    def takes(self, status: str) -> bool:
        """Tell whether a version is wanted."""
        return self.takes_subject({status})

    def takes_subject(self, statuses: set[str]) -> bool:
        """Tell whether a subject is wanted that has versions of these statuses: it is deleted if all of them are."""
        is_deleted = statuses == {Status.DELETED}
        if self.deleted_only or self.deleted_only_documented:
            return is_deleted
        return self.deleted or not statuses.isdisjoint(READABLE)


class Subjects(Versions):
    """Which subjects are listed."""

    subject_prefix: str = Query(alias="subjectPrefix", default=EVERY_CONTEXT)


@router.get("/subjects", summary="List subjects")
def get_subjects(store: Store, request: Request, wanted: Annotated[Subjects, Query()]) -> list[str]:
    """List the subjects that have a schema, by name."""
    prefix = prefix_of(request, wanted.subject_prefix)
    query = (
        select(Subject.name, SubjectVersion.status)
        .join(SubjectVersion, SubjectVersion.subject_id == Subject.id)
        .distinct()
        .order_by(Subject.name)
    )
    statuses: dict[str, set[str]] = {}
    for name, status in store.read(lambda session: session.execute(query).all()):
        statuses.setdefault(name, set()).add(status)
    return wanted.of([name for name in statuses if begins_with(name, prefix) and wanted.takes_subject(statuses[name])])


@router.get("/subjects/{subject}/versions", summary="A subject's versions")
def get_versions(store: Store, subject: SubjectPath, wanted: Annotated[Versions, Query()]) -> list[int]:
    """List the numbers of a subject's versions."""

    def find(session: Session) -> list[int]:
        found = [each.version for each in subject_versions(session, subject, deleted=True) if wanted.takes(each.status)]
        if not found:
            raise RefusedError(
                Code.UNKNOWN_SUBJECT, f"Subject '{subject}' not found.", "say deleted=true to see what it had"
            )
        return found

    return wanted.of(store.read(find))


@router.get("/subjects/{subject}/versions/{version}", summary="One version", response_model_exclude_none=True)
def get_version(
    store: Store, subject: SubjectPath, version: str, wanted: Format = "", *, deleted: Deleted = False
) -> SchemaAnswer:
    """Return one version of a subject by its number, or the newest as `latest`."""
    return store.read(lambda s: _answer(version_of(subject_versions(s, subject, deleted=deleted), version), wanted))


@router.get("/subjects/{subject}/versions/{version}/schema", summary="One version's text")
def get_version_text(
    store: Store, subject: SubjectPath, version: str, wanted: Format = "", *, deleted: Deleted = False
) -> Response:
    """Return the text of one version of a subject."""
    answer = get_version(store, subject, version, wanted, deleted=deleted)
    return PlainTextResponse(answer.schema_text, media_type=MEDIA_TYPE)


@router.get("/subjects/{subject}/versions/{version}/referencedby", summary="Who uses a version")
def get_users(
    store: Store, subject: SubjectPath, version: str, asking: Asking, page: Annotated[Page, Query()]
) -> list[int]:
    """List the ids of schemas that use one version of a subject, of those that the user may read."""

    def find(session: Session) -> list[int]:
        users = users_of(session, version_of(subject_versions(session, subject), version))
        return [each for each in users if asking.may(session, Role.READ, InSchema(each))]

    return page.of(store.read(find))


@router.get("/subjects/{subject}/metadata", summary="A version by its metadata", response_model_exclude_none=True)
def get_version_with_metadata(
    store: Store,
    subject: SubjectPath,
    key: Annotated[list[str] | None, Query()] = None,
    value: Annotated[list[str] | None, Query()] = None,
    wanted_format: Format = "",
    *,
    deleted: Deleted = False,
) -> SchemaAnswer:
    """Return the newest version whose metadata has all of these properties."""
    wanted = dict(zip(key or (), value or (), strict=False))

    def find(session: Session) -> SchemaAnswer:
        for version in reversed(subject_versions(session, subject, deleted=deleted)):
            properties = (version.schema.metadata_json or {}).get("properties")
            if isinstance(properties, dict) and wanted.items() <= properties.items():
                return _answer(version, wanted_format)
        message = f"Schema not found: no version of subject {subject!r} has metadata with {wanted}"
        raise RefusedError(Code.UNKNOWN_VERSION, message, "see GET /schemas for the metadata that there are")

    return store.read(find)


@router.post("/subjects/{subject}/versions", summary="Register a schema", response_model_exclude_none=True)
def post_version(
    store: Store, subject: SubjectPath, body: SchemaFrom, request: Request, *, normalize: Normalize = False
) -> SchemaAnswer:
    """Register a schema under a subject; one that is there already keeps its id and its text.

    Schemas are compared without white space, the order of attributes and how
    names are written, whatever is said as `normalize`: that is how a new one is kept.
    """
    normalize = normalize or store.read(lambda session: normalizes(session, subject))
    declared = body.parse(normalize=normalize)
    if body.id is not None and body.id >= 0:
        schema_id, number = body.id, body.version if body.version is not None and body.version > 0 else None
        return store.write(lambda s: _answer(import_declared(s, subject, declared, schema_id, number), declared.format))
    known = store.read(lambda session: _known(session, subject, declared))
    if known is None:
        return store.write(lambda s: _answer(register_declared(s, subject, declared), declared.format))
    answer, ground = known
    if ground is not None:
        remember(request.scope, ground)
    return answer


@router.post("/subjects/{subject}", summary="Look a schema up", response_model_exclude_none=True)
def post_lookup(
    store: Store, subject: SubjectPath, body: SchemaFrom, wanted: Format = "", *, deleted: Deleted = False
) -> SchemaAnswer:
    """Say where in a subject a schema is."""
    declared = body.parse()

    def find(session: Session) -> SchemaAnswer:
        subject_versions(session, subject, deleted=deleted)
        version = find_declared(session, subject, declared, deleted=deleted)
        if version is None:
            raise RefusedError(
                Code.UNKNOWN_SCHEMA, f"Schema not found: subject {subject!r} does not have it", "register it first"
            )
        return _answer(version, wanted or declared.format)

    return store.read(find)


@router.delete("/subjects/{subject}", summary="Delete a subject")
async def delete_whole_subject(
    store: Store,
    cache: Annotated[SchemaCache, Depends(cache_of)],
    subject: SubjectPath,
    *,
    permanent: Permanent = False,
) -> list[int]:
    """Delete every version of a subject, its level and its mode; `permanent` after that was done softly."""
    deleted = await run_in_threadpool(_delete_subject, store, subject, permanent)
    for schema_id, _ in deleted:
        cache.drop(schema_id)
    return [number for _, number in deleted]


@router.delete("/subjects/{subject}/versions/{version}", summary="Delete a version")
async def delete_one_version(
    store: Store,
    cache: Annotated[SchemaCache, Depends(cache_of)],
    subject: SubjectPath,
    version: str,
    *,
    permanent: Permanent = False,
) -> int:
    """Delete one version of a subject; `permanent` after that was done softly."""
    schema_id, number = await run_in_threadpool(_delete_version, store, subject, version, permanent)
    cache.drop(schema_id)
    return number


@router.post(
    "/compatibility/subjects/{subject}/versions", summary="Try a schema on all", response_model_exclude_none=True
)
def post_compatibility_with_all(
    store: Store, subject: SubjectPath, body: SchemaFrom, *, verbose: bool = False
) -> CompatibilityAnswer:
    """Say whether a schema may follow the versions of a subject that count at its level; any may be the first."""
    declared = body.parse()

    def find(session: Session) -> tuple[str, ...]:
        parsed = with_older_additions(session, subject, declared)
        require_strict(parsed)
        known = find_subject(session, subject)
        if known is None:
            return ()
        return version_problems(session, known, level_of(session, subject), parsed)

    return _verdict(store.read(find), verbose=verbose)


@router.post(
    "/compatibility/subjects/{subject}/versions/{version}", summary="Try a schema", response_model_exclude_none=True
)
def post_compatibility(
    store: Store, subject: SubjectPath, version: str, body: SchemaFrom, *, verbose: bool = False
) -> CompatibilityAnswer:
    """Say whether a schema may follow one version of a subject at the subject's level; one of another group, it may."""
    declared = body.parse()

    def find(session: Session) -> tuple[str, ...]:
        old = version_of(subject_versions(session, subject), version)
        parsed = with_older_additions(session, subject, declared)
        require_strict(parsed)
        if not of_group(session, old.subject, parsed, [old]):
            return ()
        return pair_problems(level_of(session, subject), reading_of(old.subject), parsed.form, form_of(old.schema))

    return _verdict(store.read(find), verbose=verbose)


def _verdict(problems: tuple[str, ...], *, verbose: bool) -> CompatibilityAnswer:
    return CompatibilityAnswer(is_compatible=not problems, messages=list(problems) if verbose else None)


def _answer(version: SubjectVersion, wanted: str = "") -> SchemaAnswer:
    return SchemaAnswer.of(version.schema, version, deleted=version.status == Status.DELETED, wanted=wanted)


def _known(session: Session, name: str, declared: Declared) -> tuple[SchemaAnswer, Known | None] | None:
    """Return the answer to what is registered already, and on which row alone it rests: None if on more."""
    version = foresee(session, name, declared)
    if version is None:
        return None
    rests_on_more = declared.uses or (version.schema.has_additions and not declared.additions)
    return _answer(version, declared.format), None if rests_on_more else Known(Ground.VERSION, version.id)


def _delete_subject(store: Database, name: str, permanent: bool) -> list[tuple[int, int]]:  # noqa: FBT001 - threads take positions
    def work(session: Session) -> list[tuple[int, int]]:
        check_changeable(session, name)
        return [(each.schema_id, each.version) for each in delete_subject(session, name, permanent=permanent)]

    return store.write(work)


def _delete_version(store: Database, name: str, wanted: str, permanent: bool) -> tuple[int, int]:  # noqa: FBT001 - threads take positions
    def work(session: Session) -> tuple[int, int]:
        check_changeable(session, name)
        deleted = delete_version(session, name, wanted, permanent=permanent)
        return deleted.schema_id, deleted.version

    return store.write(work)

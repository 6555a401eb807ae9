"""Confluent's routes of associations: by subject, by resource, made, changed and deleted."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from sqlalchemy.orm import Session

from penstock.schematizer.api.dependencies import Store
from penstock.schematizer.confluent.bodies import Body, Page, SchemaAnswer, SchemaBody, SubjectPath
from penstock.schematizer.confluent.schemas import cache_of
from penstock.schematizer.confluent_paths import CONTEXT
from penstock.schematizer.contexts import DEFAULT_CONTEXT, parse_subject
from penstock.schematizer.path_segments import name_in
from penstock.schematizer.registry.associations import (
    Associated,
    Filters,
    Resource,
    Wanted,
    associate,
    by_resource_id,
    by_resource_name,
    by_subject,
    dissociate,
    refuse,
)
from penstock.schematizer.registry.schema_cache import SchemaCache
from penstock.schematizer.security.rights import Asking, Rights
from penstock.schematizer.storage.association_models import Association, Lifecycle
from penstock.schematizer.storage.words import is_clean

router = APIRouter()
_TOPIC = "topic"
_TYPES = ("key", "value")
_NAME_CHARACTERS_MAX = 255
NamePath = Annotated[str, Path(), AfterValidator(name_in)]
DryRun = Annotated[bool, Query(alias="dryRun", description="Say what would be refused, and do nothing")]


class AssociationQuery(Page):
    """Which associations are meant."""

    resource_type: str = Query(alias="resourceType", default="")
    association_types: list[str] = Query(alias="associationType", default=[])
    lifecycle: Lifecycle | None = None

    @property
    def filters(self) -> Filters:
        """What is meant, as the store takes it."""
        return Filters(self.resource_type or _TOPIC, tuple(self.association_types), self.lifecycle)


class Deletion(AssociationQuery):
    """Which associations are to be deleted."""

    cascade: bool = Query(
        alias="cascadeLifecycle", default=False, description="With the subjects of strong associations"
    )
    dry_run: bool = Query(alias="dryRun", default=False, description="Say what would be refused, and do nothing")


class AssociationBody(Body):
    """One association; a new one is STRONG where a schema comes along or it is frozen, else WEAK."""

    subject: str | None = Field(default=None, examples=["orders-value"])
    association_type: str | None = Field(alias="associationType", default=None, examples=["value"])
    lifecycle: Lifecycle | None = None
    frozen: bool | None = None
    schema_body: SchemaBody | None = Field(alias="schema", default=None)

    def parse(self, within: str) -> Wanted:
        """Return what is wanted. Raises RefusedError."""
        kind = self.association_type or "value"
        if kind not in _TYPES:
            refuse("associationType", f"use one of {', '.join(_TYPES)}")
        subject = str(parse_subject(self.subject, within)) if self.subject else None
        schema = self.schema_body.parse() if self.schema_body else None
        return Wanted(kind, subject, self.lifecycle, self.frozen, schema)


class AssociationsBody(Body):
    """The associations of a resource."""

    resource_name: str | None = Field(alias="resourceName", default=None, examples=["orders"])
    resource_namespace: str | None = Field(alias="resourceNamespace", default=None, examples=["lkc-1"])
    resource_id: str | None = Field(alias="resourceId", default=None, examples=["orders-id"])
    resource_type: str | None = Field(alias="resourceType", default=None, examples=[_TOPIC])
    associations: list[AssociationBody] | None = None

    def resource(self, resource_id: str | None, *, dry_run: bool) -> Resource:
        """Return what the associations are of. Raises RefusedError."""
        chosen = resource_id or self.resource_id or ("-" if dry_run else "")
        names = {
            "resourceName": self.resource_name or "",
            "resourceNamespace": self.resource_namespace or "",
            "resourceId": chosen,
        }
        for field, name in names.items():
            if not 0 < len(name) <= _NAME_CHARACTERS_MAX or not is_clean(name) or not name.isprintable():
                refuse(field, f"it takes 1 to {_NAME_CHARACTERS_MAX} printable characters")
        if self.resource_type not in {None, "", _TOPIC}:
            refuse("resourceType", f"only {_TOPIC} is known")
        if self.resource_id is not None and chosen != self.resource_id:
            refuse("resourceId", "the path has another one")
        if not self.associations:
            refuse("associations", "there are none")
        return Resource(names["resourceNamespace"], names["resourceName"], chosen, _TOPIC)


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, serialize_by_alias=True)


class AssociationAnswer(_Answer):
    """An association."""

    subject: str
    guid: str
    resource_name: str = Field(serialization_alias="resourceName")
    resource_namespace: str = Field(serialization_alias="resourceNamespace")
    resource_id: str = Field(serialization_alias="resourceId")
    resource_type: str = Field(serialization_alias="resourceType")
    association_type: str = Field(serialization_alias="associationType")
    lifecycle: str
    frozen: bool
    created_at_ms: int = Field(serialization_alias="createTs")
    updated_at_ms: int = Field(serialization_alias="updateTs")

    @classmethod
    def of(cls, association: Association) -> "AssociationAnswer":
        """Render `association`."""
        fields = {name: getattr(association, name) for name in cls.model_fields if name != "subject"}
        return cls(subject=association.subject.name, **fields)


class AssociationInfo(_Answer):
    """An association of the resource that a request is about."""

    subject: str
    association_type: str = Field(serialization_alias="associationType")
    lifecycle: str
    frozen: bool
    schema_answer: SchemaAnswer | None = Field(serialization_alias="schema", default=None)

    @classmethod
    def of(cls, made: Associated) -> "AssociationInfo":
        """Render what was made."""
        return cls(
            subject=made.association.subject.name,
            association_type=made.association.association_type,
            lifecycle=made.association.lifecycle,
            frozen=made.association.frozen,
            schema_answer=SchemaAnswer.of(made.version.schema, made.version) if made.version else None,
        )


class AssociationsAnswer(_Answer):
    """The associations that a resource was given, or would be."""

    resource_name: str = Field(serialization_alias="resourceName")
    resource_namespace: str = Field(serialization_alias="resourceNamespace")
    resource_id: str = Field(serialization_alias="resourceId")
    resource_type: str = Field(serialization_alias="resourceType")
    associations: list[AssociationInfo]


async def context_of(request: Request, context: str = "") -> str:
    """Return the context of the subjects in a body: the path's, or the one that is asked for."""
    within = request.scope.get(CONTEXT) or DEFAULT_CONTEXT
    return str(within) if not context else parse_subject(f":{context.strip(':')}:").context


Within = Annotated[str, Depends(context_of)]
AssociationQueried = Annotated[AssociationQuery, Query()]


@router.get("/associations/subjects/{subject}", summary="A subject's associations")
def get_by_subject(store: Store, subject: SubjectPath, query: AssociationQueried) -> list[AssociationAnswer]:
    """List the associations of a subject."""
    return query.of(store.read(lambda s: _answers(by_subject(s, subject, query.filters))))


@router.get("/associations/resources/{resource_id}", summary="A topic's associations, by its id")
def get_by_resource_id(
    store: Store, resource_id: NamePath, asking: Asking, query: AssociationQueried
) -> list[AssociationAnswer]:
    """List the associations of a resource, of those with subjects that the user may read."""
    return query.of(store.read(lambda s: _readable(s, asking, by_resource_id(s, resource_id, query.filters))))


@router.get("/associations/resources/{namespace}/{name}", summary="A topic's associations, by its name")
def get_by_resource_name(
    store: Store, namespace: NamePath, name: NamePath, asking: Asking, query: AssociationQueried
) -> list[AssociationAnswer]:
    """List the associations of the resources of that name, as by id; the namespace `-` is any."""
    return query.of(store.read(lambda s: _readable(s, asking, by_resource_name(s, namespace, name, query.filters))))


@router.post("/associations", summary="Associate a topic", response_model_exclude_none=True)
def post_associations(
    store: Store, within: Within, asking: Asking, body: AssociationsBody, *, dry_run: DryRun = False
) -> AssociationsAnswer:
    """Give a topic associations that it does not have yet; the same ones again are answered as they are."""
    resource = body.resource(None, dry_run=dry_run)
    wanted = [each.parse(within) for each in body.associations or ()]
    return store.write(
        lambda s: _answer(s, associate(s, asking, resource, wanted, is_new=True), resource, dry_run=dry_run)
    )


@router.put(
    "/associations/resources/{resource_id}", summary="Change a topic's associations", response_model_exclude_none=True
)
def put_associations(
    store: Store,
    resource_id: NamePath,
    within: Within,
    asking: Asking,
    body: AssociationsBody,
    *,
    dry_run: DryRun = False,
) -> AssociationsAnswer:
    """Give a topic associations, or change those that it has."""
    resource = body.resource(resource_id, dry_run=dry_run)
    wanted = [each.parse(within) for each in body.associations or ()]
    return store.write(
        lambda s: _answer(s, associate(s, asking, resource, wanted, is_new=False), resource, dry_run=dry_run)
    )


@router.delete("/associations/resources/{resource_id}", summary="Delete a topic's associations", status_code=204)
async def delete_associations(
    store: Store,
    cache: Annotated[SchemaCache, Depends(cache_of)],
    resource_id: NamePath,
    asking: Asking,
    query: Annotated[Deletion, Query()],
) -> Response:
    """Delete associations; for `cascadeLifecycle` with the subjects of strong ones, for ever."""

    def work(session: Session) -> list[int]:
        deleted = dissociate(session, asking, resource_id, query.filters, cascade=query.cascade)
        if query.dry_run:
            session.rollback()
        return deleted

    for schema_id in await run_in_threadpool(store.write, work):
        cache.drop(schema_id)
    return Response(status_code=204)


def _answers(found: list[Association]) -> list[AssociationAnswer]:
    return [AssociationAnswer.of(association) for association in found]


def _readable(session: Session, asking: Rights, found: list[Association]) -> list[AssociationAnswer]:
    return _answers([each for each in found if asking.may_read(session, each.subject.name)])


def _answer(session: Session, made: list[Associated], resource: Resource, *, dry_run: bool) -> AssociationsAnswer:
    answer = AssociationsAnswer(
        resource_name=resource.name,
        resource_namespace=resource.namespace,
        resource_id=resource.id,
        resource_type=resource.type,
        associations=[AssociationInfo.of(each) for each in made],
    )
    if dry_run:
        session.rollback()
    return answer

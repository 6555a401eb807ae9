"""The /v1 routes about producers and consumers, which have the same ones."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from penstock.schematizer.api.dependencies import ERRORS, Store, Writer
from penstock.schematizer.api.queries import OwnerEmail, SchemaId, TopicName
from penstock.schematizer.api.usage_answers import ClientAnswer, ClientList, UseAnswer, UseList
from penstock.schematizer.api.usage_queries import ClientName, ClientQuery, PositiveInt, ShortText, UseQuery, new_name
from penstock.schematizer.metadata.clients import (
    ClientAnnotations,
    find_client,
    put_client,
    read_clients,
    read_uses,
    read_uses_of_topic,
    see_client,
)
from penstock.schematizer.storage.usage_models import Role

router = APIRouter(prefix="/v1", tags=["producers and consumers"], responses=dict(ERRORS))
_of_one_role = APIRouter()
_on_a_topic = APIRouter()


async def role_of(request: Request) -> Role:
    """Return which of the two a route is about, as the router that it is included in says."""
    role = request.state.role
    assert isinstance(role, Role)  # noqa: S101 - this module put it there
    return role


async def _of_producers(request: Request) -> None:
    request.state.role = Role.PRODUCER


async def _of_consumers(request: Request) -> None:
    request.state.role = Role.CONSUMER


RoleOfPath = Annotated[Role, Depends(role_of)]


class ClientRequest(BaseModel):
    """Who answers for a producer or consumer; what is left out stays as it is. A new one needs an owner."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    owner_email: OwnerEmail = None
    team: ShortText | None = Field(default=None, examples=["payments"])
    expected_frequency_seconds: PositiveInt | None = Field(
        default=None, description="How often it should be seen", examples=[3600]
    )


class SeenRequest(BaseModel):
    """Where a producer or consumer is at work."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    topic: ShortText = Field(examples=["shopdb.shop.orders"])
    schema_id: SchemaId | None = Field(default=None, description="The schema that it uses", examples=[2])


@_on_a_topic.get("", summary="Who produces to or consumes a topic")
def get_topic_clients(store: Store, name: TopicName, role: RoleOfPath, asked: Annotated[UseQuery, Query()]) -> UseList:
    """List the producers or consumers that were seen on a topic, by name."""
    return store.read(lambda session: read_uses_of_topic(session, role, name, asked))


@_of_one_role.get("", summary="List producers or consumers")
def get_clients(store: Store, role: RoleOfPath, asked: Annotated[ClientQuery, Query()]) -> ClientList:
    """List producers or consumers, by name."""
    return store.read(lambda session: read_clients(session, role, asked))


@_of_one_role.put("/{client}", summary="Make or change a producer or consumer")
def put_one(writer: Writer, role: RoleOfPath, client: ClientName, body: ClientRequest) -> ClientAnswer:
    """Say who answers for a producer or consumer, and how often it should be seen."""
    said = ClientAnnotations(body.team, body.owner_email, body.expected_frequency_seconds)
    return writer.write(lambda work: put_client(work, role, new_name(client), said))


@_of_one_role.get("/{client}", summary="One producer or consumer")
def get_one(store: Store, role: RoleOfPath, client: ClientName) -> ClientAnswer:
    """Describe a producer or consumer."""
    return store.read(lambda session: ClientAnswer.of(find_client(session, role, client)))


@_of_one_role.get("/{client}/topics", summary="Where a producer or consumer was seen")
def get_client_topics(
    store: Store, role: RoleOfPath, client: ClientName, asked: Annotated[UseQuery, Query()]
) -> UseList:
    """List the topics that a producer or consumer was seen on, by name, and when."""
    return store.read(lambda session: read_uses(session, role, client, asked))


@_of_one_role.post("/{client}/seen", summary="Say that a producer or consumer is at work")
def post_seen(store: Store, role: RoleOfPath, client: ClientName, body: SeenRequest) -> UseAnswer:
    """Keep when a producer or consumer was last seen on a topic.

    Call it as often as you like: for one topic it writes once a minute at most, or
    when the schema is another.
    """
    return see_client(store, role, client, body.topic, body.schema_id)


for _roles, _says_so in (("/producers", _of_producers), ("/consumers", _of_consumers)):
    router.include_router(_of_one_role, prefix=_roles, dependencies=[Depends(_says_so)])
    router.include_router(_on_a_topic, prefix=f"/topics/{{name}}{_roles}", dependencies=[Depends(_says_so)])

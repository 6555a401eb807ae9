"""The /v1 routes: the Schematizer's own API."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from penstock.schematizer.answers import (
    ErrorAnswer,
    NamespaceList,
    RegisteredAnswer,
    SchemaAnswer,
    SourceList,
    TopicAnswer,
    TopicList,
    TopicSchemaList,
)
from penstock.schematizer.catalog import (
    read_namespaces,
    read_schema,
    read_sources,
    read_topic,
    read_topic_schemas,
    read_topics,
)
from penstock.schematizer.database import Database
from penstock.schematizer.registration import register_table
from penstock.schematizer.tables import shape_of_table, shape_of_texts

NamespaceName = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$", examples=["shopdb"])]


class TableRequest(BaseModel):
    """A table by its two Avro schemas, as `penstock.core.avro.schemas` writes them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    namespace: NamespaceName = Field(description="The name of the pipeline's source")
    key_schema: str | None = Field(description="Avro, as JSON text; null without a primary key")
    value_schema: str = Field(description="Avro, as JSON text: the envelope")
    contains_pii: bool = False


class CreateTableRequest(BaseModel):
    """A table by the statement that makes it, in MySQL's or MariaDB's dialect."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    namespace: NamespaceName = Field(description="The name of the pipeline's source")
    create_table: str = Field(
        max_length=1 << 20, examples=["CREATE TABLE shop.orders (id bigint PRIMARY KEY, note varchar(64))"]
    )
    contains_pii: bool = False


async def database_of(request: Request) -> Database:
    """Return the database of the application that a request came to."""
    database = request.app.state.database
    assert isinstance(database, Database)  # noqa: S101 - the application's factory put it there
    return database


Store = Annotated[Database, Depends(database_of)]
OfNamespace = Annotated[str, Query(description="Only those of this namespace")]
TopicName = Annotated[str, Path(examples=["shopdb.shop.orders"])]

_ERRORS: dict[int | str, dict[str, object]] = {
    404: {"model": ErrorAnswer, "description": "There is no such thing"},
    422: {"model": ErrorAnswer, "description": "The request, or a schema in it, is not valid"},
    503: {"model": ErrorAnswer, "description": "The registry's database is away; try again"},
}
router = APIRouter(prefix="/v1", tags=["schematizer"], responses={code: _ERRORS[code] for code in (422, 503)})


@router.post("/tables", summary="Register a table")
def post_table(store: Store, body: TableRequest) -> RegisteredAnswer:
    """Register a table's shape and say which topic and schemas its changes take.

    The same shape gets the same answer for as long as the table has it. A shape
    that is not compatible both ways with everything on the table's newest topic
    opens the next topic; `follows` says which one came before.
    """
    shape = shape_of_texts(body.namespace, body.key_schema, body.value_schema, contains_pii=body.contains_pii)
    return RegisteredAnswer.of(register_table(store, shape))


@router.post("/schemas/mysql", summary="Register a table by its CREATE TABLE")
def post_create_table(store: Store, body: CreateTableRequest) -> RegisteredAnswer:
    """Register the table that a CREATE TABLE statement makes; the answer is that of `POST /v1/tables`."""
    # The parser takes a fifth of a second to import, which most services never need.
    from penstock.schematizer.create_table import parse_create_table  # noqa: PLC0415

    table = parse_create_table(body.create_table)
    return RegisteredAnswer.of(
        register_table(store, shape_of_table(body.namespace, table, contains_pii=body.contains_pii))
    )


@router.get("/namespaces", summary="List namespaces")
def get_namespaces(store: Store) -> NamespaceList:
    """List every namespace, by name."""
    return store.read(read_namespaces)


@router.get("/sources", summary="List sources")
def get_sources(store: Store, namespace: OfNamespace = "") -> SourceList:
    """List the tables that were ever registered."""
    return store.read(lambda session: read_sources(session, namespace))


@router.get("/topics", summary="List topics")
def get_topics(store: Store, namespace: OfNamespace = "") -> TopicList:
    """List topics, each table's in the order in which they follow each other."""
    return store.read(lambda session: read_topics(session, namespace))


@router.get("/topics/{name}", summary="One topic", responses={404: _ERRORS[404]})
def get_topic(store: Store, name: TopicName) -> TopicAnswer:
    """Describe one topic."""
    return store.read(lambda session: read_topic(session, name))


@router.get("/topics/{name}/schemas", summary="A topic's schemas", responses={404: _ERRORS[404]})
def get_topic_schemas(store: Store, name: TopicName) -> TopicSchemaList:
    """List the schemas of a topic: the key's, then the value's, oldest first."""
    return store.read(lambda session: read_topic_schemas(session, name))


@router.get("/schemas/{schema_id}", summary="One schema", responses={404: _ERRORS[404]})
def get_schema(store: Store, schema_id: int) -> SchemaAnswer:
    """Return a schema by its id, and every subject that has it."""
    return store.read(lambda session: read_schema(session, schema_id))

"""The /v1 routes: the Schematizer's own API."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from penstock.core.avro.schemas import key_schema, value_schema
from penstock.core.tables import Column, IntegerType, TableId, TableSchema
from penstock.schematizer.api.answers import (
    NamespaceList,
    RegisteredAnswer,
    SchemaAnswer,
    SourceList,
    TopicAnswer,
    TopicList,
    TopicSchemaList,
)
from penstock.schematizer.api.dependencies import ERRORS, Store, Writer
from penstock.schematizer.api.queries import (
    Category,
    ClusterType,
    Compacted,
    Doc,
    NamespaceName,
    NamespaceQuery,
    OwnerEmail,
    Partitions,
    SchemaId,
    SourceQuery,
    TopicName,
    TopicQuery,
    TopicSchemaQuery,
)
from penstock.schematizer.confluent.shortcuts import remember
from penstock.schematizer.metadata.catalog import (
    read_namespaces,
    read_schema,
    read_sources,
    read_topic,
    read_topic_schemas,
    read_topics,
)
from penstock.schematizer.registry.documentation import SourceAnnotations
from penstock.schematizer.registry.known_answers import Ground, Known
from penstock.schematizer.registry.registration import register_table
from penstock.schematizer.registry.tables import Registering, shape_of_table, shape_of_texts
from penstock.schematizer.registry.topic_rule import TableShape, TopicFacts
from penstock.schematizer.security.rights import Asking

_EXAMPLE = TableSchema(
    TableId("shop", "orders"),
    (Column("id", IntegerType(64, unsigned=False), nullable=False, declaration="bigint"),),
    ("id",),
    comment="One row for each order",
)
_KEY_EXAMPLE, _VALUE_EXAMPLE = key_schema(_EXAMPLE), value_schema(_EXAMPLE)


class Documented(BaseModel):
    """What a registration may say of a table and its topic beside the shape; what is left out stays as it is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    namespace: NamespaceName = Field(description="The name of the pipeline's source")
    contains_pii: bool = Field(default=False, description="Another one opens a new topic", examples=[False])
    cluster_type: ClusterType = None
    partitions: Partitions = None
    compacted: Compacted = None
    base_schema_id: SchemaId | None = Field(
        default=None, description="What the schema is derived from; another one opens a new topic", examples=[None]
    )
    owner_email: OwnerEmail = None
    category: Category = None
    doc: Doc = None

    @property
    def said(self) -> SourceAnnotations:
        """Return what `author` says of the table by it."""
        return SourceAnnotations(self.owner_email, self.category, self.doc)

    @property
    def registering(self) -> Registering:
        """What is said beside the shape."""
        facts = TopicFacts(self.cluster_type, self.partitions, self.compacted, self.base_schema_id)
        return Registering(self.namespace, self.contains_pii, facts)


class TableRequest(Documented):
    """A table by its two Avro schemas, as `penstock.core.avro.schemas` writes them."""

    key_schema: str | None = Field(
        description="Avro, as JSON text; null without a primary key", examples=[_KEY_EXAMPLE]
    )
    value_schema: str = Field(description="Avro, as JSON text: the envelope", examples=[_VALUE_EXAMPLE])


class CreateTableRequest(Documented):
    """A table by the statement that makes it, in MySQL's or MariaDB's dialect."""

    create_table: str = Field(
        max_length=1 << 20, examples=["CREATE TABLE shop.orders (id bigint PRIMARY KEY, note varchar(64))"]
    )


router = APIRouter(prefix="/v1", tags=["schematizer"], responses={code: ERRORS[code] for code in (422, 503)})


@router.post("/tables", summary="Register a table")
def post_table(writer: Writer, body: TableRequest, request: Request) -> RegisteredAnswer:
    """Register a table's shape and say which topic and schemas its changes take.

    The same shape gets the same answer for as long as the table has it. A shape
    that is not compatible both ways with everything on the table's newest topic
    opens the next topic; `follows` says which one came before. A new shape is
    refused where the table lacks what its namespace demands; send it along.
    """
    shape = shape_of_texts(body.registering, body.key_schema, body.value_schema)
    registered = register_table(writer, shape, body.said)
    if registered.known_as is not None:
        remember(request.scope, Known(Ground.TABLE, registered.known_as))
    return RegisteredAnswer.of(registered)


@router.post("/schemas/mysql", summary="Register a table by its CREATE TABLE")
def post_create_table(writer: Writer, body: CreateTableRequest) -> RegisteredAnswer:
    """Register the table that a CREATE TABLE statement makes; the answer is that of `POST /v1/tables`."""
    return RegisteredAnswer.of(register_table(writer, shape_of_statement(body), body.said))


def shape_of_statement(body: CreateTableRequest) -> TableShape:
    """Return the shape of the table that a statement makes. Raises RefusedError for anything else."""
    # The parser takes a fifth of a second to import, which most services never need.
    from penstock.schematizer.statements.create_table import parse_create_table  # noqa: PLC0415

    return shape_of_table(body.registering, parse_create_table(body.create_table))


@router.get("/namespaces", summary="List namespaces")
def get_namespaces(store: Store, asked: Annotated[NamespaceQuery, Query()]) -> NamespaceList:
    """List namespaces, by name."""
    return store.read(lambda session: read_namespaces(session, asked))


@router.get("/sources", summary="List sources")
def get_sources(store: Store, asked: Annotated[SourceQuery, Query()]) -> SourceList:
    """List the tables that were ever registered."""
    return store.read(lambda session: read_sources(session, asked))


@router.get("/topics", summary="List topics")
def get_topics(store: Store, asked: Annotated[TopicQuery, Query()]) -> TopicList:
    """List topics, each table's in the order in which they follow each other."""
    return store.read(lambda session: read_topics(session, asked))


@router.get("/topics/{name}", summary="One topic", responses={404: ERRORS[404]})
def get_topic(store: Store, name: TopicName) -> TopicAnswer:
    """Describe one topic."""
    return store.read(lambda session: read_topic(session, name))


@router.get("/topics/{name}/schemas", summary="A topic's schemas", responses={404: ERRORS[404]})
def get_topic_schemas(store: Store, name: TopicName, asked: Annotated[TopicSchemaQuery, Query()]) -> TopicSchemaList:
    """List the schemas of a topic: the key's, then the value's, oldest first."""
    return store.read(lambda session: read_topic_schemas(session, name, asked))


@router.get("/schemas/{schema_id}", summary="One schema", responses={404: ERRORS[404]})
def get_schema(store: Store, schema_id: SchemaId, asking: Asking) -> SchemaAnswer:
    """Return a schema by its id, and every subject that has it and that the user may read."""
    return store.read(lambda session: read_schema(session, schema_id, asking))

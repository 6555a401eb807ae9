"""What the /v1 API answers, as OpenAPI describes it."""

from typing import Annotated

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from penstock.schematizer.models import Kind, Namespace, Schema, Source, Status, SubjectVersion, Topic
from penstock.schematizer.registration import Registered

# A field called `schema` would hide a method of pydantic's models.
SchemaText = Annotated[
    str,
    Field(
        validation_alias=AliasChoices("schema", "schema_text"),
        serialization_alias="schema",
        description="Avro, as JSON text",
    ),
]


class Answer(BaseModel):
    """Part of an answer."""

    model_config = ConfigDict(frozen=True)


class ErrorAnswer(Answer):
    """Every error of every route. Go by `code` (or by `error_code`, in Confluent's numbering), not by `message`."""

    error_code: int = Field(examples=[40403])
    code: str = Field(examples=["unknown_schema"])
    message: str = Field(description="What happened", examples=["there is no schema 17"])
    hint: str = Field(description="What to do about it")


class RegisteredAnswer(Answer):
    """The topic that a table's changes go to, and the ids of their schemas."""

    topic: str = Field(examples=["shopdb.shop.orders"])
    key_schema_id: int | None = Field(description="None without a primary key", examples=[1])
    value_schema_id: int = Field(examples=[2])
    follows: str = Field(description='The topic before this one, "" if this is the first', examples=[""])

    @classmethod
    def of(cls, registered: Registered) -> "RegisteredAnswer":
        """Render `registered`."""
        return cls(
            topic=registered.topic,
            key_schema_id=registered.key_schema_id,
            value_schema_id=registered.value_schema_id,
            follows=registered.follows,
        )


class NamespaceAnswer(Answer):
    """The name of a pipeline's source."""

    name: str = Field(examples=["shopdb"])
    created_at_ms: int = Field(description="Unix milliseconds")

    @classmethod
    def of(cls, namespace: Namespace) -> "NamespaceAnswer":
        """Render `namespace`."""
        return cls(name=namespace.name, created_at_ms=namespace.created_at_ms)


class SourceAnswer(Answer):
    """One table of a namespace."""

    id: int
    namespace: str = Field(examples=["shopdb"])
    table: str = Field(examples=["shop.orders"])
    owner_email: str = Field(description='"" until somebody owns it')
    created_at_ms: int = Field(description="Unix milliseconds")

    @classmethod
    def of(cls, source: Source) -> "SourceAnswer":
        """Render `source`."""
        return cls(
            id=source.id,
            namespace=source.namespace.name,
            table=f"{source.table_schema}.{source.table_name}",
            owner_email=source.owner_email,
            created_at_ms=source.created_at_ms,
        )


class TopicAnswer(Answer):
    """A topic of a table."""

    name: str = Field(examples=["shopdb.shop.orders.v2"])
    namespace: str = Field(examples=["shopdb"])
    table: str = Field(examples=["shop.orders"])
    owner_email: str = Field(description='"" until somebody owns it')
    follows: str = Field(description='The topic before this one, "" if this is the first')
    opened_because: list[str] = Field(description="What kept the table off the topic before")
    key_fields: list[str] = Field(description="The primary key's columns, in key order; empty without one")
    key_schema_id: int | None
    contains_pii: bool
    partitions: int | None = Field(description="None until somebody says")
    created_at_ms: int = Field(description="Unix milliseconds")

    @classmethod
    def of(cls, topic: Topic) -> "TopicAnswer":
        """Render `topic`."""
        return cls(
            name=topic.name,
            namespace=topic.source.namespace.name,
            table=f"{topic.source.table_schema}.{topic.source.table_name}",
            owner_email=topic.source.owner_email,
            follows=topic.follows.name if topic.follows else "",
            opened_because=topic.opened_because,
            key_fields=topic.key_fields,
            key_schema_id=topic.key_schema_id,
            contains_pii=topic.contains_pii,
            partitions=topic.partitions,
            created_at_ms=topic.created_at_ms,
        )


class TopicSchemaAnswer(Answer):
    """A schema and its place on a topic."""

    id: int
    kind: Kind
    subject: str = Field(examples=["shopdb.shop.orders-value"])
    version: int
    status: Status
    schema_text: SchemaText
    created_at_ms: int = Field(description="When it came to the topic, Unix milliseconds")

    @classmethod
    def of(cls, version: SubjectVersion) -> "TopicSchemaAnswer":
        """Render `version`."""
        return cls(
            id=version.schema_id,
            kind=Kind(version.subject.kind),
            subject=version.subject.name,
            version=version.version,
            status=Status(version.status),
            schema_text=version.schema.text,
            created_at_ms=version.created_at_ms,
        )


class SchemaAnswer(Answer):
    """A schema and every subject that has it."""

    id: int
    fingerprint: str = Field(description="SHA-256 of the schema without its white space, attributes sorted")
    schema_text: SchemaText
    created_at_ms: int = Field(description="Unix milliseconds")
    used_by: list[TopicSchemaAnswer]

    @classmethod
    def of(cls, schema: Schema, used_by: list[TopicSchemaAnswer]) -> "SchemaAnswer":
        """Render `schema`."""
        return cls(
            id=schema.id,
            fingerprint=schema.fingerprint,
            schema_text=schema.text,
            created_at_ms=schema.created_at_ms,
            used_by=used_by,
        )


class NamespaceList(Answer):
    """Namespaces, by name."""

    items: list[NamespaceAnswer]


class SourceList(Answer):
    """Sources, by namespace and table."""

    items: list[SourceAnswer]


class TopicList(Answer):
    """Topics, by namespace and table, each table's in their order."""

    items: list[TopicAnswer]


class TopicSchemaList(Answer):
    """Schemas of a topic: the key's, then the value's, oldest first."""

    items: list[TopicSchemaAnswer]

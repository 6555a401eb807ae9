"""What the /v1 API answers, as OpenAPI describes it."""

from typing import Annotated

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from penstock.schematizer.registry.registered import Registered, Verdict
from penstock.schematizer.storage.models import Namespace, Schema, SchemaKind, Source, Status, SubjectVersion, Topic

# A field called `schema` would hide a method of pydantic's models.
SchemaText = Annotated[
    str,
    Field(
        validation_alias=AliasChoices("schema", "schema_text"),
        serialization_alias="schema",
        description="Avro, as JSON text",
        examples=['{"type":"record","name":"Key","fields":[{"name":"id","type":"long"}]}'],
    ),
]
NextPage = Annotated[
    str, Field(description='Send it as `after` for the items that follow; "" if these are the last', examples=[""])
]
Milliseconds = Annotated[int, Field(examples=[1_767_225_600_000])]


class Answer(BaseModel):
    """Part of an answer."""

    model_config = ConfigDict(frozen=True)


class ErrorAnswer(Answer):
    """Every error of every route. Go by `code` (or by `error_code`, in Confluent's numbering), not by `message`."""

    error_code: int = Field(examples=[40403])
    code: str = Field(examples=["unknown_schema"])
    message: str = Field(description="What happened", examples=["Schema 17 not found"])
    hint: str = Field(description="What to do about it", examples=["check that this registry is the right one"])


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


class ProblemAnswer(Answer):
    """One thing that keeps a shape off its topic."""

    kind: str = Field(
        description="backward: the new schema cannot read data of the old one; forward: the other way round; "
        "or key, pii, cluster_type, base_schema, status",
        examples=["backward"],
    )
    field: str = Field(description='The path of the field, "" for the whole', examples=["before.price"])
    reason: str = Field(examples=["double is not readable as int"])
    version: int | None = Field(description="The topic's schema that it does not fit", examples=[1])
    schema_id: int | None = Field(description="The same schema's id", examples=[2])


class VerdictAnswer(Answer):
    """What registering a shape would do."""

    is_known: bool = Field(description="Whether it is registered on the newest topic", examples=[False])
    stays: bool = Field(description="Whether it would stay on the newest topic", examples=[False])
    topic: str = Field(description='The newest topic, "" if there is none yet', examples=["shopdb.shop.orders"])
    problems: list[ProblemAnswer] = Field(description="What would open a new topic")

    @classmethod
    def of(cls, verdict: Verdict) -> "VerdictAnswer":
        """Render `verdict`."""
        return cls(
            is_known=verdict.is_known,
            stays=bool(verdict.topic) and not verdict.problems,
            topic=verdict.topic,
            problems=[
                ProblemAnswer(
                    kind=each.kind,
                    field=each.field,
                    reason=each.reason,
                    version=each.version or None,
                    schema_id=each.schema_id,
                )
                for each in verdict.problems
            ],
        )


class NamespaceAnswer(Answer):
    """The name of a pipeline's source, and its rules."""

    name: str = Field(examples=["shopdb"])
    requires_owner: bool = Field(description="Whether new tables and shapes need an owner", examples=[True])
    requires_docs: bool = Field(description="Whether new tables and shapes need docs", examples=[False])
    created_at_ms: Milliseconds = Field(description="Unix milliseconds")

    @classmethod
    def of(cls, namespace: Namespace) -> "NamespaceAnswer":
        """Render `namespace`."""
        return cls(
            name=namespace.name,
            requires_owner=namespace.requires_owner,
            requires_docs=namespace.requires_docs,
            created_at_ms=namespace.created_at_ms,
        )


class SourceAnswer(Answer):
    """One table of a namespace."""

    id: int = Field(examples=[1])
    namespace: str = Field(examples=["shopdb"])
    table: str = Field(examples=["shop.orders"])
    table_schema: str = Field(description="The table's database", examples=["shop"])
    table_name: str = Field(examples=["orders"])
    owner_email: str = Field(description='"" until somebody owns it', examples=["orders-team@example.com"])
    category: str = Field(description='"" until somebody says', examples=["sales"])
    doc: str = Field(description="What people say of it, else its comment", examples=["One row for each order"])
    comment: str = Field(description="The table's own COMMENT", examples=["orders"])
    created_at_ms: Milliseconds = Field(description="Unix milliseconds")

    @classmethod
    def of(cls, source: Source) -> "SourceAnswer":
        """Render `source`."""
        return cls(
            id=source.id,
            namespace=source.namespace.name,
            table=f"{source.table_schema}.{source.table_name}",
            table_schema=source.table_schema,
            table_name=source.table_name,
            owner_email=source.owner_email,
            category=source.category,
            doc=source.doc or source.comment,
            comment=source.comment,
            created_at_ms=source.created_at_ms,
        )


class TopicAnswer(Answer):
    """A topic of a table."""

    name: str = Field(examples=["shopdb.shop.orders.v2"])
    namespace: str = Field(examples=["shopdb"])
    table: str = Field(examples=["shop.orders"])
    owner_email: str = Field(description='"" until somebody owns it', examples=["orders-team@example.com"])
    follows: str = Field(
        description='The topic before this one, "" if this is the first', examples=["shopdb.shop.orders"]
    )
    opened_because: list[str] = Field(
        description="What kept the table off the topic before",
        examples=[["version 1: price: double is not readable as int"]],
    )
    key_fields: list[str] = Field(
        description="The primary key's columns, in key order; empty without one", examples=[["id"]]
    )
    key_schema_id: int | None = Field(examples=[1])
    contains_pii: bool = Field(examples=[False])
    partitions: int | None = Field(description="None until somebody says", examples=[8])
    compacted: bool | None = Field(description="None until somebody says", examples=[True])
    cluster_type: str = Field(description='"" until somebody says', examples=["datapipe"])
    base_schema_id: int | None = Field(
        description="What its schemas are derived from; None for a topic of its own", examples=[None]
    )
    created_at_ms: Milliseconds = Field(description="Unix milliseconds")

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
            compacted=topic.compacted,
            cluster_type=topic.cluster_type,
            base_schema_id=topic.base_schema_id,
            created_at_ms=topic.created_at_ms,
        )


class TopicSchemaAnswer(Answer):
    """A schema and its place on a topic."""

    id: int = Field(examples=[2])
    kind: SchemaKind = Field(examples=["value"])
    subject: str = Field(examples=["shopdb.shop.orders-value"])
    version: int = Field(examples=[1])
    status: Status = Field(examples=["read_and_write"])
    schema_text: SchemaText
    created_at_ms: Milliseconds = Field(description="When it came to the topic, Unix milliseconds")

    @classmethod
    def of(cls, version: SubjectVersion) -> "TopicSchemaAnswer":
        """Render `version`."""
        return cls(
            id=version.schema_id,
            kind=SchemaKind(version.subject.kind),
            subject=version.subject.name,
            version=version.version,
            status=Status(version.status),
            schema_text=version.schema.text,
            created_at_ms=version.created_at_ms,
        )


class SchemaAnswer(Answer):
    """A schema and every subject that has it."""

    id: int = Field(examples=[2])
    fingerprint: str = Field(
        description="SHA-256 of the schema without its white space, attributes sorted", examples=["9f86d081884c7d65"]
    )
    schema_text: SchemaText
    created_at_ms: Milliseconds = Field(description="Unix milliseconds")
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
    next: NextPage


class SourceList(Answer):
    """Sources, by namespace and table."""

    items: list[SourceAnswer]
    next: NextPage


class TopicList(Answer):
    """Topics, by namespace and table, each table's in their order."""

    items: list[TopicAnswer]
    next: NextPage


class TopicSchemaList(Answer):
    """Schemas of a topic: the key's, then the value's, oldest first."""

    items: list[TopicSchemaAnswer]
    next: NextPage

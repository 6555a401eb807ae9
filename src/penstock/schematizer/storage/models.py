"""The tables of the registry's database.

namespace 1─n source 1─n topic 1─n subject 1─n subject version n─1 schema
A topic's `ordinal` is its place in its source's chain: only the last one takes
new schemas. A subject that no table owns (a Confluent client made it) has no topic.
Beside them stands what people say: a source's elements are its columns, notes
belong to schemas, and history and search entries name what they are about.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import JsonValue  # noqa: TC002 - SQLAlchemy looks the annotations up
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    ForeignKey,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects.mysql import LONGTEXT
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

# MySQL compares text without regard to case or accents unless told otherwise, and its TEXT ends at 64 KiB.
_MYSQL = ("mysql", "mariadb")
Name = String(255).with_variant(String(255, collation="utf8mb4_bin"), *_MYSQL)
LongText = Text().with_variant(LONGTEXT(charset="utf8mb4"), *_MYSQL)
# Long text that is compared, in the same way by every database.
ExactText = Text().with_variant(LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin"), *_MYSQL)
# SQLite numbers rows by itself only where the key is an INTEGER.
Id = BigInteger().with_variant(Integer, "sqlite")


class SchemaKind(StrEnum):
    """Which half of a message a schema is for."""

    KEY = "key"
    VALUE = "value"


class Status(StrEnum):
    """Whether a schema still counts on its topic: one that is read only does, but nothing new is written with it."""

    ENABLED = "read_and_write"
    READ_ONLY = "read_only"
    DISABLED = "disabled"
    DELETED = "deleted"


READABLE = (Status.ENABLED, Status.READ_ONLY)
"""What data may be read with, and new schemas are compared with."""


class Thing(StrEnum):
    """What can be described and found."""

    NAMESPACE = "namespace"
    SOURCE = "source"
    TOPIC = "topic"
    ELEMENT = "element"
    NOTE = "note"
    SCHEMA = "schema"
    REFRESH = "refresh"
    DATA_TARGET = "data_target"
    CONSUMER_GROUP = "consumer_group"
    PRODUCER = "producer"
    CONSUMER = "consumer"


class Model(DeclarativeBase):
    """Every table; names of constraints are fixed, so that migrations can name them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class Namespace(Model):
    """The name of a pipeline's source, and what it demands of tables that are new or change."""

    __tablename__ = "namespaces"
    __table_args__ = (UniqueConstraint("name"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    name: Mapped[str] = mapped_column(Name)
    requires_owner: Mapped[bool] = mapped_column(Boolean, default=False)
    requires_docs: Mapped[bool] = mapped_column(Boolean, default=False)
    created_at_ms: Mapped[int] = mapped_column(BigInteger)


class Source(Model):
    """One table of a namespace.

    `owner_email`, `category` and `doc` are "" until somebody says them; `comment`
    is what the table itself says of itself, and stands in for a `doc`.
    """

    __tablename__ = "sources"
    __table_args__ = (
        UniqueConstraint("namespace_id", "table_schema", "table_name"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    namespace_id: Mapped[int] = mapped_column(ForeignKey("namespaces.id"))
    table_schema: Mapped[str] = mapped_column(Name)
    table_name: Mapped[str] = mapped_column(Name)
    owner_email: Mapped[str] = mapped_column(Name, default="")
    category: Mapped[str] = mapped_column(Name, default="")
    doc: Mapped[str] = mapped_column(LongText, default="")
    comment: Mapped[str] = mapped_column(LongText, default="")
    created_at_ms: Mapped[int] = mapped_column(BigInteger)

    namespace: Mapped[Namespace] = relationship(lazy="joined", innerjoin=True)


class Schema(Model):
    """One schema, whoever uses it. Its text never changes, so anybody may keep it for ever.

    `fingerprint` is of all that a schema is; `text_fingerprint` leaves
    `metadata_json` and `rule_set_json` out, which are Confluent's additions.
    """

    __tablename__ = "schemas"
    __table_args__ = (UniqueConstraint("fingerprint"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    fingerprint: Mapped[str] = mapped_column(Name)
    text: Mapped[str] = mapped_column(LongText)
    created_at_ms: Mapped[int] = mapped_column(BigInteger)
    type: Mapped[str] = mapped_column(String(16), default="AVRO")
    text_fingerprint: Mapped[str] = mapped_column(Name, index=True)
    metadata_json: Mapped[dict[str, JsonValue] | None] = mapped_column(JSON(none_as_null=True))
    rule_set_json: Mapped[dict[str, JsonValue] | None] = mapped_column(JSON(none_as_null=True))

    references: Mapped[list[SchemaReference]] = relationship(
        order_by="SchemaReference.ordinal", cascade="all, delete-orphan", passive_deletes=False
    )

    @property
    def has_additions(self) -> bool:
        """Whether it has metadata or rules."""
        return self.metadata_json is not None or self.rule_set_json is not None


class DeletedSchema(Model):
    """A schema that was deleted for ever. Its id stays its own: data, clients and other processes may know it."""

    __tablename__ = "deleted_schemas"
    __table_args__ = (UniqueConstraint("schema_id"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    schema_id: Mapped[int] = mapped_column(BigInteger)
    fingerprint: Mapped[str] = mapped_column(Name)


class SchemaReference(Model):
    """A use that a schema makes of a version of a subject, under a name that its text knows."""

    __tablename__ = "schema_references"
    __table_args__ = (UniqueConstraint("schema_id", "ordinal"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    schema_id: Mapped[int] = mapped_column(ForeignKey("schemas.id"))
    ordinal: Mapped[int] = mapped_column(Integer)
    name: Mapped[str] = mapped_column(LongText)
    version_id: Mapped[int] = mapped_column(ForeignKey("subject_versions.id"), index=True)

    version: Mapped[SubjectVersion] = relationship()


class Topic(Model):
    """A Kafka topic of a table.

    `collision_name` is the name with dots as underscores: a broker refuses two
    topics that differ in nothing else. `opened_because` says why the table could
    not stay on the topic before. `partitions` and `compacted` are None, and
    `cluster_type` is "", until somebody says. `base_schema_id` is the schema from
    which those of the topic are derived, None for a topic of its own.
    """

    __tablename__ = "topics"
    __table_args__ = (
        UniqueConstraint("name"),
        UniqueConstraint("collision_name"),
        UniqueConstraint("source_id", "ordinal"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    name: Mapped[str] = mapped_column(Name)
    collision_name: Mapped[str] = mapped_column(Name)
    source_id: Mapped[int] = mapped_column(ForeignKey("sources.id"))
    ordinal: Mapped[int] = mapped_column(Integer)
    follows_id: Mapped[int | None] = mapped_column(ForeignKey("topics.id"))
    key_schema_id: Mapped[int | None] = mapped_column(ForeignKey("schemas.id"))
    key_fields: Mapped[list[str]] = mapped_column(JSON)
    opened_because: Mapped[list[str]] = mapped_column(JSON)
    contains_pii: Mapped[bool] = mapped_column(Boolean)
    partitions: Mapped[int | None] = mapped_column(SmallInteger)
    compacted: Mapped[bool | None] = mapped_column(Boolean)
    cluster_type: Mapped[str] = mapped_column(String(32), default="")
    base_schema_id: Mapped[int | None] = mapped_column(BigInteger)
    created_at_ms: Mapped[int] = mapped_column(BigInteger)

    source: Mapped[Source] = relationship(lazy="joined", innerjoin=True)
    follows: Mapped[Topic | None] = relationship(remote_side="Topic.id")


class Subject(Model):
    """What Confluent clients register schemas under.

    `compatibility` and `mode` are "", and `normalize` and `compatibility_group` are None, where those of the
    context, or else the global ones, hold. A context's own are those of the subject `:.context:`.
    """

    __tablename__ = "subjects"
    __table_args__ = (UniqueConstraint("name"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    name: Mapped[str] = mapped_column(Name)
    kind: Mapped[str] = mapped_column(String(16))
    topic_id: Mapped[int | None] = mapped_column(ForeignKey("topics.id"), index=True)
    compatibility: Mapped[str] = mapped_column(String(32), default="")
    mode: Mapped[str] = mapped_column(String(32), default="")
    normalize: Mapped[bool | None] = mapped_column(Boolean)
    compatibility_group: Mapped[str | None] = mapped_column(Name)

    topic: Mapped[Topic | None] = relationship()


class SubjectVersion(Model):
    """A schema's place in a subject, counted from 1. It may have several there, all but one of them deleted."""

    __tablename__ = "subject_versions"
    __table_args__ = (
        UniqueConstraint("subject_id", "version"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    subject_id: Mapped[int] = mapped_column(ForeignKey("subjects.id"))
    version: Mapped[int] = mapped_column(Integer)
    schema_id: Mapped[int] = mapped_column(ForeignKey("schemas.id"), index=True)
    status: Mapped[str] = mapped_column(String(16), default=Status.ENABLED)
    created_at_ms: Mapped[int] = mapped_column(BigInteger)

    subject: Mapped[Subject] = relationship(lazy="joined", innerjoin=True)
    schema: Mapped[Schema] = relationship(lazy="joined", innerjoin=True)


class TableRegistration(Model):
    """A shape of a table and the topic it was given; the newest one per source says where the table stands."""

    __tablename__ = "table_registrations"
    __table_args__ = (UniqueConstraint("topic_id", "value_schema_id"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    source_id: Mapped[int] = mapped_column(ForeignKey("sources.id"), index=True)
    topic_id: Mapped[int] = mapped_column(ForeignKey("topics.id"))
    value_schema_id: Mapped[int] = mapped_column(ForeignKey("schemas.id"))
    created_at_ms: Mapped[int] = mapped_column(BigInteger)


class Setting(Model):
    """One setting of the whole registry."""

    __tablename__ = "settings"

    name: Mapped[str] = mapped_column(Name, primary_key=True)
    value: Mapped[str] = mapped_column(LongText)


class Element(Model):
    """A column that a source has, or had (`is_present`).

    `type` is the source's own text of it. `doc` is what people say, "" until they
    do; `comment`, what the table says, stands in for it. `contains_pii` is None
    until somebody knows.
    """

    __tablename__ = "elements"
    __table_args__ = (UniqueConstraint("source_id", "name"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    source_id: Mapped[int] = mapped_column(ForeignKey("sources.id"))
    name: Mapped[str] = mapped_column(Name)
    position: Mapped[int] = mapped_column(Integer)
    type: Mapped[str] = mapped_column(LongText)
    is_key: Mapped[bool] = mapped_column(Boolean)
    is_present: Mapped[bool] = mapped_column(Boolean, default=True)
    doc: Mapped[str] = mapped_column(LongText, default="")
    comment: Mapped[str] = mapped_column(LongText, default="")
    contains_pii: Mapped[bool | None] = mapped_column(Boolean)

    source: Mapped[Source] = relationship()


class Note(Model):
    """What somebody remarks on a schema, or on one element of it (`element` is its path, else "")."""

    __tablename__ = "notes"
    __table_args__ = ({"sqlite_autoincrement": True},)

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    schema_id: Mapped[int] = mapped_column(ForeignKey("schemas.id"), index=True)
    element: Mapped[str] = mapped_column(ExactText)
    text: Mapped[str] = mapped_column(LongText)
    author: Mapped[str] = mapped_column(Name)
    created_at_ms: Mapped[int] = mapped_column(BigInteger)
    updated_at_ms: Mapped[int] = mapped_column(BigInteger)


class Change(Model):
    """Who changed what, when. Rows are added with the change itself, and never touched again.

    What it is about is named, not referred to: `element` is "" for a whole
    source, and the table's two names are for a namespace; `entity` is the name
    or number of what none of these names. `field` changed from `before` to `after`.
    """

    __tablename__ = "history"
    __table_args__ = ({"sqlite_autoincrement": True},)

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    at_ms: Mapped[int] = mapped_column(BigInteger)
    author: Mapped[str] = mapped_column(Name)
    kind: Mapped[str] = mapped_column(String(16))
    namespace: Mapped[str] = mapped_column(Name, index=True)
    table_schema: Mapped[str] = mapped_column(Name)
    table_name: Mapped[str] = mapped_column(Name)
    element: Mapped[str] = mapped_column(ExactText)
    note_id: Mapped[int | None] = mapped_column(BigInteger)
    entity: Mapped[str] = mapped_column(Name, default="")
    field: Mapped[str] = mapped_column(String(32))
    before: Mapped[str] = mapped_column(LongText)
    after: Mapped[str] = mapped_column(LongText)


class SearchEntry(Model):
    """Something that can be found: how it is shown, and its words in the form in which they are compared."""

    __tablename__ = "search_entries"
    __table_args__ = (UniqueConstraint("kind", "entity_id"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    kind: Mapped[str] = mapped_column(String(16))
    entity_id: Mapped[int] = mapped_column(BigInteger)
    namespace: Mapped[str] = mapped_column(Name)
    table_schema: Mapped[str] = mapped_column(Name)
    table_name: Mapped[str] = mapped_column(Name)
    name: Mapped[str] = mapped_column(LongText)
    doc: Mapped[str] = mapped_column(LongText)
    name_words: Mapped[str] = mapped_column(ExactText)
    doc_words: Mapped[str] = mapped_column(ExactText)

"""The tables of the registry's database.

namespace 1─n source 1─n topic 1─n subject 1─n subject version n─1 schema
A topic's `ordinal` is its place in its source's chain: only the last one takes
new schemas. A subject that no table owns (a Confluent client made it) has no topic.
"""

from __future__ import annotations

from enum import StrEnum

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
# SQLite numbers rows by itself only where the key is an INTEGER.
Id = BigInteger().with_variant(Integer, "sqlite")


class Kind(StrEnum):
    """Which half of a message a schema is for."""

    KEY = "key"
    VALUE = "value"


class Status(StrEnum):
    """Whether a schema still counts on its topic."""

    ENABLED = "enabled"
    DISABLED = "disabled"


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
    """The name of a pipeline's source."""

    __tablename__ = "namespaces"
    __table_args__ = (UniqueConstraint("name"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    name: Mapped[str] = mapped_column(Name)
    created_at_ms: Mapped[int] = mapped_column(BigInteger)


class Source(Model):
    """One table of a namespace. `owner_email` is "" until somebody owns it."""

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
    created_at_ms: Mapped[int] = mapped_column(BigInteger)

    namespace: Mapped[Namespace] = relationship(lazy="joined", innerjoin=True)


class Schema(Model):
    """One Avro schema, whoever uses it. Its text never changes, so anybody may keep it for ever."""

    __tablename__ = "schemas"
    __table_args__ = (UniqueConstraint("fingerprint"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    fingerprint: Mapped[str] = mapped_column(Name)
    text: Mapped[str] = mapped_column(LongText)
    created_at_ms: Mapped[int] = mapped_column(BigInteger)


class Topic(Model):
    """A Kafka topic of a table.

    `collision_name` is the name with dots as underscores: a broker refuses two
    topics that differ in nothing else. `opened_because` says why the table could
    not stay on the topic before. `partitions` is None until somebody says.
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
    created_at_ms: Mapped[int] = mapped_column(BigInteger)

    source: Mapped[Source] = relationship(lazy="joined", innerjoin=True)
    follows: Mapped[Topic | None] = relationship(remote_side="Topic.id")


class Subject(Model):
    """What Confluent clients register schemas under. `compatibility` is "" where the global level holds."""

    __tablename__ = "subjects"
    __table_args__ = (UniqueConstraint("name"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    name: Mapped[str] = mapped_column(Name)
    kind: Mapped[str] = mapped_column(String(16))
    topic_id: Mapped[int | None] = mapped_column(ForeignKey("topics.id"), index=True)
    compatibility: Mapped[str] = mapped_column(String(32), default="")

    topic: Mapped[Topic | None] = relationship()


class SubjectVersion(Model):
    """A schema's place in a subject, counted from 1."""

    __tablename__ = "subject_versions"
    __table_args__ = (
        UniqueConstraint("subject_id", "version"),
        UniqueConstraint("subject_id", "schema_id"),
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

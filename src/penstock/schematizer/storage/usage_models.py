"""The tables about who uses topics: refreshes, data targets, producers and consumers, meta attributes.

data target 1─n consumer group 1─n data source, which names a namespace, a source or a topic
client (a producer or a consumer) 1─n client use n─1 topic
What a data source or a meta attribute belongs to is kept as a kind and the id
of its row, because these rows are of several tables; none of them is ever deleted
while something names it.
"""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import BigInteger, ForeignKey, Index, Integer, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column, relationship

from penstock.schematizer.storage.models import Id, LongText, Model, Name, Schema, Source, Topic


class RefreshStatus(StrEnum):
    """Where a refresh stands; the last two are its end."""

    NOT_STARTED = "not_started"
    IN_PROGRESS = "in_progress"
    PAUSED = "paused"
    SUCCESS = "success"
    FAILED = "failed"


class Scope(StrEnum):
    """What a data source, or a meta attribute, is of."""

    NAMESPACE = "namespace"
    SOURCE = "source"
    TOPIC = "topic"
    SCHEMA = "schema"


class Role(StrEnum):
    """What a client does with a topic."""

    PRODUCER = "producer"
    CONSUMER = "consumer"


class Refresh(Model):
    """One wish to have a source's rows again, all or those of `filter_condition`.

    `offset` is the refresher's own word for where to go on, "" at the start.
    `rows_total` and `rows_per_second_max` are None where nobody says. Times are
    Unix milliseconds; `started_at_ms` is the first start.
    """

    __tablename__ = "refreshes"
    __table_args__ = (Index("ix_refreshes_status_priority", "status", "priority"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    source_id: Mapped[int] = mapped_column(ForeignKey("sources.id"), index=True)
    status: Mapped[str] = mapped_column(String(16), default=RefreshStatus.NOT_STARTED)
    priority: Mapped[int] = mapped_column(Integer)
    rows_done: Mapped[int] = mapped_column(BigInteger, default=0)
    rows_total: Mapped[int | None] = mapped_column(BigInteger)
    offset: Mapped[str] = mapped_column(LongText, default="")
    batch_rows: Mapped[int] = mapped_column(Integer)
    rows_per_second_max: Mapped[int | None] = mapped_column(Integer)
    filter_condition: Mapped[str] = mapped_column(LongText, default="")
    created_at_ms: Mapped[int] = mapped_column(BigInteger)
    updated_at_ms: Mapped[int] = mapped_column(BigInteger)
    started_at_ms: Mapped[int | None] = mapped_column(BigInteger)
    ended_at_ms: Mapped[int | None] = mapped_column(BigInteger)

    source: Mapped[Source] = relationship(lazy="joined", innerjoin=True)


class DataTarget(Model):
    """Where streams end up: a warehouse, a lake, an index. `destination` says which one, in words or as a URL."""

    __tablename__ = "data_targets"
    __table_args__ = (UniqueConstraint("name"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    name: Mapped[str] = mapped_column(Name)
    type: Mapped[str] = mapped_column(String(32))
    destination: Mapped[str] = mapped_column(LongText)
    created_at_ms: Mapped[int] = mapped_column(BigInteger)


class ConsumerGroup(Model):
    """A Kafka consumer group that fills a data target."""

    __tablename__ = "consumer_groups"
    __table_args__ = (UniqueConstraint("name"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    name: Mapped[str] = mapped_column(Name)
    data_target_id: Mapped[int] = mapped_column(ForeignKey("data_targets.id"), index=True)
    created_at_ms: Mapped[int] = mapped_column(BigInteger)

    data_target: Mapped[DataTarget] = relationship(lazy="joined", innerjoin=True)


class DataSource(Model):
    """What a consumer group reads: every topic of a namespace, or of a source, or one topic (`scope`, `entity_id`)."""

    __tablename__ = "data_sources"
    __table_args__ = (
        UniqueConstraint("consumer_group_id", "scope", "entity_id"),
        Index("ix_data_sources_scope_entity_id", "scope", "entity_id"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    consumer_group_id: Mapped[int] = mapped_column(ForeignKey("consumer_groups.id"))
    scope: Mapped[str] = mapped_column(String(16))
    entity_id: Mapped[int] = mapped_column(BigInteger)
    created_at_ms: Mapped[int] = mapped_column(BigInteger)

    consumer_group: Mapped[ConsumerGroup] = relationship(lazy="joined", innerjoin=True)


class Client(Model):
    """A program that produces or consumes, and who answers for it.

    `expected_frequency_seconds` is how often it should be seen on each of its
    topics, None where nobody says.
    """

    __tablename__ = "clients"
    __table_args__ = (UniqueConstraint("role", "name"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    role: Mapped[str] = mapped_column(String(16))
    name: Mapped[str] = mapped_column(Name)
    team: Mapped[str] = mapped_column(Name, default="")
    owner_email: Mapped[str] = mapped_column(Name, default="")
    expected_frequency_seconds: Mapped[int | None] = mapped_column(Integer)
    created_at_ms: Mapped[int] = mapped_column(BigInteger)


class ClientUse(Model):
    """A client was seen on a topic; `schema_id` is the schema that it used last, None if it did not say."""

    __tablename__ = "client_uses"
    __table_args__ = (UniqueConstraint("client_id", "topic_id"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    client_id: Mapped[int] = mapped_column(ForeignKey("clients.id"))
    topic_id: Mapped[int] = mapped_column(ForeignKey("topics.id"), index=True)
    schema_id: Mapped[int | None] = mapped_column(ForeignKey("schemas.id"), index=True)
    first_seen_at_ms: Mapped[int] = mapped_column(BigInteger)
    last_seen_at_ms: Mapped[int] = mapped_column(BigInteger)

    client: Mapped[Client] = relationship(lazy="joined", innerjoin=True)
    topic: Mapped[Topic] = relationship(lazy="joined", innerjoin=True)


class MetaAttribute(Model):
    """Messages of a namespace, a source or a schema (`scope`, `entity_id`) carry data of `schema_id` as well."""

    __tablename__ = "meta_attributes"
    __table_args__ = (UniqueConstraint("scope", "entity_id", "schema_id"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    scope: Mapped[str] = mapped_column(String(16))
    entity_id: Mapped[int] = mapped_column(BigInteger)
    schema_id: Mapped[int] = mapped_column(ForeignKey("schemas.id"), index=True)
    created_at_ms: Mapped[int] = mapped_column(BigInteger)

    schema: Mapped[Schema] = relationship()

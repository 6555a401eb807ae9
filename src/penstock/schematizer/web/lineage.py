"""Where a topic's data comes from and where it goes, from what programs and groups said of themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import and_, or_, select

from penstock.schematizer.storage.models import Topic
from penstock.schematizer.storage.usage_models import Client, ClientUse, ConsumerGroup, DataSource, Role, Scope

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

_ROWS_MAX = 200


@dataclass(frozen=True, slots=True)
class ClientShown:
    """A program that writes or reads the topic; `feeds` are the topics that a reader of this name writes: a join."""

    name: str
    team: str
    owner_email: str
    last_seen_ms: int
    is_late: bool
    feeds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TargetShown:
    """A data target and the consumer group that fills it; `scope` says by what it chose the topic."""

    name: str
    type: str
    destination: str
    group: str
    scope: str


@dataclass(frozen=True, slots=True)
class Lineage:
    """What is known about both sides of a topic."""

    producers: list[ClientShown]
    consumers: list[ClientShown]
    targets: list[TargetShown]


def read_lineage(session: Session, topic: Topic, now_ms: int) -> Lineage:
    """Read who writes `topic`, who reads it, and what it fills."""
    query = (
        select(ClientUse)
        .join(Client, Client.id == ClientUse.client_id)
        .where(ClientUse.topic_id == topic.id)
        .order_by(Client.name)
        .limit(_ROWS_MAX)
    )
    uses = session.scalars(query).all()
    feeds = _feeds(session, topic, [use.client.name for use in uses if use.client.role == Role.CONSUMER])
    shown = [(use.client.role, _client(use, feeds.get(use.client.name, ()), now_ms)) for use in uses]
    return Lineage(
        [client for role, client in shown if role == Role.PRODUCER],
        [client for role, client in shown if role == Role.CONSUMER],
        _targets(session, topic),
    )


def _client(use: ClientUse, feeds: tuple[str, ...], now_ms: int) -> ClientShown:
    client, expected = use.client, use.client.expected_frequency_seconds
    is_late = expected is not None and now_ms - use.last_seen_at_ms > 1000 * expected
    is_consumer = client.role == Role.CONSUMER
    return ClientShown(
        client.name, client.team, client.owner_email, use.last_seen_at_ms, is_late, feeds if is_consumer else ()
    )


def _feeds(session: Session, topic: Topic, names: list[str]) -> dict[str, tuple[str, ...]]:
    """Return the topics that producers called as these consumers write."""
    query = (
        select(Client.name, Topic.name)
        .join(ClientUse, ClientUse.client_id == Client.id)
        .join(Topic, Topic.id == ClientUse.topic_id)
        .where(Client.role == Role.PRODUCER, Client.name.in_(names), Topic.id != topic.id)
        .order_by(Client.name, Topic.name)
        .limit(_ROWS_MAX)
    )
    feeds: dict[str, tuple[str, ...]] = {}
    for name, written in session.execute(query):
        feeds[name] = (*feeds.get(name, ()), written)
    return feeds


def _targets(session: Session, topic: Topic) -> list[TargetShown]:
    source = topic.source
    chosen = or_(
        and_(DataSource.scope == Scope.NAMESPACE, DataSource.entity_id == source.namespace_id),
        and_(DataSource.scope == Scope.SOURCE, DataSource.entity_id == source.id),
        and_(DataSource.scope == Scope.TOPIC, DataSource.entity_id == topic.id),
    )
    query = (
        select(DataSource)
        .join(ConsumerGroup, ConsumerGroup.id == DataSource.consumer_group_id)
        .where(chosen)
        .order_by(ConsumerGroup.name, DataSource.id)
        .limit(_ROWS_MAX)
    )
    found: dict[str, TargetShown] = {}
    for each in session.scalars(query):
        group = each.consumer_group
        target = group.data_target
        found.setdefault(group.name, TargetShown(target.name, target.type, target.destination, group.name, each.scope))
    return list(found.values())

"""Producers and consumers: who answers for them, and when they were last seen on which topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import select

from penstock.schematizer.api.paging import read_page
from penstock.schematizer.api.usage_answers import ClientAnswer, ClientList, UseAnswer, UseList
from penstock.schematizer.metadata.catalog import find_topic
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.registry.documentation import check_email
from penstock.schematizer.registry.schemas import schema_by_id
from penstock.schematizer.storage.database import Database, now_ms
from penstock.schematizer.storage.history import HistoryPlace, set_field
from penstock.schematizer.storage.models import Thing, Topic
from penstock.schematizer.storage.usage_models import Client, ClientUse, Role
from penstock.schematizer.storage.words import clean

if TYPE_CHECKING:
    from sqlalchemy import Select
    from sqlalchemy.orm import Session

    from penstock.schematizer.api.usage_queries import ClientQuery, UseQuery
    from penstock.schematizer.storage.database import UnitOfWork

_SEEN_AGAIN_AFTER_MS = 60_000
_THINGS = {Role.PRODUCER: Thing.PRODUCER, Role.CONSUMER: Thing.CONSUMER}
_UNKNOWN = {Role.PRODUCER: Code.UNKNOWN_PRODUCER, Role.CONSUMER: Code.UNKNOWN_CONSUMER}


@dataclass(frozen=True, slots=True)
class ClientAnnotations:
    """What somebody says about a producer or consumer: None leaves a part as it is."""

    team: str | None = None
    owner_email: str | None = None
    expected_frequency_seconds: int | None = None


def put_client(work: UnitOfWork, role: Role, name: str, said: ClientAnnotations) -> ClientAnswer:
    """Make a producer or consumer, or change the one there is. Raises RefusedError for one without an owner."""
    query = select(Client).where(Client.role == role, Client.name == name).with_for_update()
    client = work.session.scalars(query).one_or_none()
    if client is None:
        if not said.owner_email:
            message = f"the {role} {name!r} is new, and has no owner"
            raise RefusedError(Code.OWNER_REQUIRED, message, 'send "owner_email": the address of those who run it')
        client = Client(role=role, name=name, team="", owner_email="", created_at_ms=now_ms())
        work.session.add(client)
    place = HistoryPlace(_THINGS[role], entity=name)
    if said.owner_email is not None:
        set_field(work, place, client, "owner_email", _owner(said.owner_email))
    if said.team is not None:
        set_field(work, place, client, "team", clean(said.team))
    expected = said.expected_frequency_seconds
    if expected is not None:
        set_field(work, place, client, "expected_frequency_seconds", expected)
    work.session.flush()
    return ClientAnswer.of(client)


def _owner(text: str) -> str:
    address = check_email(text)
    if not address:
        raise RefusedError(Code.OWNER_REQUIRED, "every producer and consumer has an owner", "send another address")
    return address


def find_client(session: Session, role: Role, name: str) -> Client:
    """Return the producer or consumer called `name`; RefusedError if there is none."""
    client = session.scalars(select(Client).where(Client.role == role, Client.name == name)).one_or_none()
    if client is None:
        hint = f"make it with PUT /v1/{role}s/<name>, with its owner"
        raise RefusedError(_UNKNOWN[role], f"there is no {role} {name!r}", hint)
    return client


def read_clients(session: Session, role: Role, asked: ClientQuery) -> ClientList:
    """List producers or consumers, by name."""
    query = select(Client).where(Client.role == role)
    if asked.team is not None:
        query = query.where(Client.team == asked.team)
    if asked.owner_email is not None:
        query = query.where(Client.owner_email == asked.owner_email)
    if asked.topic or asked.schema_id is not None:
        uses = select(ClientUse.client_id).join(Topic, Topic.id == ClientUse.topic_id)
        if asked.topic:
            uses = uses.where(Topic.name == asked.topic)
        if asked.schema_id is not None:
            uses = uses.where(ClientUse.schema_id == asked.schema_id)
        query = query.where(Client.id.in_(uses))
    found, following = read_page(session, query, [Client.name], asked.window)
    return ClientList(items=[ClientAnswer.of(each) for each in found], next=following)


def read_uses(session: Session, role: Role, name: str, asked: UseQuery) -> UseList:
    """List the topics that a producer or consumer was seen on, by name."""
    query = _uses(asked).where(ClientUse.client_id == find_client(session, role, name).id)
    query = query.join(Topic, Topic.id == ClientUse.topic_id)
    found, following = read_page(session, query, [Topic.name], asked.window)
    return UseList(items=[UseAnswer.of(each) for each in found], next=following)


def read_uses_of_topic(session: Session, role: Role, name: str, asked: UseQuery) -> UseList:
    """List the producers or consumers that were seen on a topic, by name."""
    query = _uses(asked).where(ClientUse.topic_id == find_topic(session, name).id)
    query = query.join(Client, Client.id == ClientUse.client_id).where(Client.role == role)
    found, following = read_page(session, query, [Client.name], asked.window)
    return UseList(items=[UseAnswer.of(each) for each in found], next=following)


def _uses(asked: UseQuery) -> Select[ClientUse]:
    query = select(ClientUse)
    return query if asked.unseen_since is None else query.where(ClientUse.last_seen_at_ms < asked.unseen_since)


def see_client(database: Database, role: Role, name: str, topic: str, schema_id: int | None) -> UseAnswer:
    """Keep that a client is on a topic now. A pair that was seen within the last minute costs a read, and no write.

    Another schema than before is written at once. Raises RefusedError for what is unknown.
    """
    seen = database.read(lambda session: _seen_lately(session, role, name, topic, schema_id))
    return seen or database.write(lambda session: _see(session, role, name, topic, schema_id))


def _seen_lately(session: Session, role: Role, name: str, topic: str, schema_id: int | None) -> UseAnswer | None:
    use = session.scalars(
        select(ClientUse)
        .join(Client, Client.id == ClientUse.client_id)
        .join(Topic, Topic.id == ClientUse.topic_id)
        .where(Client.role == role, Client.name == name, Topic.name == topic)
    ).one_or_none()
    if use is None or schema_id not in {None, use.schema_id}:
        return None
    return UseAnswer.of(use) if now_ms() - use.last_seen_at_ms < _SEEN_AGAIN_AFTER_MS else None


def _see(session: Session, role: Role, name: str, topic: str, schema_id: int | None) -> UseAnswer:
    client, its_topic = find_client(session, role, name), find_topic(session, topic)
    if schema_id is not None:
        schema_by_id(session, schema_id)
    query = select(ClientUse).where(ClientUse.client_id == client.id, ClientUse.topic_id == its_topic.id)
    use = session.scalars(query.with_for_update(of=ClientUse)).one_or_none()
    now = now_ms()
    if use is None:
        use = ClientUse(client=client, topic=its_topic, first_seen_at_ms=now, last_seen_at_ms=now)
        session.add(use)
    use.last_seen_at_ms = max(now, use.last_seen_at_ms)
    if schema_id is not None:
        use.schema_id = schema_id
    session.flush()
    return UseAnswer.of(use)

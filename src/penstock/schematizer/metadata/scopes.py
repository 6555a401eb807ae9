"""What data sources and meta attributes are of: a namespace, a source, a topic or a schema, found and named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.schematizer.metadata.catalog import find_topic
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.registry.documentation import find_namespace, find_source
from penstock.schematizer.storage.models import Namespace, Source, Topic
from penstock.schematizer.storage.usage_models import Scope

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from penstock.core.tables import TableId


@dataclass(frozen=True, slots=True)
class Scoped:
    """Something by the id of its row."""

    scope: Scope
    entity_id: int


@dataclass(frozen=True, slots=True)
class Named:
    """The same by its names; "" for what does not matter to it."""

    scope: Scope
    namespace: str = ""
    table: str = ""
    topic: str = ""

    @property
    def text(self) -> str:
        """What the history calls it."""
        return self.topic or f"{self.namespace} {self.table}".rstrip()


def find_scoped(session: Session, namespace: str, table: TableId, topic: str) -> Scoped:
    """Find what names say: a topic, or else a namespace, or a table of it. Raises RefusedError."""
    if bool(namespace) == bool(topic) or bool(table.schema) != bool(table.name) or (topic and table.name):
        hint = 'send "topic"; or "namespace"; or "namespace", "table_schema" and "table_name"'
        raise RefusedError(Code.INVALID_REQUEST, "these names do not say one thing to read", hint)
    if topic:
        return Scoped(Scope.TOPIC, find_topic(session, topic).id)
    if table.name:
        return Scoped(Scope.SOURCE, find_source(session, namespace, table).id)
    return Scoped(Scope.NAMESPACE, find_namespace(session, namespace).id)


def name_scoped(session: Session, scope: str, entity_id: int) -> Named:
    """Return the names of what stands in a row."""
    match Scope(scope):
        case Scope.NAMESPACE:
            return Named(Scope.NAMESPACE, session.get_one(Namespace, entity_id).name)
        case Scope.SOURCE:
            source = session.get_one(Source, entity_id)
            return Named(Scope.SOURCE, source.namespace.name, f"{source.table_schema}.{source.table_name}")
        case Scope.TOPIC:
            topic = session.get_one(Topic, entity_id)
            table = f"{topic.source.table_schema}.{topic.source.table_name}"
            return Named(Scope.TOPIC, topic.source.namespace.name, table, topic.name)
        case Scope.SCHEMA:
            return Named(Scope.SCHEMA)

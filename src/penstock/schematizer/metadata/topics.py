"""What people say of a topic that is there: its facts, and which of its schemas still count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select

from penstock.schematizer.api.answers import TopicAnswer, TopicSchemaAnswer
from penstock.schematizer.metadata.catalog import find_topic
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.registry.topic_rule import TopicFacts, keep_facts
from penstock.schematizer.storage.history import HistoryPlace, set_field
from penstock.schematizer.storage.models import SchemaKind, Status, Subject, SubjectVersion, Thing

if TYPE_CHECKING:
    from penstock.schematizer.storage.database import UnitOfWork


def set_facts(work: UnitOfWork, name: str, facts: TopicFacts) -> TopicAnswer:
    """Keep facts of a topic; RefusedError if there is none."""
    topic = find_topic(work.session, name, lock=True)
    keep_facts(work, topic, facts)
    return TopicAnswer.of(topic)


def set_status(work: UnitOfWork, name: str, schema_id: int, status: Status) -> TopicSchemaAnswer:
    """Say whether a schema of a topic's values still counts there. Raises RefusedError where it is none."""
    topic = find_topic(work.session, name)
    query = (
        select(SubjectVersion)
        .join(Subject, Subject.id == SubjectVersion.subject_id)
        .where(
            Subject.topic_id == topic.id,
            Subject.kind == SchemaKind.VALUE,
            SubjectVersion.schema_id == schema_id,
            SubjectVersion.status != Status.DELETED,
        )
    )
    found = work.session.scalars(query.with_for_update(of=Subject)).one_or_none() if schema_id < 1 << 63 else None
    if found is None:
        message = f"topic {name!r} has no schema {schema_id} of its values"
        raise RefusedError(Code.UNKNOWN_SCHEMA, message, f"see GET /v1/topics/{name}/schemas; a key's always counts")
    source = topic.source
    place = HistoryPlace(
        Thing.SCHEMA, source.namespace.name, source.table_schema, source.table_name, entity=str(schema_id)
    )
    set_field(work, place, found, "status", status.value)
    return TopicSchemaAnswer.of(found)

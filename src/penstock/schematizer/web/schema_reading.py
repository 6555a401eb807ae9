"""What the pages of topics, schemas and subjects show."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import func, select

from penstock.schematizer.api.answers import SourceAnswer, TopicAnswer, TopicSchemaAnswer
from penstock.schematizer.api.documentation_answers import NoteAnswer
from penstock.schematizer.formats.schema_types import SchemaType
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.registry.elements import SchemaElement, elements_of_schema
from penstock.schematizer.registry.schemas import schema_by_id
from penstock.schematizer.registry.subjects import level_of, subject_versions
from penstock.schematizer.storage.database import now_ms
from penstock.schematizer.storage.models import Note, Schema, SchemaKind, Subject, SubjectVersion, Topic
from penstock.schematizer.web.differences import (
    FieldDifference,
    LineDifference,
    compare_fields,
    compare_lines,
    count_fates,
)
from penstock.schematizer.web.lineage import Lineage, read_lineage

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence

    from sqlalchemy.orm import Session

    from penstock.schematizer.security.rights import Rights

_VERSIONS_MAX = 500
_NOTES_MAX = 500


@dataclass(frozen=True, slots=True)
class VersionShown:
    """A version of a subject and, of a table's, the topic that it is on."""

    topic: str
    answer: TopicSchemaAnswer


@dataclass(frozen=True, slots=True)
class SchemaShown:
    """A schema: its fields, or none where only its text is understood, and what was remarked on it."""

    id: int
    type: str
    text: str
    created_at_ms: int
    elements: list[SchemaElement]
    notes: list[NoteAnswer]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two schemas side by side: by field where both have fields, else by line."""

    before: SchemaShown
    after: SchemaShown
    fields: list[FieldDifference]
    lines: list[LineDifference]
    counts: Counter[str]


@dataclass(frozen=True, slots=True)
class TopicPage:
    """A topic, its table, who uses it, and the schemas of all topics of that table, the oldest first."""

    topic: TopicAnswer
    source: SourceAnswer
    successor: str
    lineage: Lineage
    versions: list[VersionShown]
    newest: SchemaShown | None
    comparison: Comparison | None

    @property
    def own_versions(self) -> list[VersionShown]:
        """The versions that are on this topic itself: the key's, then the value's."""
        return [each for each in self.versions if each.topic == self.topic.name]

    @property
    def values(self) -> list[VersionShown]:
        """The values of all topics of the table."""
        return [each for each in self.versions if each.answer.kind is SchemaKind.VALUE]


@dataclass(frozen=True, slots=True)
class SchemaPage:
    """A schema and every version of a subject that has it."""

    schema: SchemaShown
    used_by: list[VersionShown]


@dataclass(frozen=True, slots=True)
class SubjectPage:
    """A subject that is no table's."""

    name: str
    topic: str
    level: str
    versions: list[VersionShown]
    newest: SchemaShown
    comparison: Comparison | None


def read_topic_page(session: Session, name: str, pair: tuple[int, int] | None) -> TopicPage:
    """Read a topic; `pair` are the ids of the schemas to compare, the two newest for None. Raises RefusedError."""
    topic = session.scalars(select(Topic).where(Topic.name == name)).one_or_none()
    if topic is None:
        raise RefusedError(Code.UNKNOWN_TOPIC, f"there is no topic {name!r}", "look for it by its table's name")
    versions = _table_versions(session, topic)
    values = [each.answer.id for each in versions if each.answer.kind is SchemaKind.VALUE]
    own = [each.answer.id for each in versions if each.topic == name and each.answer.kind is SchemaKind.VALUE]
    successor = session.scalars(select(Topic.name).where(Topic.follows_id == topic.id)).first()
    return TopicPage(
        TopicAnswer.of(topic),
        SourceAnswer.of(topic.source),
        successor or "",
        read_lineage(session, topic, now_ms()),
        versions,
        show_schema(session, own[-1]) if own else None,
        _compare(session, pair or _newest_pair(values, own)),
    )


def read_schema_page(session: Session, schema_id: int, asking: Rights) -> SchemaPage:
    """Read a schema and who has it, as far as it may be read; RefusedError if there is none."""
    schema = show_schema(session, schema_id)
    query = (
        select(SubjectVersion, Topic.name)
        .join(Subject, Subject.id == SubjectVersion.subject_id)
        .outerjoin(Topic, Topic.id == Subject.topic_id)
        .where(SubjectVersion.schema_id == schema_id)
        .order_by(SubjectVersion.id)
        .limit(_VERSIONS_MAX)
    )
    used_by = [
        VersionShown(topic or "", TopicSchemaAnswer.of(each))
        for each, topic in session.execute(query)
        if asking.may_read(session, each.subject.name)
    ]
    return SchemaPage(schema, used_by)


def read_subject_page(session: Session, name: str, pair: tuple[int, int] | None) -> SubjectPage:
    """Read a subject; RefusedError if it has no version."""
    found = subject_versions(session, name)[-_VERSIONS_MAX:]
    versions = [VersionShown("", TopicSchemaAnswer.of(each)) for each in found]
    ids = [each.answer.id for each in versions]
    topic = found[-1].subject.topic
    return SubjectPage(
        name,
        topic.name if topic else "",
        level_of(session, name),
        versions,
        show_schema(session, ids[-1]),
        _compare(session, pair or _newest_pair(ids, ids)),
    )


def read_foreign_subjects(session: Session, part: str, after: str, limit: int) -> tuple[list[tuple[str, int]], str]:
    """List subjects that are no table's whose name has `part`, with their number of versions; and the next `after`."""
    query = (
        select(Subject.name, func.count(SubjectVersion.id))
        .join(SubjectVersion, SubjectVersion.subject_id == Subject.id)
        .where(Subject.topic_id.is_(None), Subject.name > after)
        .group_by(Subject.name)
        .order_by(Subject.name)
        .limit(limit + 1)
    )
    if part:
        query = query.where(Subject.name.contains(part, autoescape=True))
    found = [(name, versions) for name, versions in session.execute(query)]
    return found[:limit], found[limit - 1][0] if len(found) > limit else ""


def show_schema(session: Session, schema_id: int) -> SchemaShown:
    """Return a schema as it is shown; RefusedError if there is none."""
    schema = schema_by_id(session, schema_id)
    notes = session.scalars(select(Note).where(Note.schema_id == schema_id).order_by(Note.id).limit(_NOTES_MAX))
    elements = elements_of_schema(session, schema_id) if schema.type == SchemaType.AVRO else []
    return SchemaShown(
        schema_id,
        schema.type,
        _indented(schema),
        schema.created_at_ms,
        elements,
        [NoteAnswer.of(note) for note in notes],
    )


def _compare(session: Session, pair: tuple[int, int] | None) -> Comparison | None:
    if pair is None:
        return None
    before, after = (show_schema(session, schema_id) for schema_id in pair)
    fields: list[FieldDifference] = []
    lines: list[LineDifference] = []
    if before.elements or after.elements:
        fields = compare_fields(before.elements, after.elements)
    else:
        lines = compare_lines(before.text, after.text)
    return Comparison(before, after, fields, lines, count_fates(fields))


def _newest_pair(values: Sequence[int], own: Sequence[int]) -> tuple[int, int] | None:
    """Return the newest of `own` and the one before it, which may be on the topic before."""
    if not own:
        return None
    place = len(values) - 1 - list(reversed(values)).index(own[-1])
    return (values[place - 1], values[place]) if place else None


def _table_versions(session: Session, topic: Topic) -> list[VersionShown]:
    query = (
        select(SubjectVersion, Topic.name)
        .join(Subject, Subject.id == SubjectVersion.subject_id)
        .join(Topic, Topic.id == Subject.topic_id)
        .where(Topic.source_id == topic.source_id)
        .order_by(Topic.ordinal.desc(), Subject.kind.desc(), SubjectVersion.version.desc())
        .limit(_VERSIONS_MAX)
    )
    found = session.execute(query).all()
    return [VersionShown(on, TopicSchemaAnswer.of(version)) for version, on in reversed(found)]


def _indented(schema: Schema) -> str:
    if schema.type not in {SchemaType.AVRO, "JSON"}:
        return schema.text
    return json.dumps(json.loads(schema.text), indent=2, ensure_ascii=False)

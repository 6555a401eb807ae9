"""Subjects and their versions: the part of the store that both faces share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import exists, func, or_, select

from penstock.core.compatibility import Reading
from penstock.schematizer.contexts import SubjectName, parse_subject
from penstock.schematizer.formats.schema_types import SchemaType
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.registry.groups import group_of, group_value
from penstock.schematizer.registry.levels import Level, level_problems
from penstock.schematizer.registry.references import form_of
from penstock.schematizer.registry.schemas import keep_schema
from penstock.schematizer.storage.association_models import Association
from penstock.schematizer.storage.database import now_ms
from penstock.schematizer.storage.models import (
    READABLE,
    Schema,
    SchemaKind,
    Setting,
    Status,
    Subject,
    SubjectVersion,
    Topic,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.orm import Session

    from penstock.schematizer.registry.schemas import ParsedSchema

_GLOBAL_LEVEL = "compatibility"
_SUBJECT_CHARACTERS_MAX = 255


def find_subject(session: Session, name: str) -> Subject | None:
    """Return the subject called `name`, None if there is none."""
    return session.scalars(select(Subject).where(Subject.name == name)).one_or_none()


def open_subject(session: Session, name: str, topic: Topic | None = None) -> Subject:
    """Return the subject called `name`, locked until the transaction ends, making it first if need be.

    The subjects of a `topic` are held to FULL_TRANSITIVE, which is its table's rule, unless somebody said
    another level. One that only settings were said of becomes the topic's.
    """
    if not 0 < len(name) <= _SUBJECT_CHARACTERS_MAX or not name.isprintable():
        message = f"The specified subject '{name[:80]}' is not a valid name"
        hint = f"use 1 to {_SUBJECT_CHARACTERS_MAX} printable characters"
        raise RefusedError(Code.INVALID_SUBJECT, message, hint)
    subject = session.scalars(select(Subject).where(Subject.name == name).with_for_update()).one_or_none()
    if subject is None:
        kind = SchemaKind.KEY if name.endswith("-key") else SchemaKind.VALUE
        level = Level.FULL_TRANSITIVE if topic else ""
        subject = Subject(name=name, kind=kind, topic=topic, compatibility=level)
        session.add(subject)
        session.flush()
    elif topic is not None and subject.topic_id is None and not is_used(session, name):
        subject.topic, subject.compatibility = topic, subject.compatibility or Level.FULL_TRANSITIVE
        session.flush()
    return subject


def is_used(session: Session, name: str) -> bool:
    """Tell whether subject `name` has versions, deleted ones too, or associations, or is a table's."""
    versions = exists().where(SubjectVersion.subject_id == Subject.id)
    associations = exists().where(Association.subject_id == Subject.id)
    query = select(Subject.id).where(Subject.name == name, or_(Subject.topic_id.is_not(None), versions, associations))
    return session.scalar(query) is not None


def enabled_versions(session: Session, subject: Subject) -> Sequence[SubjectVersion]:
    """Return the versions of `subject` that count, oldest first."""
    query = select(SubjectVersion).where(SubjectVersion.subject_id == subject.id, SubjectVersion.status.in_(READABLE))
    return session.scalars(query.order_by(SubjectVersion.version)).all()


def add_version(session: Session, subject: Subject, schema: Schema) -> SubjectVersion:
    """Put `schema` at the end of `subject`, which the caller has locked."""
    newest = session.scalar(select(func.max(SubjectVersion.version)).where(SubjectVersion.subject_id == subject.id))
    version = SubjectVersion(
        subject=subject, version=(newest or 0) + 1, schema=schema, status=Status.ENABLED, created_at_ms=now_ms()
    )
    session.add(version)
    session.flush()
    return version


def find_version(session: Session, subject: Subject, schema: ParsedSchema) -> SubjectVersion | None:
    """Return the version of `subject` that has this schema, None if there is none.

    Of several, which were imported by ids of their own, it is the one with the same text, or else the first.
    """
    query = (
        select(SubjectVersion)
        .join(Schema, Schema.id == SubjectVersion.schema_id)
        .where(
            SubjectVersion.subject_id == subject.id,
            SubjectVersion.status != Status.DELETED,
            Schema.text_fingerprint.in_(schema.text_fingerprints),
        )
        .order_by(SubjectVersion.version)
    )
    found = [each for each in session.scalars(query) if schema.is_kept_as(each.schema_id, each.schema.fingerprint)]
    return next((each for each in found if each.schema.text == schema.text), found[0] if found else None)


def find_latest_text(session: Session, subject: Subject, schema: ParsedSchema) -> SubjectVersion | None:
    """Return the newest version of `subject` with this text, whatever was added to it; None if there is none."""
    query = (
        select(SubjectVersion)
        .join(Schema, Schema.id == SubjectVersion.schema_id)
        .where(
            SubjectVersion.subject_id == subject.id,
            SubjectVersion.status == Status.ENABLED,
            Schema.text_fingerprint.in_(schema.text_fingerprints),
        )
        .order_by(SubjectVersion.version.desc())
    )
    return session.scalars(query.limit(1)).one_or_none()


def subject_versions(session: Session, name: str, *, deleted: bool = False) -> Sequence[SubjectVersion]:
    """Return the versions of the subject called `name`, oldest first, those too that are `deleted` if asked for.

    Raises RefusedError if there are none.
    """
    subject = find_subject(session, name)
    versions: Sequence[SubjectVersion] = ()
    if subject and deleted:
        query = select(SubjectVersion).where(SubjectVersion.subject_id == subject.id)
        versions = session.scalars(query.order_by(SubjectVersion.version)).all()
    elif subject:
        versions = enabled_versions(session, subject)
    if not versions:
        raise RefusedError(
            Code.UNKNOWN_SUBJECT, f"Subject '{name}' not found.", "see GET /subjects for those there are"
        )
    return versions


def version_of(versions: Sequence[SubjectVersion], wanted: str) -> SubjectVersion:
    """Pick a version by its number, or the newest for `latest` and `-1`. Raises RefusedError."""
    if wanted in {"latest", "-1"}:
        return versions[-1]
    digits = wanted.lstrip("0")
    if not (wanted.isascii() and wanted.isdecimal()) or not digits:
        message = f"The specified version '{wanted[:80]}' is not a valid version id."
        raise RefusedError(Code.INVALID_VERSION, message, 'use a whole number from 1 on, or "latest"')
    for version in versions:
        if str(version.version) == digits:
            return version
    raise RefusedError(
        Code.UNKNOWN_VERSION, f"Version {wanted[:80]} not found.", f"the newest is {versions[-1].version}"
    )


def register_version(session: Session, name: str, schema: ParsedSchema) -> SubjectVersion:
    """Return the version of subject `name` with this schema, adding it if its level allows. Raises RefusedError."""
    subject = open_subject(session, name)
    known = find_version(session, subject, schema)
    if known is not None and known.status == Status.ENABLED:
        return known
    if known is not None:
        message = (
            "Schema being registered is incompatible with an earlier schema: "
            f"the schema is disabled in subject {name!r}"
        )
        raise RefusedError(Code.INCOMPATIBLE_SCHEMA, message, "enable it, or register another schema")
    check_compatible(session, subject, schema)
    return add_version(session, subject, keep_schema(session, schema))


def check_compatible(session: Session, subject: Subject, schema: ParsedSchema) -> None:
    """Raise RefusedError where the level of `subject`, or what it is of, keeps a new version from it."""
    check_table_rule(subject, schema)
    level = level_of(session, subject.name)
    problems = version_problems(session, subject, level, schema)
    if problems:
        message = (
            f"Schema being registered is incompatible with an earlier schema for subject {subject.name!r} "
            f"({level}): {'; '.join(problems)}"
        )
        raise RefusedError(Code.INCOMPATIBLE_SCHEMA, message, "change the schema, or the subject's compatibility level")


def version_problems(session: Session, subject: Subject, level: Level, new: ParsedSchema) -> tuple[str, ...]:
    """List what keeps `new` from following the versions of `subject` that count at `level`, those of its group."""
    versions = of_group(session, subject, new, enabled_versions(session, subject))
    old = [form_of(version.schema) for version in (versions if level.transitive else versions[-1:])]
    return level_problems(level, reading_of(subject), new.form, old)


def of_group(
    session: Session, subject: Subject, new: ParsedSchema, versions: Sequence[SubjectVersion]
) -> Sequence[SubjectVersion]:
    """Return those of the versions of `subject` that `new` is compared with: those of its group.

    Schemas of a table are one group: whoever reads its topic reads all of them.
    """
    group = group_of(session, subject.name)
    if group is None or subject.topic_id is not None:
        return versions
    value = group_value(new.additions.metadata, group)
    return [each for each in versions if group_value(each.schema.metadata_json, group) == value]


def check_table_rule(subject: Subject, schema: ParsedSchema) -> None:
    """Refuse what no table has on a table's subject: references, and other types of schemas."""
    if subject.topic_id is not None and (schema.references or schema.kind != SchemaType.AVRO):
        message = f"subject {subject.name!r} belongs to a table, which has whole Avro schemas only"
        raise RefusedError(Code.NOT_PERMITTED, message, "use another subject")


def reading_of(subject: Subject) -> Reading:
    """Return how strictly schemas of `subject` are compared: those of tables, exactly."""
    return Reading.AVRO if subject.topic_id is None else Reading.EXACT


def level_of(session: Session, name: str) -> Level:
    """Return the level that holds for subject `name`: its own, or else its context's, or else the global one."""
    for each in (name, str(SubjectName(parse_subject(name).context, ""))):
        subject = find_subject(session, each)
        if subject and subject.compatibility:
            return Level(subject.compatibility)
    return global_level(session)


def global_level(session: Session) -> Level:
    """Return the level of subjects that have none of their own; BACKWARD unless set."""
    setting = session.get(Setting, _GLOBAL_LEVEL)
    return Level(setting.value) if setting else Level.BACKWARD


def set_global_level(session: Session, level: Level | None) -> None:
    """Change the level of subjects that have none of their own; None makes it what it was at first."""
    session.merge(Setting(name=_GLOBAL_LEVEL, value=Level.BACKWARD if level is None else level))

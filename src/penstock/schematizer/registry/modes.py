"""Modes: whether a subject takes changes, and from whom.

Source: Confluent Schema Registry API reference, "Modes". READONLY_OVERRIDE is
for the whole registry, and holds whatever a subject's own mode is.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from sqlalchemy import select

from penstock.schematizer.contexts import DEFAULT_CONTEXT, SubjectName, parse_subject
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.registry.subjects import find_subject, open_subject
from penstock.schematizer.storage.models import Setting, Status, Subject, SubjectVersion

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

_GLOBAL_MODE = "mode"


class Mode(StrEnum):
    """What may be done."""

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    IMPORT = "IMPORT"


def parse_mode(text: str) -> Mode:
    """Return the mode called `text`; RefusedError if there is none."""
    try:
        return Mode(text.upper())
    except ValueError as error:
        message = f"Invalid mode. {text[:80]!r} is none"
        raise RefusedError(Code.INVALID_MODE, message, f"use one of {', '.join(Mode)}") from error


def global_mode(session: Session) -> Mode:
    """Return the mode of subjects that have none of their own; READWRITE unless set."""
    setting = session.get(Setting, _GLOBAL_MODE)
    return Mode(setting.value) if setting else Mode.READWRITE


def own_mode(session: Session, name: str) -> Mode | None:
    """Return the subject's own mode, None if it has none."""
    subject = find_subject(session, name)
    return Mode(subject.mode) if subject and subject.mode else None


def mode_of(session: Session, name: str) -> Mode:
    """Return the mode that holds for subject `name`: its own, or else its context's, or else the global one."""
    everywhere = global_mode(session)
    if everywhere is Mode.READONLY_OVERRIDE:
        return everywhere
    context = str(SubjectName(parse_subject(name).context, ""))
    return own_mode(session, name) or own_mode(session, context) or everywhere


def set_mode(session: Session, name: str | None, mode: Mode, *, force: bool) -> None:
    """Set the mode of a subject, or of the whole registry for None.

    Raises RefusedError for IMPORT where there are schemas already, unless forced:
    what is imported could not have the ids and versions that it had.
    """
    if mode is Mode.IMPORT and not force and _has_schemas(session, name):
        message = "Cannot import since found existing subjects: IMPORT mode is for those without schemas"
        raise RefusedError(Code.NOT_PERMITTED, message, "delete them first, or say force=true")
    if name is None:
        session.merge(Setting(name=_GLOBAL_MODE, value=mode))
    elif mode is Mode.READONLY_OVERRIDE:
        message = f"Invalid mode. {mode} is for the whole registry"
        raise RefusedError(Code.INVALID_MODE, message, "use READONLY for a subject")
    else:
        open_subject(session, name).mode = mode


def delete_mode(session: Session, name: str | None) -> Mode:
    """Take a subject's own mode away, or the registry's for None, and return it.

    Raises RefusedError for a subject that has none.
    """
    if name is None:
        everywhere = global_mode(session)
        setting = session.get(Setting, _GLOBAL_MODE)
        if setting is not None:
            session.delete(setting)
        return everywhere
    mode = own_mode(session, name)
    if mode is None:
        raise no_mode(name)
    open_subject(session, name).mode = ""
    return mode


def no_mode(name: str) -> RefusedError:
    """Return the refusal for a subject without a mode of its own."""
    message = f"Subject '{name}' does not have subject-level mode configured"
    return RefusedError(Code.NO_MODE_OF_ITS_OWN, message, "the global one holds: see GET /mode")


def check_changeable(session: Session, name: str) -> None:
    """Raise RefusedError where a mode keeps subject `name` from any change."""
    if mode_of(session, name) in {Mode.READONLY, Mode.READONLY_OVERRIDE}:
        raise _not_permitted(name, "in read-only mode")


def check_importing(session: Session, name: str, *, wanted: bool) -> None:
    """Raise RefusedError unless subject `name` takes imports where they are `wanted`, and else takes none."""
    check_changeable(session, name)
    if (mode_of(session, name) is Mode.IMPORT) != wanted:
        raise _not_permitted(name, "not in import mode" if wanted else "in import mode, and the schema has no id")


def _not_permitted(name: str, state: str) -> RefusedError:
    return RefusedError(Code.NOT_PERMITTED, f"Subject {name} is {state}", "see GET /mode, and PUT /mode to change it")


def _has_schemas(session: Session, name: str | None) -> bool:
    query = select(SubjectVersion.id).join(Subject, Subject.id == SubjectVersion.subject_id)
    query = query.where(SubjectVersion.status != Status.DELETED)
    if name is not None:
        parsed = parse_subject(name)
        whole_context = not parsed.plain and parsed.context != DEFAULT_CONTEXT
        prefix = Subject.name.startswith(name, autoescape=True)
        query = query.where(prefix if whole_context else Subject.name == name)
    return session.scalar(query.limit(1)) is not None

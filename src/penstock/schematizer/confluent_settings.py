"""Confluent's routes of settings: compatibility levels, modes and contexts."""

from typing import Annotated

from fastapi import APIRouter, Query
from sqlalchemy import select
from sqlalchemy.orm import Session

from penstock.schematizer.confluent_bodies import ConfigBody, ModeBody, Page, SubjectPath
from penstock.schematizer.contexts import DEFAULT_CONTEXT, parse_subject
from penstock.schematizer.levels import Level
from penstock.schematizer.models import Subject, SubjectVersion
from penstock.schematizer.modes import (
    check_changeable,
    delete_mode,
    global_mode,
    mode_of,
    no_mode,
    own_mode,
    parse_mode,
    set_mode,
)
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.subjects import find_subject, global_level, level_of, open_subject, set_global_level
from penstock.schematizer.v1 import Store

router = APIRouter()
OrGlobal = Annotated[bool, Query(alias="defaultToGlobal")]
Force = Annotated[bool, Query(description="Also where there are schemas already")]


@router.get("/contexts", summary="List contexts")
def get_contexts(store: Store, page: Annotated[Page, Query()]) -> list[str]:
    """List the contexts that have subjects; the default one is always there."""
    query = select(Subject.name).where(Subject.id.in_(select(SubjectVersion.subject_id)))
    names = store.read(lambda session: list(session.scalars(query)))
    return page.of(sorted({DEFAULT_CONTEXT, *(parse_subject(name).context for name in names)}))


@router.get("/config", summary="The global level")
def get_config(store: Store) -> dict[str, str]:
    """Return the level of subjects that have none of their own."""
    return {"compatibilityLevel": store.read(global_level)}


@router.put("/config", summary="Set the global level")
def put_config(store: Store, body: ConfigBody) -> dict[str, str]:
    """Change the level of subjects that have none of their own."""
    level = body.parse()
    store.write(lambda session: set_global_level(session, level))
    return {"compatibility": level}


@router.delete("/config", summary="Forget the global level")
def delete_config(store: Store) -> dict[str, str]:
    """Return to the level that a new registry has, and say which one held until now."""

    def work(session: Session) -> Level:
        level = global_level(session)
        set_global_level(session, None)
        return level

    return {"compatibilityLevel": store.write(work)}


@router.get("/config/{subject}", summary="A subject's level")
def get_subject_config(store: Store, subject: SubjectPath, *, default_to_global: OrGlobal = False) -> dict[str, str]:
    """Return a subject's own level; the one that holds where `defaultToGlobal` is asked for."""

    def find(session: Session) -> Level:
        own = find_subject(session, subject)
        if default_to_global or (own is not None and own.compatibility):
            return level_of(session, subject)
        message = f"subject {subject!r} has no compatibility level of its own"
        raise RefusedError(Code.NO_LEVEL_OF_ITS_OWN, message, "the global one holds: see GET /config")

    return {"compatibilityLevel": store.read(find)}


@router.put("/config/{subject}", summary="Set a subject's level")
def put_subject_config(store: Store, subject: SubjectPath, body: ConfigBody) -> dict[str, str]:
    """Give a subject a level of its own. The subjects of a table still go by the topic rule as well."""
    level = body.parse()

    def work(session: Session) -> None:
        check_changeable(session, subject)
        open_subject(session, subject).compatibility = level

    store.write(work)
    return {"compatibility": level}


@router.delete("/config/{subject}", summary="Forget a subject's level")
def delete_subject_config(store: Store, subject: SubjectPath) -> dict[str, str]:
    """Take a subject's own level away, and say which one it was."""

    def work(session: Session) -> Level:
        check_changeable(session, subject)
        own = find_subject(session, subject)
        if own is None or not own.compatibility:
            message = f"subject {subject!r} has no compatibility level of its own"
            raise RefusedError(Code.UNKNOWN_SUBJECT, message, "the global one holds: see GET /config")
        level = Level(own.compatibility)
        own.compatibility = ""
        return level

    return {"compatibilityLevel": store.write(work)}


@router.get("/mode", summary="The global mode")
def get_mode(store: Store) -> dict[str, str]:
    """Return the mode of subjects that have none of their own."""
    return {"mode": store.read(global_mode)}


@router.put("/mode", summary="Set the global mode")
def put_mode(store: Store, body: ModeBody, *, force: Force = False) -> dict[str, str]:
    """Change the mode of subjects that have none of their own. /v1 and its tables have no modes."""
    mode = parse_mode(body.mode)
    store.write(lambda session: set_mode(session, None, mode, force=force))
    return {"mode": mode}


@router.get("/mode/{subject}", summary="A subject's mode")
def get_subject_mode(store: Store, subject: SubjectPath, *, default_to_global: OrGlobal = False) -> dict[str, str]:
    """Return a subject's own mode; the one that holds where `defaultToGlobal` is asked for."""
    mode = store.read(lambda s: mode_of(s, subject) if default_to_global else own_mode(s, subject))
    if mode is None:
        raise no_mode(subject)
    return {"mode": mode}


@router.put("/mode/{subject}", summary="Set a subject's mode")
def put_subject_mode(store: Store, subject: SubjectPath, body: ModeBody, *, force: Force = False) -> dict[str, str]:
    """Give a subject a mode of its own."""
    mode = parse_mode(body.mode)
    store.write(lambda session: set_mode(session, subject, mode, force=force))
    return {"mode": mode}


@router.delete("/mode/{subject}", summary="Forget a subject's mode")
def delete_subject_mode(store: Store, subject: SubjectPath) -> dict[str, str]:
    """Take a subject's own mode away, and say which one it was."""
    return {"mode": store.write(lambda session: delete_mode(session, subject))}

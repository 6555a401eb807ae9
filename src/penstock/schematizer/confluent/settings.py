"""Confluent's routes of settings: configs, modes and contexts; and what this registry says of itself."""

from typing import Annotated

from fastapi import APIRouter, Query
from sqlalchemy import select

from penstock.release import RELEASE
from penstock.schematizer.api.dependencies import Store
from penstock.schematizer.confluent.bodies import ConfigBody, ModeBody, Page, SubjectPath
from penstock.schematizer.contexts import DEFAULT_CONTEXT, parse_subject
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.registry.configs import (
    Config,
    config_of,
    forget_config,
    forget_global_config,
    global_config,
    own_config,
    set_config,
    set_global_config,
)
from penstock.schematizer.registry.modes import (
    delete_mode,
    global_mode,
    mode_of,
    no_mode,
    own_mode,
    parse_mode,
    set_mode,
)
from penstock.schematizer.storage.models import Subject, SubjectVersion

router = APIRouter()
OrGlobal = Annotated[bool, Query(alias="defaultToGlobal")]
_LEVEL = "compatibilityLevel"
Force = Annotated[bool, Query(description="Also where there are schemas already")]


@router.get("/v1/metadata/id", summary="Which registry this is")
async def get_metadata_id() -> dict[str, object]:
    """Return the name of this registry among those of a cluster. It has none: it serves every cluster."""
    return {"scope": {"path": [], "clusters": {"kafka-cluster": "", "schema-registry-cluster": "penstock"}}}


@router.get("/v1/metadata/version", summary="Which release this is")
async def get_metadata_version() -> dict[str, str]:
    """Return the version of Penstock that answers, which is also that of the build."""
    return {"version": RELEASE, "commitId": ""}


@router.get("/contexts", summary="List contexts")
def get_contexts(store: Store, page: Annotated[Page, Query()]) -> list[str]:
    """List the contexts that have subjects; the default one is always there."""
    query = select(Subject.name).where(Subject.id.in_(select(SubjectVersion.subject_id)))
    names = store.read(lambda session: list(session.scalars(query)))
    return page.of(sorted({DEFAULT_CONTEXT, *(parse_subject(name).context for name in names)}))


@router.get("/config", summary="The global config")
def get_config(store: Store) -> dict[str, str | bool]:
    """Return the level of subjects that have none of their own, and whether schemas are kept in one form."""
    return store.read(global_config).told(_LEVEL)


@router.put("/config", summary="Set the global config")
def put_config(store: Store, body: ConfigBody) -> dict[str, str | bool]:
    """Change what holds for subjects that have no config of their own."""
    config = body.parse()
    store.write(lambda session: set_global_config(session, config))
    return config.told("compatibility")


@router.delete("/config", summary="Forget the global config")
def delete_config(store: Store) -> dict[str, str | bool]:
    """Return to the config that a new registry has, and say which one held until now."""
    return store.write(forget_global_config).told(_LEVEL)


@router.get("/config/{subject}", summary="A subject's config")
def get_subject_config(
    store: Store, subject: SubjectPath, *, default_to_global: OrGlobal = False
) -> dict[str, str | bool]:
    """Return a subject's own config; the one that holds where `defaultToGlobal` is asked for."""
    config = store.read(lambda s: config_of(s, subject) if default_to_global else own_config(s, subject))
    if config == Config():
        message = f"Subject '{subject}' does not have subject-level compatibility configured"
        raise RefusedError(Code.NO_LEVEL_OF_ITS_OWN, message, "the global one holds: see GET /config")
    return config.told(_LEVEL)


@router.put("/config/{subject}", summary="Set a subject's config")
def put_subject_config(store: Store, subject: SubjectPath, body: ConfigBody) -> dict[str, str | bool]:
    """Give a subject a config of its own. The subjects of a table still go by the topic rule as well."""
    config = body.parse()
    store.write(lambda session: set_config(session, subject, config))
    return config.told("compatibility")


@router.delete("/config/{subject}", summary="Forget a subject's config")
def delete_subject_config(store: Store, subject: SubjectPath) -> dict[str, str | bool]:
    """Take a subject's own config away, and say which one it was."""
    return store.write(lambda session: forget_config(session, subject)).told(_LEVEL)


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


@router.delete("/mode", summary="Forget the global mode")
def delete_global_mode(store: Store) -> dict[str, str]:
    """Return to the mode that a new registry has, READWRITE, and say which one held until now."""
    return {"mode": store.write(lambda session: delete_mode(session, None))}


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

"""All that a registry has, written to another one with its ids and versions.

Subjects are in IMPORT mode meanwhile, so that ids and versions can be said and
nobody else registers there. What is there already is left, so a transfer that
was interrupted goes on when it is begun again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any

from penstock.core.errors import PenstockError, UnavailableError
from penstock.schematizer.remote_registry import RegistryAddress, setting_path, subject_path, version_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.schematizer.remote_registry import Content, Kept, RemoteRegistry

_TOLD_MAX = 20
_LEVEL = "compatibilityLevel"


class _Do(Enum):
    IMPORT = "import"
    DELETE = "delete"


@dataclass(slots=True)
class Transferred:
    """What a transfer did: schemas written, and there already; and the ids that were compared afterwards.

    `refused` says why a part of what a subject says of itself was not taken.
    """

    written: int = 0
    there: int = 0
    verified: int = 0
    problems: list[str] = field(default_factory=list)
    refused: dict[tuple[str, str], str] = field(default_factory=dict)


def transfer(source: RemoteRegistry, target: RemoteRegistry) -> Transferred:
    """Write all that `source` has to `target`, and compare afterwards.

    Raises PenstockError that lists what `target` refused, or has differently,
    and UnavailableError when either is away.
    """
    wanted, present = source.read(), target.read()
    done = Transferred()
    _write_schemas(target, wanted, present, done)
    present = target.read()
    _write_associations(target, wanted, present, done)
    _write_settings(target, wanted, present, done)
    _verify(source, target, wanted, done)
    if done.problems:
        listed = "\n".join(f"  {each}" for each in done.problems[:_TOLD_MAX])
        more = f"\n  and {len(done.problems) - _TOLD_MAX} more" if len(done.problems) > _TOLD_MAX else ""
        message = f"{len(done.problems)} differences between the two registries:\n{listed}{more}"
        hint = (
            "write into an empty registry; where only versions differ, delete these subjects for ever in the one that "
            "is written to, then run the same command again; what a config or a mode lacks can be set there by hand"
        )
        raise PenstockError(message, hint)
    return done


def _write_schemas(target: RemoteRegistry, wanted: Content, present: Content, done: Transferred) -> None:
    importing: set[str] = set()
    for do, place in _plan(wanted.kept, done):
        kept, there = wanted.kept[place], present.kept.get(place)
        if there is not None and (there.id != kept.id or there.parts != kept.parts):
            if do is _Do.IMPORT:
                done.problems.append(f"{place}: another schema is there, {there.id} and not {kept.id}")
            continue
        if there is not None and (do is _Do.IMPORT or there.deleted):
            done.there += do is _Do.IMPORT
            continue
        try:
            if do is _Do.DELETE:
                target.ask("DELETE", version_path(place), may_lack=True)
                continue
            if place.subject not in importing:
                target.ask("PUT", setting_path("mode", place.subject), {"mode": "IMPORT"}, force="true")
                importing.add(place.subject)
            body = {**kept.parts, "id": kept.id, "version": place.version}
            target.ask("POST", f"{subject_path(place.subject)}/versions", body)
            done.written += 1
        except UnavailableError:
            raise
        except PenstockError as error:
            done.problems.append(f"{place}: {error.message}")


def _plan(kept: Mapping[RegistryAddress, Kept], done: Transferred) -> Iterator[tuple[_Do, RegistryAddress]]:
    """Yield what is to be done, in an order in which it can be.

    A schema comes after those that it refers to, and is deleted after those that
    refer to it; a schema that came back to its subject comes after its deletion.
    """
    order: TopologicalSorter[tuple[_Do, RegistryAddress]] = TopologicalSorter()
    for place in sorted(kept, key=lambda each: (kept[each].id, each.subject, each.version)):
        known = [use for use in kept[place].uses if use in kept]
        order.add((_Do.IMPORT, place), *((_Do.IMPORT, use) for use in known))
        if kept[place].deleted:
            order.add((_Do.DELETE, place), (_Do.IMPORT, place))
        for use in known:
            if kept[use].deleted:
                order.add((_Do.DELETE, use), (_Do.DELETE if kept[place].deleted else _Do.IMPORT, place))
    by_schema: dict[tuple[str, int], RegistryAddress] = {}
    for place in sorted(kept, key=lambda each: (each.subject, each.version)):
        before = by_schema.get((place.subject, kept[place].id))
        if before is not None and kept[before].deleted:
            order.add((_Do.IMPORT, place), (_Do.DELETE, before))
        by_schema[place.subject, kept[place].id] = place
    try:
        yield from order.static_order()
    except CycleError as error:
        names = ", ".join(dict.fromkeys(str(place) for _, place in error.args[1]))
        done.problems.append(f"these refer to each other, and none can be the first: {names}")


def _write_associations(target: RemoteRegistry, wanted: Content, present: Content, done: Transferred) -> None:
    """Associate topics as they were; modes come later, for some of them keep subjects from it."""
    for subject, associations in wanted.associations.items():
        for each in associations:
            if each not in present.associations.get(subject, ()):
                resource = {name: value for name, value in each.items() if name.startswith("resource")}
                own = {name: value for name, value in each.items() if name not in resource}
                body = {**resource, "associations": [{**own, "subject": subject}]}
                _try(target, done, (subject, str(each)), ("POST", "/associations", body))


def _write_settings(target: RemoteRegistry, wanted: Content, present: Content, done: Transferred) -> None:
    """Give subjects the configs and modes that they had; those of everything come last."""
    subjects = {place.subject for place in wanted.kept} | {*wanted.configs, *wanted.modes}
    for subject in sorted(subjects, reverse=True):
        mode, present_mode = wanted.modes.get(subject), present.modes.get(subject)
        config, there = wanted.configs.get(subject, {}), present.configs.get(subject, {})
        if config != there and present_mode in {None, "READWRITE", "IMPORT"}:
            _write_config(target, subject, config, there, done)
        if mode != present_mode:
            path = setting_path("mode", subject)
            is_set = mode is not None and _try(
                target, done, (subject, "mode"), ("PUT", path, {"mode": mode}), force="true"
            )
            # Nobody could register where IMPORT mode stayed.
            if not is_set and (mode is None or present_mode == "IMPORT"):
                _try(target, done, (subject, "mode"), ("DELETE", path, None))


def _write_config(
    target: RemoteRegistry, subject: str, config: Mapping[str, Any], there: Mapping[str, Any], done: Transferred
) -> None:
    """Set each part by itself, so that one that the other registry does not act on keeps no other from it."""
    path = setting_path("config", subject)
    if there.keys() - config.keys():
        _try(target, done, (subject, _LEVEL), ("DELETE", path, None))
    for name, value in config.items():
        body = {"compatibility" if name == _LEVEL else name: value}
        _try(target, done, (subject, name), ("PUT", path, body))


def _try(
    target: RemoteRegistry,
    done: Transferred,
    part: tuple[str, str],
    request: tuple[str, str, object],
    **query: str,
) -> bool:
    """Ask for a change, and tell whether it was made; why not is told with what differs at the end."""
    method, path, body = request
    try:
        target.ask(method, path, body, may_lack=method == "DELETE", **query)
    except UnavailableError:
        raise
    except PenstockError as error:
        done.refused[part] = error.message
        return False
    return True


def _verify(source: RemoteRegistry, target: RemoteRegistry, wanted: Content, done: Transferred) -> None:
    """Compare every id and every place with what the source answers now."""
    present = target.read()
    ids: dict[int, str] = {}
    for place, kept in wanted.kept.items():
        ids.setdefault(kept.id, place.subject)
        there = present.kept.get(place)
        if there is None or (there.id, there.deleted) != (kept.id, kept.deleted):
            done.problems.append(
                f"{place}: {'is not there' if there is None else 'has another id or is deleted in one'}"
            )
    for schema_id, subject in ids.items():
        if source.schema(schema_id, subject) != target.schema(schema_id, subject):
            done.problems.append(f"id {schema_id} (of {subject}): the two registries do not answer the same")
        else:
            done.verified += 1
    _verify_settings(wanted, present, done)


def _verify_settings(wanted: Content, present: Content, done: Transferred) -> None:
    """List what a subject said of itself, and does not say now, with the reason if there is one."""
    lost: dict[tuple[str, str], str] = {}
    for subject, config in wanted.configs.items():
        there = present.configs.get(subject, {})
        for name, value in config.items():
            if there.get(name) != value:
                lost[subject, name] = f"`{name}` of its config is {there.get(name)}, and was {value}"
    for subject, mode in wanted.modes.items():
        if present.modes.get(subject) != mode:
            lost[subject, "mode"] = f"the mode is {present.modes.get(subject)}, and was {mode}"
    for subject, associations in wanted.associations.items():
        for each in associations:
            if each not in present.associations.get(subject, ()):
                lost[subject, str(each)] = f"its association with the topic {each['resourceName']} is not there"
    for (subject, part), told in lost.items():
        reason = done.refused.get((subject, part))
        done.problems.append(f"{subject or 'everything'}: {told}" + (f": {reason}" if reason else ""))

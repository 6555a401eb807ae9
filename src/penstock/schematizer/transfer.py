"""All that a registry has, written to another one with its ids and versions.

Subjects are in IMPORT mode meanwhile, so that ids and versions can be said and
nobody else registers there. What is there already is left, so a transfer that
was interrupted goes on when it is begun again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING
from urllib.parse import quote

from penstock.core.errors import PenstockError, UnavailableError
from penstock.schematizer.remote_registry import EVERYTHING, RegistryAddress, subject_path, version_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.schematizer.remote_registry import Content, Kept, RemoteRegistry

_TOLD_MAX = 20


class _Do(Enum):
    IMPORT = "import"
    DELETE = "delete"


@dataclass(slots=True)
class Transferred:
    """What a transfer did: schemas written, and there already; and the ids that were compared afterwards."""

    written: int = 0
    there: int = 0
    verified: int = 0
    problems: list[str] = field(default_factory=list)


def transfer(source: RemoteRegistry, target: RemoteRegistry) -> Transferred:
    """Write all that `source` has to `target`, and compare afterwards.

    Raises PenstockError that lists what `target` refused, or has differently,
    and UnavailableError when either is away.
    """
    wanted, present = source.read(), target.read()
    done = Transferred()
    _write_schemas(target, wanted, present, done)
    _write_settings(target, wanted, target.read())
    _verify(source, target, wanted, done)
    if done.problems:
        listed = "\n".join(f"  {each}" for each in done.problems[:_TOLD_MAX])
        more = f"\n  and {len(done.problems) - _TOLD_MAX} more" if len(done.problems) > _TOLD_MAX else ""
        message = f"{len(done.problems)} differences between the two registries:\n{listed}{more}"
        hint = (
            "write into an empty registry; where only versions differ, delete these subjects for ever in the one that "
            "is written to, then run the same command again"
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
                target.ask("PUT", _mode_path(place.subject), {"mode": "IMPORT"}, force="true")
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


def _write_settings(target: RemoteRegistry, wanted: Content, present: Content) -> None:
    """Give subjects the levels and modes that they had; those of everything come last."""
    subjects = {place.subject for place in wanted.kept} | {*wanted.levels, *wanted.modes}
    for subject in sorted(subjects, reverse=True):
        level, mode = wanted.levels.get(subject), wanted.modes.get(subject)
        is_changeable = present.modes.get(subject) in {None, "READWRITE", "IMPORT"}
        if level != present.levels.get(subject) and is_changeable:
            _set(target, f"/config/{quote(subject, safe='')}" if subject else "/config", "compatibility", level)
        if mode != present.modes.get(subject):
            _set(target, _mode_path(subject), "mode", mode)


def _set(target: RemoteRegistry, path: str, field_name: str, value: str | None) -> None:
    if value is None:
        target.ask("DELETE", path, may_lack=True)
    elif field_name == "mode":
        target.ask("PUT", path, {field_name: value}, force="true")
    else:
        target.ask("PUT", path, {field_name: value})


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
    for name, one, other in (("level", wanted.levels, present.levels), ("mode", wanted.modes, present.modes)):
        done.problems += [
            f"{subject or 'everything'}: the {name} is {other.get(subject)}, and was {value}"
            for subject, value in one.items()
            if other.get(subject) != value
        ]


def _mode_path(subject: str) -> str:
    return f"/mode/{quote(subject, safe='')}" if subject != EVERYTHING else "/mode"

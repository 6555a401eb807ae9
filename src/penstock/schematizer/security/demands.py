"""What a request asks for: which role, and where.

A route that is not listed here is allowed to those only who have its role
everywhere: GET reads, everything else writes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import parse_qs

from penstock.schematizer.confluent_paths import CONTEXT
from penstock.schematizer.contexts import DEFAULT_CONTEXT, parse_subject
from penstock.schematizer.ids import NO_ID, parse_id
from penstock.schematizer.path_segments import name_in
from penstock.schematizer.security.access import InNamespace, InSubject, Role

if TYPE_CHECKING:
    from starlette.types import Scope


@dataclass(frozen=True, slots=True)
class InTopic:
    """Where a topic's table is."""

    name: str


@dataclass(frozen=True, slots=True)
class InSchema:
    """Wherever a schema is used; any of these places will do to read, unless what is asked for tells `in_all`."""

    id: int
    in_all: bool = False


@dataclass(frozen=True, slots=True)
class InGuid:
    """The same, of a schema that is named by its GUID."""

    guid: str


@dataclass(frozen=True, slots=True)
class InNote:
    """Where the schema is that a note is on."""

    id: int


@dataclass(frozen=True, slots=True)
class Somewhere:
    """Nowhere in particular: whoever has the role in any place."""


Target: TypeAlias = InNamespace | InSubject | InTopic | InSchema | InGuid | InNote | Somewhere


@dataclass(frozen=True, slots=True)
class Demand:
    """A role, in all of the targets; everywhere if there are none. What a body `uses` is to be read as well."""

    role: Role
    targets: tuple[Target, ...] = ()
    uses: tuple[Target, ...] = ()


_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_NO = frozenset({"false", "0", "no", "off", "f", "n", ""})
# Their bodies name the namespace that they are for.
_WITH_NAMESPACE = frozenset({("tables",), ("schemas", "mysql"), ("schemas", "postgres"), ("schemas", "avro")})


def demand_of(scope: Scope, body: bytes) -> Demand:
    """Return what a request asks for; its path's segments are kept apart, and its context is off the front."""
    first, *rest = scope["path"].removeprefix("/").split("/")
    names = [name_in(segment) for segment in rest]
    query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    if first == "v1":
        return _own_demand(scope["method"], names, query, body)
    if first == "ui":
        return _page_demand(scope["method"], names, query)
    return _confluent_demand(scope, [first, *names], query, body)


def _confluent_demand(  # noqa: PLR0911 - a table of routes
    scope: Scope, names: list[str], query: dict[str, list[str]], body: bytes
) -> Demand:
    reads = scope["method"] in _READING
    within = scope.get(CONTEXT) or DEFAULT_CONTEXT
    match names:
        case ["" | "docs" | "openapi.json", *_] | ["schemas", "types"] if reads:
            return Demand(Role.READ, (Somewhere(),))
        case ["associations", "subjects", name] | ["compatibility", "subjects", name, *_]:
            subject = _subject(name, within)
            return Demand(Role.READ, (subject,), _references(body, subject))
        case ["associations", *_]:
            # Their routes look at each subject: a body need not name it, and a resource has several.
            return Demand(Role.READ if reads else Role.WRITE, (Somewhere(),))
        case ["schemas", "ids", number, *_]:
            return Demand(Role.READ, (InSchema(_id(number)),))
        case ["schemas", "guids", guid, *_]:
            return Demand(Role.READ, (InGuid(guid),))
        case ["config" | "mode", *setting]:
            return Demand(Role.READ if reads else Role.ADMIN, _settings_target(setting, within, reads=reads))
        case ["subjects", name, *more] if name:
            subject = _subject(name, within)
            return Demand(_subject_role(scope["method"], more, query), (subject,), _references(body, subject))
        case _:
            return Demand(Role.READ if reads else Role.WRITE)


def _page_demand(method: str, names: list[str], query: dict[str, list[str]]) -> Demand:
    """Return what a page shows, or its form changes: also schemas that are to be compared."""
    role = Role.READ if method in _READING else Role.WRITE
    compared = tuple(InSchema(_id(each)) for name in ("old", "new") for each in query.get(name, ()))
    target: Target
    match names:
        case ["static", *_]:
            target = Somewhere()
        case ["namespaces" | "sources", namespace, *_]:
            target = InNamespace(namespace)
        case ["topics", topic, *_]:
            target = InTopic(topic)
        case ["subjects", name] if name:
            target = InSubject(name)
        case ["schemas", number, *_]:
            target = InSchema(_id(number))
        case ["notes", number]:
            target = InNote(_id(number))
        # These two keep to the namespace that they are asked for.
        case ["search" | "history"] if len(narrowed := _narrowed(query)) == 1:
            target = narrowed[0]
        case _:
            return Demand(role)
    return Demand(role, (target, *compared))


def _own_demand(method: str, names: list[str], query: dict[str, list[str]], body: bytes) -> Demand:
    reads = method in _READING or names[:1] == ["compatibility"]
    role = Role.READ if reads else Role.WRITE
    if not reads and len(names) == 2 and names[0] == "namespaces":  # noqa: PLR2004 - its rules, and nothing in it
        role = Role.ADMIN
    return Demand(role, _own_targets(names, query, body, reads=reads), _schemas_in_body(body))


def _own_targets(names: list[str], query: dict[str, list[str]], body: bytes, *, reads: bool) -> tuple[Target, ...]:
    target: Target
    match names:
        case ["metadata", *_] if reads:
            target = Somewhere()
        case ["namespaces" | "sources", namespace, *_]:
            target = InNamespace(namespace)
        case ["topics", topic, *_]:
            target = InTopic(topic)
        case ["schemas", number, *more] if reads:
            # Where data goes, and what a namespace adds to messages, is told of every place that the schema is in.
            target = InSchema(_id(number), in_all=more[:1] in (["data_targets"], ["meta_attributes"]))
        case ["notes", number]:
            target = InNote(_id(number))
        case ["notes"] if not reads:
            return _in_body(body, "schema_id")
        case _ if tuple(names[1:] if names[:1] == ["compatibility"] else names) in _WITH_NAMESPACE:
            return _in_body(body, "namespace")
        case [_] if reads:
            # A list; each refuses filters that it does not know.
            return _narrowed(query)
        case _:
            return ()
    return (target,)


def _narrowed(query: dict[str, list[str]]) -> tuple[InNamespace, ...]:
    """Return what a list is narrowed to. By a blank name it is not: that leaves all in, or what has no namespace."""
    namespaces = query.get("namespace", [])
    return tuple(InNamespace(each) for each in namespaces) if all(map(str.strip, namespaces)) else ()


def _in_body(body: bytes, field: str) -> tuple[Target, ...]:
    """Return what a body names; a body that cannot be read asks for everything, and is refused by its route."""
    named = _document(body).get(field)
    match named:
        case str() if field == "namespace":
            return (InNamespace(named),)
        case None:
            return ()
        case _:
            return (InSchema(_id(named)),) if field == "schema_id" else ()


def _schemas_in_body(body: bytes) -> tuple[Target, ...]:
    """Return the schemas that a body refers to by their ids."""
    document = _document(body)
    told = (document.get(field) for field in ("base_schema_id", "schema_id"))
    return tuple(InSchema(_id(each)) for each in told if each is not None)


def _references(body: bytes, subject: InSubject) -> tuple[Target, ...]:
    """Return the subjects whose schemas a schema for `subject` uses; its route refuses what is no list of uses."""
    uses = _document(body).get("references")
    named = [each.get("subject") for each in uses if isinstance(each, dict)] if isinstance(uses, list) else []
    within = parse_subject(subject.name).context
    return tuple(dict.fromkeys(_subject(each, within) for each in named if isinstance(each, str)))


def _id(written: object) -> int:
    """Return an id as its route reads it. What is none is nowhere, and so allowed to nobody who is asked."""
    try:
        return parse_id(written)
    except ValueError:
        return NO_ID


def _document(body: bytes) -> dict[str, object]:
    try:
        document = json.loads(body) if body else None
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _settings_target(subject: list[str], within: str, *, reads: bool) -> tuple[Target, ...]:
    """Return where a level or a mode is; whoever reads anything may know the global ones."""
    if subject and subject[0]:
        return (_subject(subject[0], within),)
    return (Somewhere(),) if reads else ()


def _subject_role(method: str, more: list[str], query: dict[str, list[str]]) -> Role:
    match method:
        case "GET" | "HEAD" | "OPTIONS":
            return Role.READ
        case "POST" if not more:
            return Role.READ
        case "DELETE" if any(value.lower() not in _NO for value in query.get("permanent", ())):
            return Role.ADMIN
        case _:
            return Role.WRITE


def _subject(name: str, within: str) -> InSubject:
    return InSubject(str(parse_subject(name, within)))

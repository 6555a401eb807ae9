"""Another registry, by the protocol that Confluent's clients speak: what it has, and how to write there.

Source: Confluent Schema Registry API reference, "Subjects", "Mode", "Config", "Associations".
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx

from penstock.core.errors import PenstockError, UnavailableError
from penstock.schematizer.contexts import DEFAULT_CONTEXT, EVERY_CONTEXT, SubjectName, parse_subject

if TYPE_CHECKING:
    from collections.abc import Mapping

_AT_ONCE = 8
_ATTEMPTS = 3
_NOT_THERE = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED})
# What a schema is; what is left out, or null, or empty is the same.
_PARTS = ("schema", "schemaType", "references", "metadata", "ruleSet")
# What an association is, beside when it was made and its name.
_OF_ASSOCIATION = ("associationType", "lifecycle", "frozen", "resourceId", "resourceName", "resourceNamespace")
EVERYTHING = ""


@dataclass(frozen=True, slots=True)
class RegistryAddress:
    """A version of a subject."""

    subject: str
    version: int

    def __str__(self) -> str:
        """As people read it."""
        return f"{self.subject} version {self.version}"


@dataclass(frozen=True, slots=True)
class Kept:
    """What is at a place: an id, the parts of its schema, and whether it is deleted softly."""

    id: int
    parts: Mapping[str, Any]
    deleted: bool

    @property
    def uses(self) -> tuple[RegistryAddress, ...]:
        """The places that it refers to."""
        return tuple(RegistryAddress(each["subject"], each["version"]) for each in self.parts.get("references", ()))


@dataclass(frozen=True, slots=True)
class Content:
    """What a registry has: schemas by place; configs, modes and associations by subject, EVERYTHING's too."""

    kept: Mapping[RegistryAddress, Kept]
    configs: Mapping[str, Mapping[str, Any]]
    modes: Mapping[str, str]
    associations: Mapping[str, list[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class RemoteRegistry:
    """A registry that answers `client`."""

    client: httpx.Client

    def read(self) -> Content:
        """Return what it has. Raises PenstockError for what it does not tell, UnavailableError if it is away."""
        subjects: list[str] = self.ask("GET", "/subjects", deleted="true", subjectPrefix=EVERY_CONTEXT)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            places = [place for found in pool.map(self._places, subjects) for place in found]
            kept = dict(
                zip((place for place, _ in places), pool.map(lambda each: self._kept(*each), places), strict=True)
            )
            contexts = {parse_subject(subject).context for subject in subjects} - {DEFAULT_CONTEXT}
            named = [*subjects, *(str(SubjectName(context, "")) for context in sorted(contexts)), EVERYTHING]
            configs = pool.map(lambda name: self._setting("config", name), named)
            modes = pool.map(lambda name: self._setting("mode", name).get("mode"), named)
            associations = pool.map(self._associations, subjects)
            return Content(kept, _given(named, configs), _given(named, modes), _given(subjects, associations))

    def schema(self, schema_id: int, subject: str) -> Mapping[str, Any] | None:
        """Return the parts of the schema with an id, which `subject` has; None if there is none."""
        answer = self.ask("GET", f"/schemas/ids/{schema_id}", may_lack=True, subject=subject)
        return None if answer is None else parts_of(answer)

    def ask(self, method: str, path: str, body: object = None, *, may_lack: bool = False, **query: str) -> Any:  # noqa: ANN401 - each route has an answer of its own
        """Return an answer; None for what is not there, if that may be. Every request may be repeated.

        Raises PenstockError for a refusal and UnavailableError when it is away.
        """
        reason = ""
        for _ in range(_ATTEMPTS):
            try:
                response = self.client.request(method, path, params=query, json=body)
            except httpx.TransportError as error:
                reason = str(error) or type(error).__name__
                continue
            if may_lack and response.status_code in _NOT_THERE:
                return None
            if not response.is_server_error:
                return self._answer(response, f"{method} {path}")
            reason = f"status {response.status_code}"
        message = f"the registry at {self.client.base_url} cannot be used: {reason}"
        raise UnavailableError(message, "check that it runs, and do it again: what is done already is not done twice")

    def _answer(self, response: httpx.Response, request: str) -> Any:  # noqa: ANN401 - as `ask`
        try:
            answer = response.json()
        except ValueError:
            answer = response.text[:200]
        if response.is_success:
            return answer
        said = answer.get("message", answer) if isinstance(answer, dict) else answer
        message = f"the registry at {self.client.base_url} answers {response.status_code} to {request}: {said}"
        raise PenstockError(message, "check its URL, and that the user has the role admin there")

    def _places(self, subject: str) -> list[tuple[RegistryAddress, bool]]:
        """Return the places of a subject, and whether each is deleted."""
        path = f"{subject_path(subject)}/versions"
        live = set(self.ask("GET", path, may_lack=True) or ())
        return [
            (RegistryAddress(subject, version), version not in live)
            for version in self.ask("GET", path, may_lack=True, deleted="true") or ()
        ]

    def _kept(self, place: RegistryAddress, deleted: bool) -> Kept:  # noqa: FBT001 - pairs are handed on
        answer = self.ask("GET", version_path(place), deleted="true")
        return Kept(int(answer["id"]), parts_of(answer), deleted)

    def _setting(self, route: str, subject: str) -> dict[str, Any]:
        answer = self.ask("GET", setting_path(route, subject), may_lack=True)
        # What is null or empty says nothing; false does.
        return {name: value for name, value in (answer or {}).items() if value is False or value}

    def _associations(self, subject: str) -> list[Mapping[str, Any]]:
        answer = self.ask("GET", f"/associations/subjects/{quote(subject, safe='')}", may_lack=True)
        return [{name: each.get(name) for name in _OF_ASSOCIATION} for each in answer or ()]


def parts_of(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a schema is, of an answer that has more."""
    parts = {name: answer[name] for name in _PARTS if answer.get(name)}
    if parts.get("schemaType") == "AVRO":
        del parts["schemaType"]
    return parts


def subject_path(subject: str) -> str:
    """Return the path of a subject."""
    return f"/subjects/{quote(subject, safe='')}"


def setting_path(route: str, subject: str) -> str:
    """Return the path of a subject's config or mode, or of EVERYTHING's."""
    return f"/{route}/{quote(subject, safe='')}" if subject != EVERYTHING else f"/{route}"


def version_path(place: RegistryAddress) -> str:
    """Return the path of a version."""
    return f"{subject_path(place.subject)}/versions/{place.version}"


def _given(names: list[str], values: Any) -> dict[str, Any]:  # noqa: ANN401 - an iterator over answers
    return {name: value for name, value in zip(names, values, strict=True) if value}

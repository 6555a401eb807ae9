"""JSON Schemas: checked, and put into nodes, with everything that they refer to at hand.

Source: JSON Schema drafts 4, 6, 7, 2019-09 and 2020-12. A schema that does not
name its draft is of draft 7, as for Confluent's clients. Nothing is fetched:
what a schema refers to is in it, or is registered and named as a reference.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from jsonschema import Draft4Validator, Draft6Validator, Draft7Validator, Draft201909Validator, Draft202012Validator
from jsonschema.exceptions import SchemaError, best_match
from referencing import Registry, Specification
from referencing.jsonschema import DRAFT4, DRAFT6, DRAFT7, DRAFT201909, DRAFT202012

from penstock.schematizer.formats.json_builder import Builder
from penstock.schematizer.formats.json_nodes import Draft, Json, Node

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from referencing.jsonschema import Schema, SchemaRegistry, SchemaResource

# Checking a schema takes some 0.2 ms for each object in it.
_OBJECTS_MAX = 20_000
_VALIDATORS = {
    Draft.DRAFT_4: Draft4Validator,
    Draft.DRAFT_6: Draft6Validator,
    Draft.DRAFT_7: Draft7Validator,
    Draft.DRAFT_2019_09: Draft201909Validator,
    Draft.DRAFT_2020_12: Draft202012Validator,
}


def _of_schemas(specification: Specification[Schema]) -> Specification[Schema]:
    """Return a specification that looks for schemas in schemas only: "dependencies" may have lists beside them."""

    def schemas_in(contents: Schema) -> Iterator[Schema]:
        return (each for each in specification.subresources_of(contents) if isinstance(each, dict | bool))

    return Specification(  # type: ignore[call-arg] # its types do not tell
        name=specification.name,
        id_of=specification.id_of,
        subresources_of=schemas_in,
        anchors_in=lambda _, contents: specification.anchors_in(contents),
        maybe_in_subresource=specification.maybe_in_subresource,
    )


_SPECIFICATIONS = {
    Draft.DRAFT_4: _of_schemas(DRAFT4),
    Draft.DRAFT_6: _of_schemas(DRAFT6),
    Draft.DRAFT_7: _of_schemas(DRAFT7),
    Draft.DRAFT_2019_09: DRAFT201909,
    Draft.DRAFT_2020_12: DRAFT202012,
}
_DRAFTS = {str(each.ID_OF(each.META_SCHEMA)).rstrip("#"): draft for draft, each in _VALIDATORS.items()}


@dataclass(frozen=True, slots=True, eq=False)
class JsonSchema:
    """A schema as JSON and as a node; `used` is the JSON of what it may refer to."""

    declared: Json
    used: Mapping[str, Json]
    root: Node


def parse_json_schema(text: str, used: Mapping[str, str]) -> JsonSchema:
    """Parse a schema that may use others, which `used` has by the names that it gives them.

    Raises ValueError that says where it is none.
    """
    declared = _parse(text)
    others = {name: _parse(other) for name, other in used.items()}
    draft = _draft(declared)
    _check(declared, draft)
    resource = _resource(declared, draft)
    uri = resource.id() or ""
    registry: SchemaRegistry = Registry()
    registry = registry.with_resources((name, _resource(other, _draft(other))) for name, other in others.items())
    try:
        registry = registry.with_resource(uri, resource).crawl()
    except (AttributeError, TypeError) as error:
        message = "a schema in it is of another draft, and none of that"
        raise ValueError(message) from error
    drafts = {id(each): _draft(other) for other in others.values() for _, each in _objects(other)}
    builder = Builder(_SPECIFICATIONS, {**drafts, id(declared): draft}, _check)
    for each in (declared, *others.values()):
        builder.trust(each, _draft(each))
    return JsonSchema(declared, others, builder.build(declared, draft, registry.resolver(uri)))


def _parse(text: str) -> Json:
    try:
        declared = json.loads(text, parse_constant=_refuse_number, parse_float=_finite)
    except json.JSONDecodeError as error:
        message = f"not JSON at line {error.lineno}, column {error.colno}: {error.msg}"
        raise ValueError(message) from error
    if not isinstance(declared, dict | bool):
        message = "a schema is an object, true or false"
        raise ValueError(message)  # noqa: TRY004 - one error for every fault of a schema
    return declared


def _refuse_number(name: str) -> NoReturn:
    message = f"{name[:80]} is no number in JSON, or too large for one"
    raise ValueError(message)


def _finite(digits: str) -> float:
    number = float(digits)
    return number if abs(number) != float("inf") else _refuse_number(digits)


def _draft(declared: Json) -> Draft:
    named = declared.get("$schema") if isinstance(declared, dict) else None
    if named is None:
        return Draft.DRAFT_7
    draft = _DRAFTS.get(named.rstrip("#")) if isinstance(named, str) else None
    if draft is None:
        message = f"at $.$schema: {json.dumps(named)[:80]} is no draft of JSON Schema that is known here"
        raise ValueError(message)
    return draft


def _resource(declared: Json, draft: Draft) -> SchemaResource:
    return _SPECIFICATIONS[draft].create_resource(declared)


def _check(declared: Json, draft: Draft) -> None:
    if isinstance(declared, bool) and draft == Draft.DRAFT_4:
        message = "in draft 4, a schema is an object"
        raise ValueError(message)
    for count, (place, each) in enumerate(_objects(declared)):
        if count >= _OBJECTS_MAX:
            message = f"it has more than {_OBJECTS_MAX} objects"
            raise ValueError(message)
        identity = each.get("id" if draft == Draft.DRAFT_4 else "$id")
        if place == "$" and identity is not None and not isinstance(identity, str):
            message = f"at {place}.$id: {json.dumps(identity)[:80]} is no text"
            raise ValueError(message)
    validator = _VALIDATORS[draft]
    worst = best_match(validator(validator.META_SCHEMA).iter_errors(declared))
    if worst is not None:
        message = f"at {worst.json_path}: {worst.message[:1000]}"
        raise ValueError(message) from SchemaError(worst.message)


def _objects(declared: Json, place: str = "$") -> Iterator[tuple[str, dict[str, Json]]]:
    """Yield every object of a schema, with its place."""
    if isinstance(declared, dict):
        yield place, declared
        for name, value in declared.items():
            yield from _objects(value, f"{place}.{name}")
    elif isinstance(declared, list):
        for index, value in enumerate(declared):
            yield from _objects(value, f"{place}[{index}]")

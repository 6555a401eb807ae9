"""Whenever two JSON Schemas are compatible, each document of the one is one of the other: jsonschema is the judge."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from jsonschema.validators import validator_for

from penstock.schematizer.formats.json_compatibility import json_problems
from penstock.schematizer.formats.json_facts import facts_of, is_empty
from penstock.schematizer.formats.json_schemas import parse_json_schema
from penstock.schematizer.formats.json_values import takes_value

Json: TypeAlias = Any

DRAFTS = [
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
]
SCALARS = st.sampled_from([None, True, False, 0, 1, 2, 3, 1.0, 1.5, -1, "", "a", "ab", "xb", "abc"])
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abx"), inner, max_size=3)),
    max_leaves=5,
)
NAMES = st.lists(st.sampled_from("abx"), unique=True, min_size=1, max_size=2)
SMALL = st.integers(0, 3)
REFERENCES = st.sampled_from([{"$ref": "#"}, {"$ref": "#/definitions/one"}, {"$ref": "#/definitions/two"}])
LEAVES = st.one_of(
    st.fixed_dictionaries({"type": st.sampled_from(["null", "boolean", "integer", "number", "string"])}),
    st.fixed_dictionaries({"type": st.lists(st.sampled_from(["null", "integer", "string"]), min_size=1, unique=True)}),
    st.fixed_dictionaries({"type": st.just("string")}, optional={
        "minLength": SMALL, "maxLength": SMALL, "pattern": st.sampled_from(["^a", "b"])}),
    st.fixed_dictionaries({}, optional={
        "minimum": SMALL, "maximum": SMALL, "multipleOf": st.sampled_from([1, 2, 0.5])}),
    st.fixed_dictionaries({"type": st.just("number")}, optional={
        "exclusiveMinimum": SMALL, "exclusiveMaximum": SMALL}),
    st.fixed_dictionaries({"enum": st.lists(DOCUMENTS, min_size=1, max_size=3)}),
    st.fixed_dictionaries({"const": DOCUMENTS}),
    REFERENCES,
    st.just({}),
)  # fmt: skip


def containers(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    few = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.fixed_dictionaries({}, optional={
            "type": st.just("object"),
            "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "patternProperties": st.dictionaries(st.sampled_from(["a", "^x", "b"]), inner, max_size=2),
            "additionalProperties": st.one_of(inner, st.booleans()),
            "required": NAMES,
            "minProperties": SMALL, "maxProperties": SMALL,
            "propertyNames": inner,
            "dependencies": st.dictionaries(st.sampled_from("ab"), st.one_of(inner, NAMES), max_size=2),
            "dependentRequired": st.dictionaries(st.sampled_from("ab"), NAMES, max_size=2),
            "dependentSchemas": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "unevaluatedProperties": inner}),
        st.fixed_dictionaries({"type": st.just("array")}, optional={
            "items": inner, "minItems": SMALL, "maxItems": SMALL, "uniqueItems": st.booleans(),
            "contains": inner, "minContains": SMALL, "maxContains": SMALL}),
        st.fixed_dictionaries({"type": st.just("array"), "items": few}, optional={"additionalItems": inner}),
        st.fixed_dictionaries({"type": st.just("array"), "prefixItems": few}, optional={"items": inner}),
        st.dictionaries(st.sampled_from(["allOf", "anyOf", "oneOf"]), few, min_size=1, max_size=2),
        st.dictionaries(st.sampled_from(["not", "if", "then", "else"]), inner, min_size=1, max_size=3),
    )  # fmt: skip


SCHEMAS = st.recursive(LEAVES, containers, max_leaves=6)


def changed(schema: Json) -> st.SearchStrategy[Json]:
    """The schema with something added to it, taken away or replaced, here or further in."""
    if isinstance(schema, list) and schema:
        at = st.integers(0, len(schema) - 1)
        return at.flatmap(lambda n: changed(schema[n]).map(lambda new: [*schema[:n], new, *schema[n + 1 :]]))
    if not isinstance(schema, dict) or not schema:
        return SCHEMAS
    names = st.sampled_from(sorted(schema))
    without = names.map(lambda name: {each: value for each, value in schema.items() if each != name})
    wrapped = st.tuples(st.sampled_from(["anyOf", "allOf", "oneOf"]), SCHEMAS).map(
        lambda pair: {pair[0]: [schema, pair[1]]}
    )
    inside = names.flatmap(lambda name: changed(schema[name]).map(lambda new: {**schema, name: new}))
    number = names.map(lambda name: {**schema, name: schema[name] + 1} if type(schema[name]) is int else schema)
    return st.one_of(without, wrapped, inside, number, st.just({**schema, "description": "new"}))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Json, Json]:
    """Two schemas that have something to do with each other, of any drafts, with definitions they may refer to."""
    definitions = {"one": draw(SCHEMAS), "two": draw(SCHEMAS)}
    first = draw(SCHEMAS)
    second = draw(changed(first))
    others = {**definitions, "one": draw(changed(definitions["one"]))} if draw(st.booleans()) else definitions
    drafts = draw(st.sampled_from(DRAFTS)), draw(st.sampled_from(DRAFTS))
    if draw(st.booleans()):
        drafts = drafts[0], drafts[0]
    schemas = (
        {**schema, "$schema": draft, "definitions": own} if "$ref" not in schema else {"definitions": own, **schema}
        for schema, draft, own in zip((first, second), drafts, (definitions, others), strict=True)
    )
    one, other = schemas
    return (one, other) if draw(st.booleans()) else (other, one)


def valid_of(schema: Json, documents: list[Json]) -> list[Json]:
    """Those of the documents that a schema takes; one without a draft is of draft 7 here."""
    validator = validator_for({"$schema": DRAFTS[2], **schema})(schema)
    try:
        return [document for document in documents if validator.is_valid(document)]
    except RecursionError:
        assume(condition=False)
        raise


@settings(
    max_examples=3 * settings().max_examples, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
@given(pair=pairs(), documents=st.lists(DOCUMENTS, min_size=10, max_size=20))
def test_each_document_of_the_writer_is_one_of_the_reader(pair: tuple[Json, Json], documents: list[Json]) -> None:
    try:
        reader, writer = (parse_json_schema(json.dumps(each), {}) for each in pair)
    except ValueError:
        event("no schema of its draft")
        return
    found = json_problems(reader, writer)
    valid = valid_of(pair[1], documents)

    event(f"compatible: {not found}, with documents: {bool(valid)}")
    assert found or valid_of(pair[0], valid) == valid


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(pair=pairs(), documents=st.lists(DOCUMENTS, min_size=5, max_size=20))
def test_what_is_known_of_a_document_is_true(pair: tuple[Json, Json], documents: list[Json]) -> None:
    try:
        node = parse_json_schema(json.dumps(pair[0]), {}).root
    except ValueError:
        return
    taken = [document for document in documents if takes_value(node, document)]
    possible = [document for document in documents if takes_value(node, document) is not False]
    valid = valid_of(pair[0], documents)

    assert valid_of(pair[0], taken) == taken
    assert valid_of(pair[0], possible) == valid
    assert not (valid and is_empty(facts_of([node])))

"""What is a JSON Schema, and what of it counts."""

from __future__ import annotations

import json

import pytest

from penstock.schematizer.formats.json_compatibility import json_problems
from penstock.schematizer.formats.json_schemas import parse_json_schema

CITY = {"type": "object", "properties": {"name": {"type": "string"}}, "definitions": {"n": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "line 1, column 2"),
        ('{"type": "objet"}', "at $.type"),
        ('{"properties": {"a": {"minLength": -1}}}', "at $.properties.a.minLength"),
        ('{"$ref": "#/nowhere"}', "at $"),
        ('{"items": {"$ref": "http://127.0.0.1:9/x"}}', "at $.items"),
        ('{"properties": {"p": {"pattern": "("}}}', "at $.properties.p"),
        ('{"$schema": "http://example.org/own"}', "at $.$schema"),
        ('{"$schema": 7}', "at $.$schema"),
        ('{"$id": 7}', "at $.$id"),
        ('{"maximum": NaN}', "NaN"),
        ('{"maximum": 1e999}', "too large"),
        ('{"x": {"type": 7}, "$ref": "#/x"}', "at $.type"),
        ('{"x": [7], "items": {"$ref": "#/x"}}', "no schema"),
        ("[]", "an object"),
        ('{"$schema": "http://json-schema.org/draft-04/schema", "$ref": {"type": "null"}}', "leads to"),
        ('{"$ref": "#"}', "at $: it refers to itself"),
        ('{"anyOf": [{"not": {"$ref": "#"}}]}', "refers to itself"),
        (
            '{"$schema": "http://json-schema.org/draft-04/schema", "exclusiveMinimum": 7, "minimum": 7}',
            "at $.exclusive",
        ),
        ('{"$schema": "https://json-schema.org/draft/2020-12/schema", "prefixItems": {}}', "at $.prefixItems"),
        ("[" * 100_000, ""),
        (json.dumps({"enum": [{}] * 20_000}), "more than 20000 objects"),
    ],
)
def test_a_text_that_is_no_schema_is_refused_with_the_place(text: str, reason: str) -> None:
    with pytest.raises((ValueError, RecursionError)) as caught:
        parse_json_schema(text, {})

    assert reason in str(caught.value)


@pytest.mark.parametrize(
    "schema",
    [
        {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": True},
        {"$schema": "http://json-schema.org/draft-06/schema#", "const": 1},
        {"$schema": "http://json-schema.org/draft-07/schema#", "if": {"type": "string"}, "then": {"minLength": 1}},
        {"$schema": "https://json-schema.org/draft/2019-09/schema", "dependentRequired": {"a": ["b"]}},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": {"a": {"$anchor": "x"}}, "$ref": "#x"},
        {"$id": "http://a/b", "items": {"$ref": "c"}, "definitions": {"c": {"$id": "http://a/c", "type": "string"}}},
        {"components": {"schemas": {"a": {"type": "string"}}}, "items": {"$ref": "#/components/schemas/a"}},
        {"properties": {"$ref": {"type": "string"}}, "pattern": "^\\p{Lu}"},
        True,
    ],
)  # fmt: skip
def test_schemas_of_every_draft_are_taken_and_take_what_they_took(schema: object) -> None:
    parsed = parse_json_schema(json.dumps(schema), {})
    other = parse_json_schema(json.dumps({**schema, "title": "x"} if isinstance(schema, dict) else schema), {})

    assert json_problems(parsed, other) == ()


def test_a_reference_leads_into_the_schema_that_is_called_so() -> None:
    writer = parse_json_schema('{"$ref": "city.json#/definitions/n"}', {"city.json": json.dumps(CITY)})

    assert json_problems(parse_json_schema('{"type": "integer"}', {}), writer) == ()
    assert json_problems(parse_json_schema('{"type": "string"}', {}), writer) == ("$: integer is not taken",)


def test_what_a_schema_uses_has_a_draft_of_its_own() -> None:
    used = {"old.json": '{"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"}'}
    reader = parse_json_schema('{"items": {"$ref": "old.json"}}', used)

    assert json_problems(reader, parse_json_schema('{"items": {"type": "integer"}}', {})) == (
        "$[]: integer is not taken",
    )

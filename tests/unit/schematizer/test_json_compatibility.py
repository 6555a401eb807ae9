"""Which values of one JSON Schema are taken by another, and why not."""

from __future__ import annotations

import json

import pytest

from penstock.schematizer.formats.json_compatibility import json_problems
from penstock.schematizer.formats.json_schemas import parse_json_schema


def problems(reader: object, writer: object) -> tuple[str, ...]:
    return json_problems(parse_json_schema(json.dumps(reader), {}), parse_json_schema(json.dumps(writer), {}))


def record(
    properties: dict[str, object] | None = None, *, closed: bool = True, required: tuple[str, ...] = (), **more: object
) -> dict[str, object]:
    declared: dict[str, object] = {
        "type": "object",
        "properties": {**(properties or {}), **more},
        "required": list(required),
    }
    return {**declared, "additionalProperties": False} if closed else declared


INTEGER, NUMBER, STRING, NULL = ({"type": name} for name in ("integer", "number", "string", "null"))
TREE = {
    "$ref": "#/definitions/node",
    "definitions": {"node": record(left={"$ref": "#/definitions/node"}, value=INTEGER)},
}
WIDER_TREE = json.loads(json.dumps(TREE).replace("integer", "number"))


@pytest.mark.parametrize(
    ("reader", "writer", "expected"),
    [
        (record(a=INTEGER), record(a=INTEGER), ()),
        (record(a=NUMBER), record(a=INTEGER), ()),
        (record(a=INTEGER), record(a=NUMBER), ("$.a: number is not taken",)),
        (record(a=INTEGER, b=STRING), record(a=INTEGER), ()),
        (record(a=INTEGER), record(a=INTEGER, b=STRING), ("$.b: nothing is taken",)),
        (record(a=INTEGER, closed=False), record(a=INTEGER, b=STRING), ()),
        (record(a=INTEGER), record(a=INTEGER, closed=False), ("$.*: nothing is taken",)),
        (record(a=INTEGER, required=("a",)), record(a=INTEGER), ("$.a: the property is required, and was not",)),
        (
            record(a=record(b=INTEGER), c=STRING),
            record(a=record(b=STRING), c=INTEGER),
            ("$.a.b: string is not taken", "$.c: integer is not taken"),
        ),
        ({"enum": ["a", "b"]}, {"enum": ["a"]}, ()),
        ({"enum": ["a"]}, {"enum": ["a", "b"]}, ('$: the value "b" is not taken',)),
        ({"enum": ["a"]}, STRING, ("$: only some values are taken",)),
        ({**STRING, "maxLength": 5}, {**STRING, "maxLength": 4}, ()),
        ({**STRING, "maxLength": 4}, {**STRING, "maxLength": 5}, ("$: maxLength is 4, and was 5",)),
        ({**STRING, "minLength": 1}, STRING, ("$: minLength is 1, and was 0",)),
        ({**INTEGER, "minimum": 0}, {**INTEGER, "exclusiveMinimum": 0}, ()),
        ({**INTEGER, "exclusiveMinimum": 0}, {**INTEGER, "minimum": 0}, ("$: minimum is 0, and was wider",)),
        ({**INTEGER, "maximum": 5}, {**INTEGER, "maximum": 4}, ()),
        ({**INTEGER, "maximum": 5}, {**INTEGER, "maximum": 6}, ("$: maximum is 5, and was wider",)),
        ({**INTEGER, "maximum": 5}, INTEGER, ("$: maximum is 5, and was not there",)),
        ({**INTEGER, "exclusiveMaximum": 5}, {**INTEGER, "maximum": 5}, ("$: maximum is 5, and was wider",)),
        ({**INTEGER, "maximum": 5}, {**INTEGER, "exclusiveMaximum": 5}, ()),
        ({**INTEGER, "multipleOf": 2}, {**INTEGER, "multipleOf": 4}, ()),
        ({**INTEGER, "multipleOf": 4}, {**INTEGER, "multipleOf": 2},
         ("$: multipleOf is 4, and what was written need not be such a multiple",)),
        ({"oneOf": [NULL, STRING]}, {"type": ["string", "null"]}, ()),
        ({"oneOf": [NULL, STRING]}, {"anyOf": [NULL, INTEGER]}, ("$: no branch of oneOf takes integer",)),
        ({"anyOf": [NUMBER, STRING, NULL]}, {"oneOf": [STRING, NUMBER]}, ()),
        ({"oneOf": [NUMBER, INTEGER]}, NUMBER, ("$: a value may be taken by more than one branch of oneOf",)),
        ({"allOf": [NUMBER, {"minimum": 1}]}, {"allOf": [INTEGER, {"minimum": 2}]}, ()),
        ({"items": NUMBER}, {"type": "array", "items": INTEGER}, ()),
        ({"type": "array", "items": [INTEGER]}, {"type": "array", "items": NUMBER}, ("$[0]: number is not taken",)),
        (WIDER_TREE, TREE, ()),
        (TREE, WIDER_TREE, ("$.value: number is not taken",)),
        ({"not": STRING}, INTEGER, ()),
        ({"not": {**INTEGER, "minimum": 3}}, INTEGER, ('$: it cannot be shown that nothing is what "not" forbids',)),
        (record(a=INTEGER), record(a=INTEGER, b=False), ()),
        ({"anyOf": [record(a=INTEGER), STRING]}, record(a=NUMBER), ("$.a: number is not taken",)),
        ({**STRING, "pattern": "^a"}, STRING,
         ("$: pattern is '^a', and was not: it cannot be shown that every text meets it",)),
        ({"type": "array", "uniqueItems": True}, {"type": "array"}, ("$: uniqueItems is true, and was not",)),
        ({"patternProperties": {"^x": INTEGER}}, {"patternProperties": {"^x": STRING}},
         ("$./^x/: string is not taken",)),
        (True, STRING, ()),
        (False, STRING, ("$: nothing is taken",)),
    ],
)  # fmt: skip
def test_every_reason_is_listed_with_its_path(reader: object, writer: object, expected: tuple[str, ...]) -> None:
    assert problems(reader, writer) == expected


def test_keywords_that_cannot_be_compared_are_refused_unless_they_stay_what_they_were() -> None:
    draft = "https://json-schema.org/draft/2020-12/schema"
    closed = {"$schema": draft, "allOf": [record(closed=False, a=INTEGER)], "unevaluatedProperties": False}

    assert problems({"$schema": draft, "anyOf": [closed, NULL]}, closed) == ()
    assert problems(closed, record(a=INTEGER)) == ("$: what unevaluatedProperties takes cannot be compared",)


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        ({"allOf": [{"items": {"$ref": "#"}}, {"type": "array"}]}, {"type": "array", "items": {"$ref": "#"}}),
        ({"anyOf": [{"items": {"$ref": "#"}}, STRING]}, {"oneOf": [{"items": {"$ref": "#"}}, NULL]}),
        (record(next={"anyOf": [NULL, {"$ref": "#"}]}), record(next={"anyOf": [{"$ref": "#"}, NULL]})),
    ],
)
def test_schemas_that_refer_to_themselves_are_compared_in_finite_time(reader: object, writer: object) -> None:
    for one, other in ((reader, writer), (writer, reader), (reader, reader)):
        assert isinstance(problems(one, other), tuple)


def test_schemas_that_refer_to_each_other_are_compared_as_what_they_unfold_to() -> None:
    def chain(value: object, length: int) -> dict[str, object]:
        links = {
            f"d{n}": record(value=value, next={"$ref": f"#/definitions/d{(n + 1) % length}"}) for n in range(length)
        }
        return {"$ref": "#/definitions/d0", "definitions": links}

    assert problems(chain(NUMBER, 2), chain(INTEGER, 3)) == ()
    assert "$.value: number is not taken" in problems(chain(INTEGER, 2), chain(NUMBER, 3))


def test_many_definitions_that_use_each_other_do_not_take_for_ever() -> None:
    names = [f"d{n}" for n in range(40)]
    links = {name: record({each: {"$ref": f"#/definitions/{each}"} for each in names}) for name in names}
    schema = {"$ref": "#/definitions/d0", "definitions": links}

    assert problems({**schema, "title": "the same"}, schema) == ()


def test_a_list_of_problems_ends_somewhere() -> None:
    names = [f"a{n}" for n in range(300)]

    found = problems(record(dict.fromkeys(names, INTEGER)), record(dict.fromkeys(names, STRING)))

    assert len(found) == 101
    assert found[-1] == "and 200 more problems"


def test_an_integer_of_draft_4_is_written_without_a_point() -> None:
    old = {**INTEGER, "$schema": "http://json-schema.org/draft-04/schema#"}

    assert problems(INTEGER, old) == ()
    assert problems(old, INTEGER) == ("$: integer is not taken",)


def test_keywords_count_only_in_the_drafts_that_have_them() -> None:
    old = {"$schema": "http://json-schema.org/draft-04/schema#", "const": 1}

    assert problems({"enum": [1]}, {"const": 1}) == ()
    assert problems({"enum": [1]}, old) == ("$: only some values are taken",)


def test_large_enums_are_compared_and_what_takes_too_long_is_refused() -> None:
    labels = [f"L{number}" for number in range(20_000)]
    branches = [{"enum": [label]} for label in labels[:1_000]]

    assert problems({"enum": labels}, {"enum": labels[::-1]}) == ()
    assert problems({"enum": labels}, {"enum": [*labels, "new"]}) == ('$: the value "new" is not taken',)
    (problem,) = problems({"anyOf": branches}, {"enum": labels})
    assert "too entangled" in problem


def test_values_are_equal_as_json_has_them() -> None:
    assert problems({"enum": [1, {"a": [1.0]}]}, {"enum": [1.0, {"a": [1]}]}) == ()
    assert problems({"enum": [1]}, {"enum": [True]}) == ("$: the value true is not taken",)
    assert problems({"type": "array", "uniqueItems": True}, {"const": [1, True, "1"]}) == ()
    assert problems({"type": "array", "uniqueItems": True}, {"const": [{"a": 1}, {"a": 1.0}]}) != ()

"""A schema that is no Avro is refused with the line and column of its mistake."""

from __future__ import annotations

import pytest

from penstock.schematizer.formats.schema_types import SchemaType, parse_text
from penstock.schematizer.refusals import RefusedError

RECORD = """{
  "type": "record", "name": "Order",
  "fields": [
    {"name": "id", "type": "long"},
    {"name": "buyer", "type": ["null", {"type": "record", "name": "Buyer", "fields": [
      {"name": "mail", "type": "string", "default": ""},
      {"name": "age", "type": "int", "default": 7}
    ]}]},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "SENT"]}},
    {"name": "before", "type": ["null", "State"], "default": null},
    {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}}
  ]
}"""


def test_the_schema_without_a_mistake_is_one() -> None:
    parse_text(SchemaType.AVRO, RECORD, ())


@pytest.mark.parametrize(
    ("right", "wrong", "place"),
    [
        ('"id", "type": "long"', '"id", "type": "lon"', "line 4, column 28"),
        ('"mail", "type": "string"', '"mail", "type": "text"', "line 6, column 32"),
        ('"default": 7', '"default": "seven"', "line 7, column 49"),
        ('"items": "string"', '"items": "strings"', "line 9, column 57"),
        ('{"type": "array", "items": "string"}', '{"type": "array"}', "line 9, column 30"),
        ('"NEW", "SENT"', '"NEW", "NEW"', "line 10, column 31"),
        ('["null", "State"]', '["null", "Status"]', "line 11, column 41"),
        ('{"name": "tags", ', "{", "line 9, column 5"),
        ('"name": "tags"', '"name": "id"', "line 9, column 5"),
        ('"name": "Order"', '"name": "an order"', "line 1, column 1"),
        ('["null", {"type": "record"', '["null", "null", {"type": "record"', "line 5, column 40"),
    ],
)
def test_a_mistake_is_refused_with_its_place(right: str, wrong: str, place: str) -> None:
    assert RECORD.count(right) == 1

    with pytest.raises(RefusedError, match=f"Invalid schema: this is no Avro schema: {place}: "):
        parse_text(SchemaType.AVRO, RECORD.replace(right, wrong), ())


def test_a_schema_that_is_one_word_is_refused_at_its_beginning() -> None:
    with pytest.raises(RefusedError, match=r'line 2, column 2: there is no type "strin"'):
        parse_text(SchemaType.AVRO, '\n "strin"', ())


def test_keys_and_texts_with_signs_of_json_do_not_mislead() -> None:
    strange = '"doc": "a \\"{[,:", "{": [1, {"a": "]"}]'
    text = f'{{"type": "record", "name": "R", {strange}, "fields": [{{"name": "x", "type": 1}}]}}'

    with pytest.raises(RefusedError, match=f"line 1, column {text.index('1}]}') + 1}: "):
        parse_text(SchemaType.AVRO, text, ())

"""Text that cannot be read is refused with the place of the mistake, and schemas with every reason."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import httpx

JSON = {"content-type": "application/json"}
OLD = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "a", "type": "int"},
        {"name": "c", "type": {"type": "record", "name": "I", "fields": [{"name": "x", "type": "long"}]}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
    ],
}
NEW = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "a", "type": "string"},
        {"name": "c", "type": {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A"]}},
        {"name": "d", "type": "int"},
    ],
}
REASONS = ["a: int", "c.x: long", "e: the reader does not know the symbols B", "d: the writer lacks the field"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/subjects/s/versions"),
        ("POST", "/v1/tables"),
        ("PUT", "/config"),
        ("POST", "/associations"),
        ("PUT", "/v1/namespaces/n"),
    ],
)
@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"schema": "x",\n  "b": nope}', "line 2, column 8"),
        ("", "body: "),
        ("{", "line 1, column 2"),
        ('{"ä": "ö",\n\n}', "line 3, column 1"),
        ("[1,\r\n 2", "line 2, column 3"),
    ],
)
def test_a_body_that_is_not_json_is_refused_with_the_place(
    registry: httpx.Client, method: str, path: str, text: str, place: str
) -> None:
    answer = registry.request(method, path, content=text, headers=JSON)

    assert (answer.status_code, answer.json()["error_code"]) == (422, 422)
    assert place in answer.json()["message"]


def test_a_schema_that_is_not_json_is_refused_with_the_place_in_both_faces(registry: httpx.Client) -> None:
    text = '{"type": "record",\n "name": oops}'

    answers = [
        registry.post("/subjects/s/versions", json={"schema": text}),
        registry.post("/v1/tables", json={"namespace": "n", "key_schema": None, "value_schema": text}),
    ]

    assert [answer.json()["error_code"] for answer in answers] == [42201, 42201]
    assert all("line 2, column 10" in answer.json()["message"] for answer in answers)


def test_a_statement_is_refused_with_the_place(registry: httpx.Client) -> None:
    statement = "CREATE TABLE shop.o (id bigint,\n note vrchar(64)"

    answer = registry.post("/v1/schemas/mysql", json={"namespace": "n", "create_table": statement})

    assert answer.json()["error_code"] == 42220
    assert "line 2, column 12, at 'vrchar'" in answer.json()["message"]


def test_every_reason_is_told_field_by_field(registry: httpx.Client) -> None:
    registry.post("/subjects/r/versions", json={"schema": json.dumps(OLD)})
    body, verbose = {"schema": json.dumps(NEW)}, {"verbose": "true"}

    refused = registry.post("/subjects/r/versions", json=body)
    tried = [
        registry.post(f"/compatibility/subjects/r/{path}", params=verbose, json=body).json()
        for path in ("versions", "versions/1", "versions/latest")
    ]

    assert refused.status_code == 409
    assert all(reason in refused.json()["message"] for reason in REASONS)
    for told in tried:
        assert told["is_compatible"] is False
        assert [any(reason in message for message in told["messages"]) for reason in REASONS] == [True] * len(REASONS)
        assert len(told["messages"]) == len(REASONS)

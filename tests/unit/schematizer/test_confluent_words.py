"""What Confluent's clients match on: how messages begin, which texts are one schema, and how requests may look."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine, text
from tests.unit.schematizer.served import served

from penstock.core.avro.schemas import key_schema, value_schema
from penstock.core.avro_types import parse_avro
from penstock.core.compatibility import mutual_problems
from penstock.core.tables import Column, IntegerType, TableId, TableSchema
from penstock.schematizer.formats.avro_forms import normal_text, one_form
from penstock.schematizer.formats.schema_types import digest

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

TEXT = '"string"'
ORDERS = TableSchema(
    TableId("shop", "orders"), (Column("id", IntegerType(64, unsigned=False), nullable=False),), ("id",), "all orders"
)
INSIDE = '{"type": "record", "name": "a.R", "fields": [{"name": "x", "type": %s}]}'
# Each pair says one schema in two ways.
PAIRS = (
    ('{"type": "string"}', '"string"'),
    ('{"type": "array", "items": {"type": "int"}}', '{"type": "array", "items": "int"}'),
    (
        '{"type": "fixed", "name": "a.b.F", "size": 2}',
        '{"type": "fixed", "name": "F", "namespace": "a.b", "size": 2}',
    ),
    (
        '{"type": "record", "name": "a.R", "fields": [{"name": "x", "type": ["null", "a.R"]}]}',
        '{"type": "record", "name": "R", "namespace": "a", "fields": [{"name": "x", "type": ["null", "R"]}]}',
    ),
    (
        INSIDE % '{"type": "enum", "name": "E", "namespace": "a", "symbols": ["s"]}',
        INSIDE % '{"type": "enum", "name": "E", "symbols": ["s"]}',
    ),
)


def post(registry: httpx.Client, subject: str, schema: str, query: str = "") -> httpx.Response:
    return registry.post(f"/subjects/{subject}/versions{query}", json={"schema": schema})


def record(type_: object, default: str) -> str:
    return (
        '{"type": "record", "name": "R", "fields": '
        f'[{{"name": "a", "type": {json.dumps(type_)}, "default": {default}}}]}}'
    )


WORDS = (
    ("GET", "/subjects/none/versions", None, 40401, "Subject 'none' not found."),
    ("GET", "/subjects/s/versions/9", None, 40402, "Version 9 not found."),
    ("GET", "/schemas/ids/999999", None, 40403, "Schema 999999 not found"),
    ("POST", "/subjects/s", {"schema": '"int"'}, 40403, "Schema not found"),
    ("DELETE", "/subjects/gone", None, 40404, "Subject 'gone' was soft deleted.Set permanent=true to delete"),
    ("DELETE", "/subjects/s?permanent=true", None, 40405, "Subject 's' was not deleted first before being perm"),
    ("DELETE", "/subjects/gone/versions/1", None, 40406, "Subject 'gone' Version 1 was soft deleted.Set permanent"),
    ("DELETE", "/subjects/s/versions/1?permanent=true", None, 40407, "Subject 's' Version 1 was not deleted first"),
    ("GET", "/config/s", None, 40408, "Subject 's' does not have subject-level compatibility configured"),
    ("GET", "/mode/s", None, 40409, "Subject 's' does not have subject-level mode configured"),
    (
        "POST",
        "/subjects/s/versions",
        {"schema": '"int"'},
        409,
        "Schema being registered is incompatible with an earlie",
    ),
    ("POST", "/subjects/s/versions", {"schema": '"nothing"'}, 42201, "Invalid schema"),
    ("GET", "/subjects/s/versions/0", None, 42202, "The specified version '0' is not a valid version id."),
    ("PUT", "/config", {"compatibility": "SOME"}, 42203, "Invalid compatibility level."),
    ("PUT", "/mode", {"mode": "SOME"}, 42204, "Invalid mode."),
    ("POST", "/subjects/closed/versions", {"schema": '"bytes"'}, 42205, "Subject closed is in read-only mode"),
)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> object:
    """A client of a registry with a subject `s`, one that is deleted and one that is closed."""
    with served(f"sqlite:///{tmp_path_factory.mktemp('words')}/words.db") as client:
        for subject in ("s", "gone", "closed"):
            assert post(client, subject, TEXT).status_code == 200
        client.delete("/subjects/gone")
        client.put("/mode/closed", json={"mode": "READONLY"})
        yield client


@pytest.mark.parametrize(("method", "path", "body", "number", "words"), WORDS)
def test_a_message_begins_as_that_of_confluents_server(
    known: httpx.Client, method: str, path: str, body: object, number: int, words: str
) -> None:
    answer = known.request(method, path, json=body).json()

    assert (answer["error_code"], answer["message"][: len(words)]) == (number, words)


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_two_ways_to_say_a_schema_are_one_schema(registry: httpx.Client, one: str, other: str) -> None:
    first = post(registry, "s", one).json()
    again = post(registry, "s", other).json()

    assert (again["id"], again["version"]) == (first["id"], 1)
    assert registry.get("/subjects/s/versions").json() == [1]
    assert registry.post("/subjects/s", json={"schema": other}).json()["schema"] == one
    assert not mutual_problems(parse_avro(one), parse_avro(other))


def test_a_namespace_that_differs_makes_another_schema(registry: httpx.Client) -> None:
    inner, outer = (
        '{"type": "enum", "name": "E", "symbols": ["s"]%s}',
        '{"type": "record", "name": "a.R", "fields": %s}',
    )
    ids = {
        post(registry, f"s{space}", outer % f'[{{"name": "x", "type": {inner % space}}}]').json()["id"]
        for space in ("", ', "namespace": ""', ', "namespace": "b"')
    }

    assert len(ids) == 3


def test_schemas_of_tables_have_the_form_already() -> None:
    for declared in (key_schema(ORDERS), value_schema(ORDERS)):
        assert one_form(json.loads(str(declared))) == json.loads(str(declared))


@given(st.lists(st.sampled_from(["a", "b.c", "", "d"]), min_size=1, max_size=4))
def test_a_form_says_what_the_text_said_and_is_its_own_form(spaces: list[str]) -> None:
    declared: object = "int"
    for number, space in enumerate(spaces):
        declared = {
            "type": "record",
            "name": f"R{number}",
            "namespace": space,
            "fields": [{"name": "x", "type": declared, "doc": "kept"}, {"name": "y", "type": {"type": "long"}}],
        }
    said = json.dumps(declared)

    normal = normal_text(json.loads(said))

    assert parse_avro(normal) == parse_avro(said)
    assert normal_text(json.loads(normal)) == normal
    assert normal.count("kept") == len(spaces)


def test_a_registry_of_an_older_release_finds_what_it_has(registry: httpx.Client, tmp_path: Path) -> None:
    said = '{"type": "string"}'
    first = post(registry, "s", said).json()
    engine = create_engine(f"sqlite:///{tmp_path / 'schematizer.db'}")
    with engine.begin() as connection:
        older = {"older": digest(json.loads(said)), "id": first["id"]}
        connection.execute(
            text("UPDATE schemas SET fingerprint = :older, text_fingerprint = :older WHERE id = :id"), older
        )
    engine.dispose()

    assert post(registry, "s", said).json()["id"] == first["id"]
    assert registry.post("/subjects/s", json={"schema": said}).json()["version"] == 1
    assert registry.get("/subjects/s/versions").json() == [1]


DISORDERED = '{ "fields": [], "namespace": "a", "name": "R", "type": "record"}'
NORMAL = '{"type":"record","name":"R","namespace":"a","fields":[]}'


def test_a_schema_is_kept_in_one_form_where_that_is_asked_for(registry: httpx.Client) -> None:
    asked = post(registry, "s", DISORDERED, "?normalize=true").json()
    other = post(registry, "t", DISORDERED.replace('"R"', '"Q"')).json()

    assert asked["schema"] == NORMAL
    assert registry.get(f"/schemas/ids/{asked['id']}").json()["schema"] == NORMAL
    assert other["schema"] == DISORDERED.replace('"R"', '"Q"')


@pytest.mark.parametrize("where", ["/config", "/config/s", "/config/:.lab:"])
def test_a_config_says_that_schemas_are_kept_in_one_form(registry: httpx.Client, where: str) -> None:
    subject = ":.lab:s" if "lab" in where else "s"

    assert registry.put(where, json={"normalize": True}).json() == {"normalize": True}

    assert registry.get(where).json()["normalize"] is True
    assert registry.get(f"/config/{subject}?defaultToGlobal=true").json() == {
        "compatibilityLevel": "BACKWARD",
        "normalize": True,
    }
    assert post(registry, subject, DISORDERED).json()["schema"] == NORMAL
    assert registry.delete(where).json()["normalize"] is True
    assert "normalize" not in registry.get(f"/config/{subject}?defaultToGlobal=true").json()


def test_a_config_that_says_nothing_is_refused(registry: httpx.Client) -> None:
    answer = registry.put("/config", json={})

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


WRONG = (
    ("double", "NaN"),
    ("double", "-Infinity"),
    ("double", "1e400"),
    ("double", "1" + 400 * "0"),
    ("float", "1e39"),
    ("int", str(1 << 31)),
    ("long", str(-(1 << 63) - 1)),
    ("int", "true"),
    ("bytes", '"\\u0142"'),
    ({"type": "fixed", "name": "F", "size": 2}, '"abc"'),
    ({"type": "enum", "name": "E", "symbols": ["a"]}, '"b"'),
    ({"type": "array", "items": "int"}, '["a"]'),
    ({"type": "map", "values": "int"}, '{"a": null}'),
    ({"type": "record", "name": "I", "fields": [{"name": "b", "type": "int"}]}, "{}"),
    (["null", "int"], '"a"'),
    ({"type": "int", "logicalType": "date"}, str(1 << 40)),
)
RIGHT = (
    ("double", "1e300"),
    ("float", "3"),
    ("int", str(-(1 << 31))),
    ("bytes", '"\\u00ff"'),
    (["null", "int"], "7"),
    ({"type": "record", "name": "I", "fields": [{"name": "b", "type": "int", "default": 1}]}, "{}"),
    ({"type": "map", "values": ["null", "R"]}, '{"a": null}'),
)


@pytest.mark.parametrize(("type_", "default"), WRONG)
def test_a_default_that_is_no_value_of_its_field_is_refused(
    registry: httpx.Client, type_: object, default: str
) -> None:
    schema = record(type_, default)

    answer = post(registry, "s", schema)
    tried = registry.post("/compatibility/subjects/s/versions", json={"schema": schema})

    assert (answer.status_code, answer.json()["error_code"]) == (422, 42201)
    assert (tried.status_code, tried.json()["error_code"]) == (422, 42201)


@pytest.mark.parametrize(("type_", "default"), RIGHT)
def test_a_default_that_is_a_value_is_taken(registry: httpx.Client, type_: object, default: str) -> None:
    assert post(registry, "s", record(type_, default)).status_code == 200


def test_a_number_that_is_no_json_is_refused_in_json_schema_too(registry: httpx.Client) -> None:
    body = {"schemaType": "JSON", "schema": '{"type": "number", "default": NaN}'}

    assert registry.post("/subjects/s/versions", json=body).json()["error_code"] == 42201


def test_a_body_may_be_called_bytes(registry: httpx.Client) -> None:
    headers = {"Content-Type": "application/octet-stream; charset=binary"}

    answer = registry.post("/subjects/s/versions", content='{"schema": "\\"int\\""}', headers=headers)

    assert (answer.status_code, answer.json()["version"]) == (200, 1)


def test_the_registry_says_what_it_is(registry: httpx.Client) -> None:
    assert registry.get("/v1/metadata/id").json()["scope"]["clusters"]["schema-registry-cluster"] == "penstock"
    assert registry.get("/v1/metadata/version").json()["version"]


def test_a_global_mode_is_forgotten(registry: httpx.Client) -> None:
    registry.put("/mode", json={"mode": "READONLY"})

    assert registry.delete("/mode").json() == {"mode": "READONLY"}

    assert registry.get("/mode").json() == {"mode": "READWRITE"}


@pytest.mark.parametrize("path", ["/subjects", "/", "/schemas/ids/1", "/subjects/none/versions", "/ui/"])
def test_head_is_answered_as_get_without_the_content(registry: httpx.Client, path: str) -> None:
    post(registry, "s", TEXT)
    asked = registry.get(path, headers={"Accept": "application/json"})

    answer = registry.head(path, headers={"Accept": "application/json"})

    assert (answer.status_code, answer.content) == (asked.status_code, b"")
    assert answer.headers["content-length"] == asked.headers["content-length"]

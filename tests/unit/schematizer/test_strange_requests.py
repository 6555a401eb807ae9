"""Names and numbers that nobody expects get the right status on both faces, and never a 500."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.schematizer.served import served

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

LONG = {"schema": '{"type": "long"}'}
GOOD = (
    "a/b",
    "a%2Fb",
    "a%b",
    "%",
    "100%25",
    "/",
    "//",
    "größe",
    "😀",
    "a b",
    "a?b#c",
    "a+b&c=d",
    "'\"\\`;--",
    "e\u0301",
)
BAD = ("a\x00b", "\n", "a\tb", "\x7f", "\x1b[0m", "x" * 256)
NUMBERS = (0, -1, -(1 << 63), -(1 << 63) - 1, -(10**30), 1 << 31, 1 << 63, 1 << 64, 10**30, 999_999)


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a registry that all of these share."""
    with served(f"sqlite:///{tmp_path_factory.mktemp('strange')}/strange.db") as client:
        yield client


@pytest.mark.parametrize("name", GOOD)
def test_a_subject_may_be_called_anything_that_can_be_printed(strange: httpx.Client, name: str) -> None:
    path = f"/subjects/{quote(name, safe='')}"

    assert strange.post(f"{path}/versions", json=LONG).status_code == 200
    assert strange.get(f"{path}/versions").json() == [1]
    assert strange.get(f"{path}/versions/latest").json()["subject"] == name
    assert strange.put(f"/config/{quote(name, safe='')}", json={"compatibility": "NONE"}).status_code == 200
    assert strange.get(f"/mode/{quote(name, safe='')}?defaultToGlobal=true").status_code == 200
    assert name in strange.get("/subjects").json()
    assert strange.delete(path).json() == [1]
    assert strange.delete(f"{path}?permanent=true").json() == [1]
    inside = f"/contexts/.lab/subjects/{quote(name, safe='')}/versions"
    assert strange.post(inside, json=LONG).status_code == 200
    assert strange.get(f"{inside}/1").json()["subject"] == f":.lab:{name}"


@pytest.mark.parametrize("name", BAD)
def test_a_subject_that_cannot_be_is_refused_and_not_found(strange: httpx.Client, name: str) -> None:
    path = f"/subjects/{quote(name, safe='')}"

    refused, missing = strange.post(f"{path}/versions", json=LONG), strange.get(f"{path}/versions")

    assert (refused.status_code, refused.json()["error_code"]) == (422, 42208)
    assert (missing.status_code, missing.json()["error_code"]) == (404, 40401)


@pytest.mark.parametrize("name", GOOD)
def test_a_table_may_be_called_so_too(strange: httpx.Client, name: str) -> None:
    body = {"namespace": name, "create_table": f"CREATE TABLE s.`{name.replace('`', '``')}` (id bigint PRIMARY KEY)"}
    path = f"/v1/sources/{quote(name, safe='')}/s/{quote(name, safe='')}"

    registered = strange.post("/v1/schemas/mysql", json=body)

    if registered.status_code == 200:
        assert strange.get(path).json()["table_name"] == name
        assert strange.put(f"{path}/elements/id", json={"doc": name}).json()["doc"] == name
    else:
        assert registered.status_code == 422, registered.text
        assert strange.get(path).status_code == 404
    assert strange.put(f"/v1/namespaces/{quote(name, safe='')}", json={}).json()["name"] == name


@pytest.mark.parametrize("number", NUMBERS)
def test_a_schema_with_an_impossible_id_is_not_there(strange: httpx.Client, number: int) -> None:
    for path in ("", "/schema", "/versions", "/subjects"):
        answer = strange.get(f"/schemas/ids/{number}{path}")
        assert (answer.status_code, answer.json()["error_code"]) == (404, 40403), path
    assert strange.get(f"/v1/schemas/{number}").status_code == 404
    assert strange.get(f"/v1/schemas/{number}/elements").status_code == 404
    strange.post("/subjects/numbered/versions", json=LONG).raise_for_status()
    for version in (number, "9" * 5000):
        assert strange.get(f"/subjects/numbered/versions/{version}").status_code in {200, 404, 422}


def send(client: httpx.Client, path: str, body: object) -> httpx.Response:
    """Post JSON that has escapes for what is not ASCII, and NaN."""
    return client.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})


@pytest.mark.parametrize("value", ["\ud800", {"\udfff": 1}, float("nan"), [float("inf")]])
@pytest.mark.parametrize(("part", "code"), [("metadata", 42201), ("ruleSet", 42210)])
def test_what_no_answer_could_repeat_is_refused_before_it_is_kept(
    strange: httpx.Client, part: str, code: int, value: object
) -> None:
    body = {"schema": '"int"', part: {"properties": {"a": value}}}

    refused = send(strange, "/subjects/untellable/versions", body)

    assert (refused.status_code, refused.json()["error_code"]) == (422, code)
    assert strange.get("/subjects/untellable/versions").status_code == 404
    assert strange.get("/schemas").status_code == 200


@pytest.mark.parametrize("kind", ["AVRO", "JSON", "PROTOBUF", "\ud800"])
def test_a_text_with_half_a_character_is_refused_everywhere(strange: httpx.Client, kind: str) -> None:
    body = {"schema": '"str\ud800ing"', "schemaType": kind}
    table = {"namespace": "n", "table_schema": "s", "table_name": "t", "value_schema": body["schema"]}
    paths = ("/subjects/half/versions", "/compatibility/subjects/half/versions")

    answers = [send(strange, path, body) for path in paths] + [send(strange, "/v1/schemas/avro", table)]

    assert [answer.json()["code"] for answer in answers] == ["invalid_schema"] * 3


@pytest.mark.parametrize(
    ("kind", "schema", "other"),
    [
        ("AVRO", {"type": "string", "doc": "\ud800", "logicalType": "\ud800"}, "int"),
        ("JSON", {"type": "string", "title": "\ud800", "const": "\ud800"}, {"type": "integer"}),
        ("JSON", {"properties": {"\ud800": {"type": "string"}}}, {"properties": {"\ud800": {"type": "integer"}}}),
    ],
)
def test_half_a_character_that_a_schema_says_by_an_escape_is_kept_and_shown(
    strange: httpx.Client, kind: str, schema: object, other: object
) -> None:
    body, different = ({"schema": json.dumps(each), "schemaType": kind} for each in (schema, other))
    strange.put("/config/escaped", json={"compatibility": "FULL"}).raise_for_status()

    kept = send(strange, "/subjects/escaped/versions?normalize=true", body).raise_for_status().json()
    tried = send(strange, "/compatibility/subjects/escaped/versions?verbose=true", different)
    refused = send(strange, "/subjects/escaped/versions", different)

    assert json.loads(kept["schema"]) == schema
    assert tried.json()["messages"]
    assert refused.status_code == 409
    for path in (f"/ui/schemas/{kept['id']}", f"/v1/schemas/{kept['id']}/elements", "/schemas"):
        assert strange.get(path).status_code == 200, path
    strange.delete("/subjects/escaped").raise_for_status()
    strange.delete("/subjects/escaped?permanent=true").raise_for_status()


def test_half_a_character_in_a_logical_type_of_a_stream_is_shown_as_unknown(strange: httpx.Client) -> None:
    field = {"name": "f", "type": {"type": "string", "logicalType": "\ud800"}}
    schema = json.dumps({"type": "record", "name": "R", "fields": [field]})
    body = {"namespace": "half", "table_schema": "s", "table_name": "t", "value_schema": schema}

    send(strange, "/v1/schemas/avro", body).raise_for_status()

    (element,) = strange.get("/v1/sources/half/s/t/elements").json()["items"]
    assert element["type"] == "string/\ufffd"


@pytest.mark.parametrize("limit", ["minimum", "multipleOf"])
def test_a_limit_that_is_larger_than_any_float_is_compared_and_told(strange: httpx.Client, limit: str) -> None:
    strange.post(f"/subjects/{limit}/versions", json={"schema": '{"type": "integer"}', "schemaType": "JSON"})
    huge = json.dumps({"type": "integer", limit: 10**400})

    refused = strange.post(f"/subjects/{limit}/versions", json={"schema": huge, "schemaType": "JSON"})

    assert (refused.status_code, refused.json()["error_code"]) == (409, 409)
    assert f"{limit} is 1{'0' * 400}" in refused.json()["message"]


@pytest.mark.parametrize("kind", ["string", "enum", "fixed"])
def test_fields_of_what_is_no_record_say_nothing(strange: httpx.Client, kind: str) -> None:
    fields = [{"name": "f", "type": {"a": "b"}, "default": None}, {"default": 1}]
    schema = {"type": kind, "name": f"Odd{kind}", "symbols": ["A"], "size": 1, "fields": fields}

    taken = strange.post(f"/subjects/odd-{kind}/versions", json={"schema": json.dumps(schema)})

    assert taken.status_code == 200, taken.text


def test_an_import_by_the_id_0_is_refused(strange: httpx.Client) -> None:
    strange.put("/mode/zero", json={"mode": "IMPORT"}).raise_for_status()

    refused = strange.post("/subjects/zero/versions", json={"schema": '"bytes"', "id": 0, "version": 1})

    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
    assert strange.get("/subjects/zero/versions").status_code == 404


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    names=st.lists(st.text(max_size=12) | st.sampled_from([*GOOD, *BAD]), min_size=1, max_size=5),
    root=st.sampled_from(
        [
            "/v1/sources",
            "/v1/topics",
            "/v1/namespaces",
            "/subjects",
            "/schemas",
            "/config",
            "/mode",
            "/contexts",
            "/compatibility",
        ]
    ),
    method=st.sampled_from(["GET", "PUT", "POST", "DELETE"]),
    body=st.sampled_from([None, {}, [], LONG, {"schema": "\x00"}, {"schema": "\ud800"}, {"compatibility": "\x00"}])
    | st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
)
def test_no_path_and_no_body_is_a_defect(
    strange: httpx.Client, names: list[str], root: str, method: str, body: object
) -> None:
    path = "/".join([root, *(quote(name, safe="", errors="replace") for name in names)])

    answer = strange.request(method, path, content=json.dumps(body), headers={"Content-Type": "application/json"})

    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        assert {"error_code", "code", "message", "hint"} <= answer.json().keys()

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

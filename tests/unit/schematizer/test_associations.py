"""Associations: which subject a topic goes by."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import httpx

USER = json.dumps({"type": "record", "name": "User", "fields": [{"name": "a", "type": "int"}]})
NEWER = json.dumps(
    {
        "type": "record",
        "name": "User",
        "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "int", "default": 0}],
    }
)
OTHER = json.dumps({"type": "string"})


def body(*associations: dict[str, Any], name: str = "orders", namespace: str = "lkc-1") -> dict[str, Any]:
    return {
        "resourceName": name,
        "resourceNamespace": namespace,
        "resourceId": f"{name}-id",
        "resourceType": "topic",
        "associations": list(associations),
    }


def make(registry: httpx.Client, *associations: dict[str, Any], name: str = "orders") -> httpx.Response:
    return registry.post("/associations", json=body(*associations, name=name))


def change(registry: httpx.Client, *associations: dict[str, Any], name: str = "orders") -> httpx.Response:
    return registry.put(f"/associations/resources/{name}-id", json=body(*associations, name=name))


def register(registry: httpx.Client, subject: str, schema: str = USER) -> None:
    registry.post(f"/subjects/{subject}/versions", json={"schema": schema}).raise_for_status()


def told(registry: httpx.Client, path: str, **query: str | int | list[str]) -> list[tuple[str, str]]:
    found = registry.get(f"/associations/{path}", params=query).raise_for_status().json()
    return [(each["resourceName"], each["subject"]) for each in found]


def refusal(answer: httpx.Response) -> tuple[int, int]:
    return answer.status_code, answer.json()["error_code"]


def test_a_topic_without_associations_has_an_empty_list_of_them(registry: httpx.Client) -> None:
    paths = ("resources/-/orders", "resources/orders-id", "subjects/shared-value")

    assert [registry.get(f"/associations/{path}").json() for path in paths] == [[], [], []]


def test_a_shared_subject_is_found_by_every_topic_that_has_it(registry: httpx.Client) -> None:
    register(registry, "shared-value")
    answers = [make(registry, {"subject": "shared-value"}, name=name) for name in ("orders", "a/b.c%2F d")]

    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json() == body(
        {"subject": "shared-value", "associationType": "value", "lifecycle": "WEAK", "frozen": False}
    )
    assert told(registry, "subjects/shared-value") == [("orders", "shared-value"), ("a/b.c%2F d", "shared-value")]
    assert told(registry, "resources/-/a%2Fb.c%252F%20d") == [("a/b.c%2F d", "shared-value")]
    assert told(registry, "resources/lkc-1/orders") == [("orders", "shared-value")]
    assert told(registry, "resources/lkc-2/orders") == []
    assert told(registry, "resources/orders-id") == [("orders", "shared-value")]


def test_lists_are_filtered_and_cut(registry: httpx.Client) -> None:
    register(registry, "k")
    register(registry, "v")
    make(registry, {"subject": "k", "associationType": "key"}, {"subject": "v", "associationType": "value"})

    assert told(registry, "resources/-/orders", associationType="key") == [("orders", "k")]
    assert told(registry, "resources/-/orders", associationType=["key", "value"], offset=1) == [("orders", "v")]
    assert told(registry, "resources/-/orders", limit=1) == [("orders", "k")]
    assert told(registry, "resources/-/orders", lifecycle="STRONG") == []
    assert told(registry, "resources/-/orders", resourceType="other") == []
    assert told(registry, "subjects/v", resourceType="topic") == [("orders", "v")]


def test_a_schema_that_comes_along_is_registered_under_the_topics_own_subject(registry: httpx.Client) -> None:
    answer = make(registry, {"associationType": "value", "schema": {"schema": USER}, "frozen": True}).json()

    (made,) = answer["associations"]
    assert (made["subject"], made["lifecycle"], made["frozen"]) == (":.lkc-1:orders-value", "STRONG", True)
    assert (made["schema"]["schema"], made["schema"]["version"]) == (USER, 1)
    assert registry.get("/subjects/:.lkc-1:orders-value/versions").json() == [1]


def test_the_same_again_is_answered_and_anything_else_is_a_change(registry: httpx.Client) -> None:
    register(registry, "v")
    first = make(registry, {"subject": "v", "lifecycle": "STRONG", "schema": {"schema": USER}})

    again = make(registry, {"subject": "v", "lifecycle": "STRONG", "schema": {"schema": USER}})

    assert [first.status_code, again.status_code] == [200, 200]
    for other in ({"lifecycle": "WEAK"}, {"lifecycle": "STRONG", "schema": {"schema": NEWER}}):
        assert refusal(make(registry, {"subject": "v", **other})) == (409, 40903)
    register(registry, "w")
    another_id = {**body({"subject": "w"}), "resourceId": "another"}
    assert refusal(registry.post("/associations", json=another_id)) == (409, 40903)


def test_a_change_is_made_where_nothing_stands_against_it(registry: httpx.Client) -> None:
    register(registry, "v")
    make(registry, {"subject": "v"})

    strong = change(registry, {"lifecycle": "STRONG", "schema": {"schema": NEWER}})
    frozen = change(registry, {"frozen": True})

    assert strong.json()["associations"][0]["lifecycle"] == "STRONG"
    assert registry.get("/subjects/v/versions").json() == [1, 2]
    assert frozen.json()["associations"][0] == {
        "subject": "v",
        "associationType": "value",
        "lifecycle": "STRONG",
        "frozen": True,
    }
    assert refusal(change(registry, {"lifecycle": "WEAK", "frozen": False})) == (409, 40908)
    assert change(registry, {"frozen": True}).status_code == 200


def test_an_upsert_makes_what_is_not_there(registry: httpx.Client) -> None:
    register(registry, "v")

    assert change(registry, {"subject": "v"}).status_code == 200
    assert told(registry, "resources/orders-id") == [("orders", "v")]


def test_a_strong_association_has_its_subject_alone(registry: httpx.Client) -> None:
    for name in ("shared", "owned"):
        register(registry, name)
    make(registry, {"subject": "shared"}, name="one")
    make(registry, {"subject": "owned", "lifecycle": "STRONG"}, name="two")

    assert refusal(make(registry, {"subject": "shared", "lifecycle": "STRONG"}, name="three")) == (409, 40904)
    assert refusal(make(registry, {"subject": "owned"}, name="three")) == (409, 40905)


@pytest.mark.parametrize(
    ("change_of", "word"),
    [
        ({"associations": []}, "associations"),
        ({"associations": None}, "associations"),
        ({"resourceName": ""}, "resourceName"),
        ({"resourceNamespace": None}, "resourceNamespace"),
        ({"resourceId": "a\x00b"}, "resourceId"),
        ({"resourceName": "x" * 256}, "resourceName"),
        ({"resourceType": "table"}, "resourceType"),
        ({"associations": [{"associationType": "header", "subject": "v"}]}, "associationType"),
        ({"associations": [{"subject": "v"}, {"subject": "v"}]}, "associationType"),
        ({"associations": [{}]}, "subject"),
        ({"associations": [{"subject": ":.lab:", "lifecycle": "STRONG"}]}, "subject"),
        ({"associations": [{"subject": "v", "lifecycle": "WEAK", "frozen": True}]}, "frozen"),
        ({"associations": [{"subject": "v", "lifecycle": "WEAK", "schema": {"schema": USER}}]}, "lifecycle"),
    ],
)
def test_what_is_no_association_is_refused_by_the_name_of_its_field(
    registry: httpx.Client, change_of: dict[str, object], word: str
) -> None:
    register(registry, "v")

    answer = registry.post("/associations", json={**body({"subject": "v"}), **change_of})

    assert refusal(answer) == (422, 42212)
    assert answer.json()["message"].startswith(f"{word}: ")
    assert told(registry, "subjects/v") == []


def test_a_subject_must_have_a_schema_and_nothing_stays_of_one_that_has_none(registry: httpx.Client) -> None:
    assert refusal(make(registry, {"subject": "nothing"})) == (409, 40907)
    assert registry.get("/subjects", params={"deleted": True}).json() == []
    bad = make(registry, {"subject": "v", "schema": {"schema": USER}}, {"associationType": "key", "subject": "nothing"})
    assert refusal(bad) == (409, 40907)
    assert registry.get("/subjects").json() == []
    assert refusal(make(registry, {"subject": "v", "schema": {"schema": "{"}})) == (422, 42201)


def test_an_incompatible_schema_is_refused_with_its_reasons(registry: httpx.Client) -> None:
    register(registry, "v")

    answer = make(registry, {"subject": "v", "schema": {"schema": OTHER}})

    assert refusal(answer) == (409, 409)
    assert "string" in answer.json()["message"]


def test_a_try_changes_nothing(registry: httpx.Client) -> None:
    register(registry, "v")
    wanted = body({"associationType": "key", "schema": {"schema": USER}})
    without_id = {name: value for name, value in wanted.items() if name != "resourceId"}

    answers = [
        registry.post("/associations", params={"dryRun": True}, json=without_id),
        registry.put("/associations/resources/orders-id", params={"dryRun": True}, json=wanted),
    ]

    assert [answer.status_code for answer in answers] == [200, 200]
    assert registry.get("/subjects").json() == ["v"]
    assert told(registry, "resources/-/orders") == []
    make(registry, {"subject": "v"})
    tried = registry.delete("/associations/resources/orders-id", params={"dryRun": True})
    assert (tried.status_code, tried.content) == (204, b"")
    assert told(registry, "resources/-/orders") == [("orders", "v")]


def test_a_deletion_leaves_the_subject_unless_it_cascades(registry: httpx.Client) -> None:
    for name in ("shared", "owned"):
        register(registry, name)
    make(registry, {"associationType": "key", "subject": "shared"}, {"subject": "owned", "lifecycle": "STRONG"})
    gone = "/associations/resources/orders-id"

    registry.delete(gone, params={"associationType": "value"})
    assert told(registry, "resources/orders-id") == [("orders", "shared")]
    assert registry.get("/subjects").json() == ["owned", "shared"]
    make(registry, {"subject": "owned", "lifecycle": "STRONG", "frozen": True})
    assert refusal(registry.delete(gone)) == (409, 40908)
    schema_id = registry.get("/subjects/owned/versions/1").json()["id"]
    assert registry.get(f"/schemas/ids/{schema_id}").status_code == 200
    registry.delete("/subjects/shared")

    assert registry.delete(gone, params={"cascadeLifecycle": True}).status_code == 204
    assert registry.get("/subjects", params={"deleted": True}).json() == ["shared"]
    assert refusal(registry.delete(gone)) == (404, 40410)


def test_a_subject_that_topics_go_by_is_not_deleted(registry: httpx.Client) -> None:
    register(registry, "v")
    register(registry, "v", NEWER)
    make(registry, {"subject": "v"})

    assert refusal(registry.delete("/subjects/v")) == (409, 40904)
    assert registry.delete("/subjects/v/versions/1").json() == 1
    assert refusal(registry.delete("/subjects/v/versions/2")) == (409, 40904)
    registry.delete("/associations/resources/orders-id")
    assert registry.delete("/subjects/v").json() == [2]


def test_a_read_only_subject_gets_and_loses_no_association(registry: httpx.Client) -> None:
    register(registry, "v")
    make(registry, {"subject": "v"})
    registry.put("/mode/v", json={"mode": "READONLY"})

    assert refusal(make(registry, {"subject": "v"}, name="other")) == (422, 42205)
    assert refusal(registry.delete("/associations/resources/orders-id")) == (422, 42205)


def test_subjects_are_those_of_the_context_that_is_asked_for(registry: httpx.Client) -> None:
    register(registry, ":.lab:v")

    inside = registry.post("/contexts/.lab/associations", json=body({"subject": "v"}))
    asked = registry.post("/associations", params={"context": ".lab"}, json=body({"subject": "v"}, name="other"))

    assert [inside.status_code, asked.status_code] == [200, 200]
    assert told(registry, "subjects/:.lab:v") == [("orders", ":.lab:v"), ("other", ":.lab:v")]

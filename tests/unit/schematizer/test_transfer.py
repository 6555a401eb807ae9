"""Registries that are moved, service to service, by Confluent's protocol."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import httpx
import pytest
from tests.unit.schematizer.served import served
from tests.unit.schematizer.test_schematizer_app import ORDERS, register

from penstock.core.errors import PenstockError, UnavailableError
from penstock.schematizer.remote_registry import RemoteRegistry
from penstock.schematizer.transfer import transfer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def target(tmp_path: Path) -> Iterator[httpx.Client]:
    """A client of another empty registry."""
    with served(f"sqlite:///{tmp_path / 'target.db'}") as client:
        yield client


def put(client: httpx.Client, subject: str, name: str, size: int = 1, **more: Any) -> int:  # noqa: ANN401
    schema = {"type": "fixed", "name": name, "size": size}
    return put_schema(client, subject, schema, **more)


def put_schema(client: httpx.Client, subject: str, schema: object, **more: Any) -> int:  # noqa: ANN401
    path = f"/subjects/{quote(subject, safe='')}/versions"
    found: int = client.post(path, json={"schema": json.dumps(schema), **more}).raise_for_status().json()["id"]
    return found


def fill(client: httpx.Client) -> None:
    """Have what makes a transfer hard: references forth and back, deletions, gaps, schemas that came back, contexts."""
    client.put("/config", json={"compatibility": "NONE"})
    put(client, "gone", "Gone")
    put(client, "late", "Late")
    put(client, "late", "Late", 2)
    put(client, "described", "Described", metadata={"properties": {"a": "b"}})
    uses = [{"name": "Late", "subject": "late", "version": 1}]
    put_schema(
        client, "early", {"type": "record", "name": "E", "fields": [{"name": "f", "type": "Late"}]}, references=uses
    )
    client.delete("/subjects/early").raise_for_status()
    client.delete("/subjects/late/versions/1").raise_for_status()
    put(client, "late", "Late")
    put(client, "a/b%c é", "Slash")
    put(client, ":.lab:inside", "Inside")
    client.put("/config/:.lab:", json={"compatibility": "FULL"})
    client.put("/config/late", json={"compatibility": "FORWARD", "normalize": True, "compatibilityGroup": "major"})
    kinds = [{"subject": "late", "associationType": "value", "lifecycle": "STRONG", "frozen": True}]
    topic = {"resourceName": "members", "resourceNamespace": "lkc", "resourceId": "id-1", "associations": kinds}
    client.post("/associations", json=topic).raise_for_status()
    for permanent in ("false", "true"):
        client.delete("/subjects/gone", params={"permanent": permanent}).raise_for_status()
    register(client, "shopdb", ORDERS)
    client.put("/mode/late", json={"mode": "READONLY"}).raise_for_status()


def content(client: httpx.Client) -> object:
    return RemoteRegistry(client).read()


def test_a_registry_moves_with_ids_versions_references_deletions_and_settings(
    registry: httpx.Client, target: httpx.Client
) -> None:
    fill(registry)

    first = transfer(RemoteRegistry(registry), RemoteRegistry(target))
    again = transfer(RemoteRegistry(registry), RemoteRegistry(target))

    assert content(target) == content(registry)
    assert (first.written, first.there) == (9, 0)
    assert (again.written, again.there) == (0, 9)
    assert first.verified == again.verified == 8
    assert target.get("/subjects/late/versions?deleted=true").json() == [1, 2, 3]
    assert target.get("/mode/late").json() == {"mode": "READONLY"}
    assert target.get("/config/late").json() == registry.get("/config/late").json()
    (association,) = target.get("/associations/subjects/late").json()
    assert (association["resourceName"], association["frozen"]) == ("members", True)
    assert target.get("/mode/early").status_code == 404


class Interrupted(httpx.BaseTransport):
    """A connection that breaks for good after some changes."""

    def __init__(self, changes: int) -> None:
        self._real = httpx.HTTPTransport()
        self._left = changes

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.method != "GET":
            self._left -= 1
        if self._left < 0:
            message = "cut"
            raise httpx.ConnectError(message)
        return self._real.handle_request(request)

    def close(self) -> None:
        self._real.close()


@pytest.mark.nightly
def test_a_transfer_that_is_interrupted_again_and_again_goes_on(registry: httpx.Client, target: httpx.Client) -> None:
    fill(registry)
    interruptions = 0
    for changes in (1, 2, 3, 4, 5, 100):
        transport = Interrupted(changes)
        with httpx.Client(base_url=target.base_url, transport=transport) as breaking:
            try:
                transfer(RemoteRegistry(registry), RemoteRegistry(breaking))
            except UnavailableError:
                interruptions += 1

    assert interruptions == 5
    assert content(target) == content(registry)


def test_what_is_there_under_an_id_stays_and_is_told(registry: httpx.Client, target: httpx.Client) -> None:
    put(registry, "one", "One")
    put(registry, "two", "Two")
    put(target, "other", "Other")

    with pytest.raises(PenstockError, match="the id 1 is another schema's") as caught:
        transfer(RemoteRegistry(registry), RemoteRegistry(target))

    assert "one version 1" in caught.value.message
    assert target.get("/subjects/two/versions/1").json()["id"] == 2
    assert "Other" in target.get("/schemas/ids/1").json()["schema"]


def proto(comment: str) -> dict[str, str]:
    return {
        "schema": f'syntax = "proto3";\nmessage M {{\n  // {comment}\n  string a = 1;\n}}\n',
        "schemaType": "PROTOBUF",
    }


def json_object(*names: str) -> dict[str, str]:
    properties = {name: {"type": "string"} for name in names}
    return {"schema": json.dumps({"type": "object", "properties": properties}), "schemaType": "JSON"}


# What another registry tells apart, and this one does not: a comment, an order, a context.
TWINS = {
    ("p", 1): {**proto("one"), "id": 5},
    ("p", 2): {**proto("two"), "id": 6},
    ("j", 1): {**json_object("a", "b"), "id": 7},
    ("j", 2): {**json_object("b", "a"), "id": 9},
    (":.lab:p", 1): {**proto("one"), "id": 8},
    ("tagged", 1): {"schema": '"int"', "metadata": {"tags": {}}, "id": 10},
    ("tagged", 2): {"schema": '{"type": "int"}', "metadata": {"tags": {}}, "id": 11},
}


def confluent(request: httpx.Request) -> httpx.Response:
    """Answer as a registry that has TWINS, and nothing else."""
    parts = [unquote(part) for part in request.url.raw_path.decode().partition("?")[0].split("/")[1:]]
    match parts:
        case ["subjects"]:
            return httpx.Response(200, json=list(dict.fromkeys(subject for subject, _ in TWINS)))
        case ["subjects", subject, "versions"]:
            return httpx.Response(200, json=[version for each, version in TWINS if each == subject])
        case ["subjects", subject, "versions", version]:
            return httpx.Response(200, json=TWINS[subject, int(version)])
        case ["schemas", "ids", schema_id]:
            return httpx.Response(200, json=next(each for each in TWINS.values() if each["id"] == int(schema_id)))
        case _:
            return httpx.Response(404, json={"error_code": 40408})


def test_versions_that_differ_in_what_does_not_count_here_keep_their_ids(target: httpx.Client) -> None:
    with httpx.Client(base_url="http://other", transport=httpx.MockTransport(confluent)) as source:
        first = transfer(RemoteRegistry(source), RemoteRegistry(target))
        again = transfer(RemoteRegistry(source), RemoteRegistry(target))

    assert (first.written, first.verified, again.there) == (7, 7, 7)
    for (subject, version), kept in TWINS.items():
        path = f"/subjects/{quote(subject, safe='')}"
        body = {name: value for name, value in kept.items() if name != "id"}
        assert target.get(f"{path}/versions/{version}").json()["schema"] == kept["schema"]
        assert target.get(f"/schemas/ids/{kept['id']}").json()["schema"] == kept["schema"]
        assert target.post(path, json=body).raise_for_status().json()["id"] == kept["id"], "looked up by its text"
        assert target.post(f"{path}/versions", json=body).raise_for_status().json()["id"] == kept["id"]
    assert target.post("/subjects/p", json=proto("three")).json()["id"] == 5, "one that is not there word by word"


def test_a_twin_that_was_deleted_comes_back_by_its_id_alone(target: httpx.Client) -> None:
    with httpx.Client(base_url="http://other", transport=httpx.MockTransport(confluent)) as source:
        transfer(RemoteRegistry(source), RemoteRegistry(target))
        for permanently in ("false", "true"):
            target.delete("/subjects/j/versions/2", params={"permanent": permanently}).raise_for_status()
        target.put("/mode/k", json={"mode": "IMPORT"})

        refused = target.post("/subjects/k/versions", json={**proto("one"), "id": 9})
        again = transfer(RemoteRegistry(source), RemoteRegistry(target))

    assert "deleted for ever" in refused.json()["message"]
    assert (again.written, again.there, again.verified) == (1, 6, 7)


def settled(request: httpx.Request) -> httpx.Response:
    """Answer as a registry whose configs and modes are not all known here."""
    answers: dict[str, object] = {
        "/subjects": ["a", "b"],
        "/subjects/a/versions": [1],
        "/subjects/a/versions/1": {"id": 1, "schema": '"int"'},
        "/subjects/b/versions": [1],
        "/subjects/b/versions/1": {"id": 2, "schema": '"long"'},
        "/schemas/ids/1": {"schema": '"int"'},
        "/schemas/ids/2": {"schema": '"long"'},
        "/config": {"compatibilityLevel": "FULL", "normalize": False, "defaultRuleSet": None},
        "/config/b": {"alias": "a", "compatibilityLevel": "NONE", "normalize": True},
        "/mode": {"mode": "READWRITE"},
        "/mode/b": {"mode": "FORWARD"},
    }
    found = answers.get(request.url.path)
    return httpx.Response(404, json={"error_code": 40408}) if found is None else httpx.Response(200, json=found)


def test_what_the_target_does_not_act_on_is_told_and_all_else_goes_over(target: httpx.Client) -> None:
    with (
        httpx.Client(base_url="http://other", transport=httpx.MockTransport(settled)) as source,
        pytest.raises(PenstockError) as caught,
    ):
        transfer(RemoteRegistry(source), RemoteRegistry(target))

    assert "2 differences" in caught.value.message
    assert "b: `alias` of its config is None, and was a: " in caught.value.message
    assert "b: the mode is None, and was FORWARD: " in caught.value.message
    assert "does not act on alias" in caught.value.message
    assert target.get("/config").json() == {"compatibilityLevel": "FULL", "normalize": False}
    assert target.get("/config/b").json() == {"compatibilityLevel": "NONE", "normalize": True}
    for subject in ("a", "b"):
        assert target.get(f"/mode/{subject}").status_code == 404, "IMPORT mode is over"

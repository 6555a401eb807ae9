"""Subjects as Confluent's clients handle them: deleted, imported, locked, in contexts."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

import pytest

from penstock.core.avro.schemas import key_schema, value_schema
from penstock.core.tables import Column, IntegerType, TableId, TableSchema

if TYPE_CHECKING:
    import httpx

INT = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
LONG = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}
TEXT = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}
ORDERS = TableSchema(
    TableId("shop", "orders"), (Column("id", IntegerType(64, unsigned=False), nullable=False),), ("id",)
)


def post(registry: httpx.Client, subject: str, schema: object, **more: object) -> httpx.Response:
    return registry.post(f"/subjects/{subject}/versions", json={"schema": json.dumps(schema), **more})


def refusal(response: httpx.Response) -> tuple[int, int]:
    return response.status_code, response.json()["error_code"]


def test_a_deleted_version_is_gone_until_it_is_asked_for(registry: httpx.Client) -> None:
    schema_id = post(registry, "s", INT).json()["id"]
    post(registry, "s", LONG)

    assert registry.delete("/subjects/s/versions/1").json() == 1

    assert registry.get("/subjects/s/versions").json() == [2]
    assert registry.get("/subjects/s/versions?deleted=true").json() == [1, 2]
    assert registry.get("/subjects/s/versions?deletedOnly=true").json() == [1]
    assert refusal(registry.get("/subjects/s/versions/1")) == (404, 40402)
    assert registry.get("/subjects/s/versions/1?deleted=true").json()["deleted"] is True
    assert json.loads(registry.get(f"/schemas/ids/{schema_id}").json()["schema"]) == INT
    assert registry.get(f"/schemas/ids/{schema_id}/versions").json() == []
    assert registry.get(f"/schemas/ids/{schema_id}/versions?deleted=true").json() == [{"subject": "s", "version": 1}]


def test_a_version_that_comes_back_gets_its_id_and_a_new_number(registry: httpx.Client) -> None:
    first = post(registry, "s", INT).json()
    registry.delete("/subjects/s/versions/latest")

    again = post(registry, "s", INT).json()

    assert (again["id"], again["version"]) == (first["id"], 2)
    assert registry.get("/subjects/s/versions?deleted=true").json() == [1, 2]


def test_deletion_for_ever_comes_after_deletion(registry: httpx.Client) -> None:
    schema_id = post(registry, "s", INT).json()["id"]
    registry.get(f"/schemas/ids/{schema_id}")

    assert refusal(registry.delete("/subjects/s/versions/1?permanent=true")) == (404, 40407)
    assert refusal(registry.delete("/subjects/s?permanent=true")) == (404, 40405)
    assert registry.delete("/subjects/s").json() == [1]
    assert refusal(registry.delete("/subjects/s")) == (404, 40404)
    assert refusal(registry.delete("/subjects/s/versions/1")) == (404, 40406)
    assert registry.get("/subjects").json() == []
    assert registry.get("/subjects?deleted=true").json() == registry.get("/subjects?deletedOnly=true").json() == ["s"]
    assert registry.delete("/subjects/s?permanent=true").json() == [1]
    assert refusal(registry.delete("/subjects/s?permanent=true")) == (404, 40401)
    assert refusal(registry.get(f"/schemas/ids/{schema_id}")) == (404, 40403)
    assert post(registry, "s", INT).json()["id"] > schema_id, "messages may have the old one"


def test_a_schema_that_another_subject_has_outlives_a_subject(registry: httpx.Client) -> None:
    schema_id = post(registry, "s", INT).json()["id"]
    post(registry, "t", INT)

    registry.delete("/subjects/s")
    registry.delete("/subjects/s?permanent=true")

    assert registry.get(f"/schemas/ids/{schema_id}/subjects").json() == ["t"]


def test_deleted_versions_do_not_count_for_compatibility(registry: httpx.Client) -> None:
    post(registry, "s", INT)
    assert refusal(post(registry, "s", TEXT)) == (409, 409)

    registry.delete("/subjects/s/versions/1")

    assert post(registry, "s", TEXT).json()["version"] == 2


def test_what_a_table_registered_is_not_deleted(registry: httpx.Client) -> None:
    body = {"namespace": "x", "key_schema": key_schema(ORDERS), "value_schema": value_schema(ORDERS)}
    before = registry.post("/v1/tables", json=body).json()

    assert refusal(registry.delete("/subjects/x.shop.orders-value")) == (422, 42205)
    assert refusal(registry.delete("/subjects/x.shop.orders-key/versions/1")) == (422, 42205)
    assert registry.post("/v1/tables", json=body).json() == before


def test_a_guid_is_of_the_content_and_finds_it(registry: httpx.Client) -> None:
    first, second = post(registry, "s", INT).json(), post(registry, "t", LONG).json()

    assert first["guid"] != second["guid"]
    assert json.loads(registry.get(f"/schemas/guids/{first['guid']}").json()["schema"]) == INT
    assert registry.get(f"/schemas/guids/{first['guid']}/ids").json() == [{"context": ".", "id": first["id"]}]
    for unknown in (str(uuid.uuid4()), "x", "%25"):
        assert refusal(registry.get(f"/schemas/guids/{unknown}")) == (404, 40403)


def test_schemas_are_listed_as_is_asked_for(registry: httpx.Client) -> None:
    for subject, schema in (("a", INT), ("a", LONG), ("b", INT), (":.lab:a", INT)):
        post(registry, subject, schema)
    registry.delete("/subjects/b")

    def places(query: str) -> list[tuple[str, int]]:
        return [(each["subject"], each["version"]) for each in registry.get(f"/schemas?{query}").json()]

    assert places("") == [(":.lab:a", 1), ("a", 1), ("a", 2)]
    assert places("latestOnly=true") == [(":.lab:a", 1), ("a", 2)]
    assert places("subjectPrefix=a") == [("a", 1), ("a", 2)]
    assert places("subjectPrefix=:.lab:") == [(":.lab:a", 1)]
    assert places("deleted=true&subjectPrefix=b") == [("b", 1)]
    assert places("offset=1&limit=1") == [("a", 1)]


def test_metadata_and_rules_are_kept_found_and_handed_on(registry: httpx.Client) -> None:
    metadata = {"properties": {"owner": "ada", "stage": "1"}, "tags": {"R.a": ["PII"]}, "sensitive": ["owner"]}
    rules = {"domainRules": [{"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}]}

    plain = post(registry, "plain", INT).json()
    rich = post(registry, "rich", INT, metadata=metadata, ruleSet=rules).json()
    again = post(registry, "rich", INT).json()
    newer = post(registry, "rich", LONG).json()

    assert rich["id"] != plain["id"]
    assert again["id"] == rich["id"], "a client that sends no additions means the version with that text"
    assert (newer["metadata"], newer["ruleSet"]) == (metadata, rules)
    assert registry.get(f"/schemas/ids/{rich['id']}").json()["ruleSet"] == rules
    assert registry.get("/subjects/rich/metadata?key=owner&value=ada").json()["version"] == 2
    assert refusal(registry.get("/subjects/rich/metadata?key=owner&value=bob")) == (404, 40402)
    assert refusal(post(registry, "x", INT, ruleSet={"domainRules": [{"kind": "CONDITION"}]})) == (422, 42210)


def test_a_mode_keeps_a_subject_from_changes(registry: httpx.Client) -> None:
    known = post(registry, "s", INT).json()
    assert refusal(registry.get("/mode/s")) == (404, 40409)
    assert registry.put("/mode/s", json={"mode": "readonly"}).json() == {"mode": "READONLY"}

    assert post(registry, "s", INT).json() == known
    assert refusal(post(registry, "s", LONG)) == (422, 42205)
    assert refusal(registry.delete("/subjects/s")) == (422, 42205)
    assert refusal(registry.delete("/subjects/s/versions/1")) == (422, 42205)
    assert refusal(registry.put("/config/s", json={"compatibility": "NONE"})) == (422, 42205)
    assert post(registry, "t", LONG).status_code == 200
    assert registry.delete("/mode/s").json() == {"mode": "READONLY"}
    assert post(registry, "s", LONG).json()["version"] == 2
    assert refusal(registry.delete("/mode/s")) == (404, 40409)


def test_a_global_mode_holds_where_a_subject_has_none_and_an_override_everywhere(registry: httpx.Client) -> None:
    registry.put("/mode", json={"mode": "READONLY"})
    registry.put("/mode/s", json={"mode": "READWRITE"})

    assert refusal(post(registry, "t", INT)) == (422, 42205)
    assert post(registry, "s", INT).json()["version"] == 1
    registry.put("/mode", json={"mode": "READONLY_OVERRIDE"})
    assert refusal(post(registry, "s", LONG)) == (422, 42205)
    assert registry.get("/mode/t?defaultToGlobal=true").json() == {"mode": "READONLY_OVERRIDE"}
    assert refusal(registry.put("/mode", json={"mode": "SIDEWAYS"})) == (422, 42204)
    assert refusal(registry.put("/mode/s", json={"mode": "READONLY_OVERRIDE"})) == (422, 42204)


def test_imports_keep_ids_and_versions(registry: httpx.Client) -> None:
    assert refusal(post(registry, "s", INT, id=100, version=3)) == (422, 42205)
    registry.put("/mode/s", json={"mode": "IMPORT"})

    imported = post(registry, "s", INT, id=100, version=3).json()
    again = post(registry, "s", INT, id=100, version=3).json()
    post(registry, "s", TEXT, id=50)

    assert (imported["id"], imported["version"]) == (again["id"], again["version"]) == (100, 3)
    assert registry.get("/subjects/s/versions").json() == [3, 4]
    assert refusal(post(registry, "s", LONG, id=100)) == (422, 42205)
    assert refusal(post(registry, "s", LONG, id=101, version=3)) == (422, 42205)
    assert refusal(post(registry, "s", INT, id=7)) == (422, 42205)
    assert refusal(post(registry, "s", LONG)) == (422, 42205), "without an id"
    assert refusal(registry.get("/schemas/ids/101")) == (404, 40403), "a refused import leaves nothing"
    assert post(registry, "other", LONG).json()["id"] > 100, "ids go on behind those that came"


def test_an_import_brings_a_softly_deleted_version_back_and_puts_no_other_in_its_place(registry: httpx.Client) -> None:
    registry.put("/mode/s", json={"mode": "IMPORT"})
    post(registry, "s", INT, id=100, version=1).raise_for_status()
    registry.delete("/subjects/s").raise_for_status()
    registry.put("/mode/s?force=true", json={"mode": "IMPORT"}).raise_for_status()

    other = post(registry, "s", LONG, id=101, version=1)
    same = post(registry, "s", INT, id=100, version=1)

    assert refusal(other) == (422, 42205)
    assert (same.status_code, same.json()["id"], same.json()["version"]) == (200, 100, 1)
    assert registry.get("/subjects/s/versions").json() == [1]
    registry.delete("/subjects/s/versions/1").raise_for_status()
    assert post(registry, "s", INT, id=100, version=2).json()["version"] == 2
    assert refusal(post(registry, "s", INT, id=100, version=1)) == (422, 42205), "it is there as version 2"


def test_import_mode_is_for_what_is_empty_unless_forced(registry: httpx.Client) -> None:
    post(registry, "s", INT)

    assert refusal(registry.put("/mode/s", json={"mode": "IMPORT"})) == (422, 42205)
    assert refusal(registry.put("/mode", json={"mode": "IMPORT"})) == (422, 42205)
    assert registry.put("/mode/s?force=true", json={"mode": "IMPORT"}).json() == {"mode": "IMPORT"}


@pytest.mark.parametrize(
    ("level", "wider", "narrower"),
    [
        ("NONE", 200, 200),
        ("BACKWARD", 200, 409),
        ("BACKWARD_TRANSITIVE", 200, 409),
        ("FORWARD", 409, 200),
        ("FORWARD_TRANSITIVE", 409, 200),
        ("FULL", 409, 409),
        ("FULL_TRANSITIVE", 409, 409),
    ],
)
def test_every_level_is_kept(registry: httpx.Client, level: str, wider: int, narrower: int) -> None:
    for subject, first, then, status in (("up", INT, LONG, wider), ("down", LONG, INT, narrower)):
        post(registry, subject, first)
        registry.put(f"/config/{subject}", json={"compatibility": level})

        assert post(registry, subject, then).status_code == status

    assert registry.delete("/config/up").json() == {"compatibilityLevel": level}
    assert refusal(registry.delete("/config/up")) == (404, 40401)
    assert refusal(registry.get("/config/up")) == (404, 40408)
    assert registry.get("/config/up?defaultToGlobal=true").json() == {"compatibilityLevel": "BACKWARD"}


@pytest.mark.parametrize("level", ["BACKWARD", "FORWARD", "FULL"])
def test_transitive_levels_count_all_versions_and_others_the_newest(registry: httpx.Client, level: str) -> None:
    more = {"name": "R", "type": "record", "fields": [*INT["fields"], {"name": "b", "type": "int", "default": 0}]}
    registry.put("/config", json={"compatibility": "NONE"})
    for version in (TEXT, INT):
        assert post(registry, "s", version).status_code == 200

    tried = {}
    for name in (f"{level}_TRANSITIVE", level):
        registry.put("/config/s", json={"compatibility": name})
        tried[name] = post(registry, "s", more).status_code

    assert tried == {f"{level}_TRANSITIVE": 409, level: 200}


def test_configs_that_we_would_not_act_on_are_refused(registry: httpx.Client) -> None:
    response = registry.put("/config/s", json={"compatibility": "FULL", "alias": "other"})

    assert response.status_code == 422
    assert "alias" in response.json()["message"]
    assert "POST /associations" in response.json()["hint"]
    assert refusal(registry.get("/config/s")) == (404, 40408)


@pytest.mark.parametrize("place", ["/config/s", "/config"])
def test_schemas_are_compared_with_those_of_their_group_alone(registry: httpx.Client, place: str) -> None:
    def version(schema: object, major: str | None) -> dict[str, object]:
        return {
            "schema": json.dumps(schema),
            **({} if major is None else {"metadata": {"properties": {"major": major}}}),
        }

    def register(schema: object, major: str | None) -> int:
        return registry.post("/subjects/s/versions", json=version(schema, major)).status_code

    def fits(schema: object, major: str | None) -> bool:
        tried = registry.post("/compatibility/subjects/s/versions", json=version(schema, major))
        return tried.json()["is_compatible"] is True

    told = {"compatibility": "FULL_TRANSITIVE", "compatibilityGroup": "major"}
    assert registry.put(place, json=told).json() == told
    assert register(INT, "1") == 200

    assert (fits(TEXT, "1"), fits(TEXT, "2")) == (False, True)
    assert (register(TEXT, "1"), register(TEXT, "2"), register(TEXT, None)) == (409, 200, 200)
    assert (fits(INT, "2"), fits(INT, "1"), fits(INT, "3")) == (False, True, True)
    assert registry.get(f"{place}?defaultToGlobal=true").json()["compatibilityGroup"] == "major"
    assert registry.delete(place).json()["compatibilityGroup"] == "major"
    assert not fits(INT, "9")
    assert "compatibilityGroup" not in registry.get("/config").json()


def test_the_group_of_a_subject_comes_before_that_of_all_and_may_not_be_empty(registry: httpx.Client) -> None:
    registry.put("/config", json={"compatibilityGroup": "all"})
    registry.put("/config/s", json={"compatibilityGroup": "own"})

    assert registry.get("/config/s").json() == {"compatibilityGroup": "own"}
    assert registry.get("/config/t?defaultToGlobal=true").json()["compatibilityGroup"] == "all"
    assert registry.put("/config/s", json={"compatibilityGroup": ""}).status_code == 422


def test_the_global_level_can_be_forgotten(registry: httpx.Client) -> None:
    registry.put("/config", json={"compatibility": "FULL"})

    assert registry.delete("/config").json() == {"compatibilityLevel": "FULL"}
    assert registry.get("/config").json() == {"compatibilityLevel": "BACKWARD"}


def test_contexts_keep_subjects_apart_and_may_stand_in_front(registry: httpx.Client) -> None:
    post(registry, "s", INT)
    post(registry, ":.lab:s", TEXT)
    registry.put("/config/:.lab:", json={"compatibility": "NONE"})

    assert registry.get("/contexts").json() == [".", ".lab"]
    assert registry.get("/subjects").json() == [":.lab:s", "s"]
    assert registry.get("/contexts/.lab/subjects").json() == [":.lab:s"]
    assert json.loads(registry.get("/contexts/.lab/subjects/s/versions/1").json()["schema"]) == TEXT
    assert registry.get("/subjects/:.:s/versions/1").json()["subject"] == "s"
    assert post(registry, ":.lab:s", INT).json()["version"] == 2, "the context's level is NONE"
    assert refusal(post(registry, "s", TEXT)) == (409, 409)
    assert refusal(post(registry, ":.lab:", INT)) == (422, 42208)


@pytest.mark.parametrize("subject", ["a/b", "a/versions/1", "größe", "50%", "a%2Fb", ".", "a.b", "a b", "名前"])
def test_every_name_is_told_from_every_other(registry: httpx.Client, subject: str) -> None:
    quoted = "".join(f"%{byte:02X}" for byte in subject.encode())

    posted = post(registry, quoted, INT)

    assert posted.json()["subject"] == subject
    assert registry.get("/subjects").json() == [subject]
    assert registry.get(f"/subjects/{quoted}/versions/1").json()["subject"] == subject
    assert registry.put(f"/config/{quoted}", json={"compatibility": "FULL"}).status_code == 200
    assert registry.get(f"/config/{quoted}").json() == {"compatibilityLevel": "FULL"}
    assert registry.delete(f"/subjects/{quoted}").json() == [1]


@pytest.mark.parametrize("quoted", ["%00", "a%01b", "%0A", "x" * 256])
def test_names_that_cannot_be_are_refused(registry: httpx.Client, quoted: str) -> None:
    assert refusal(post(registry, quoted, INT)) == (422, 42208)
    assert registry.get("/subjects?deleted=true").json() == []


def test_a_version_is_tried_on_all_others(registry: httpx.Client) -> None:
    registry.put("/config/s", json={"compatibility": "FORWARD_TRANSITIVE"})
    post(registry, "s", LONG)
    post(registry, "s", INT)
    path = "/compatibility/subjects/{}/versions?verbose=true"

    fits = registry.post(path.format("s"), json={"schema": json.dumps(INT)}).json()
    does_not = registry.post(path.format("s"), json={"schema": json.dumps(LONG)}).json()
    first = registry.post(path.format("nobody"), json={"schema": json.dumps(LONG)}).json()

    assert fits == {"is_compatible": True, "messages": []}
    assert does_not == {"is_compatible": False, "messages": ["old reads new: a: long is not readable as int"]}
    assert first["is_compatible"] is True

"""Both faces of the service, in this process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.schematizer.served import served

from penstock.core.avro.schemas import key_schema, value_schema
from penstock.core.errors import UsageError
from penstock.core.tables import Column, IntegerType, TableId, TableSchema, TextType
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.registry.schemas import parse_schema
from penstock.schematizer.storage.database import open_database
from penstock.schematizer.storage.models import Model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

CONFLUENT = "application/vnd.schemaregistry.v1+json"
ORDERS = TableSchema(
    TableId("shop", "orders"),
    (
        Column("id", IntegerType(64, unsigned=False), nullable=False, declaration="bigint"),
        Column("note", TextType(64, "utf8mb4"), nullable=True, declaration="varchar(64)"),
    ),
    ("id",),
)
RECORD = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
WIDER = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    database = tmp_path_factory.mktemp("schematizer") / "schematizer.db"
    with served(f"sqlite:///{database}") as opened:
        yield opened


def register(client: httpx.Client, namespace: str, table: TableSchema = ORDERS) -> httpx.Response:
    body = {"namespace": namespace, "key_schema": key_schema(table), "value_schema": value_schema(table)}
    return client.post("/v1/tables", json=body)


def post(client: httpx.Client, path: str, schema: object) -> httpx.Response:
    return client.post(path, content=json.dumps({"schema": json.dumps(schema)}), headers={"Content-Type": CONFLUENT})


def test_a_registered_table_is_found_by_every_route(client: httpx.Client) -> None:
    registered = register(client, "everywhere").json()

    topic, value_id = registered["topic"], registered["value_schema_id"]
    assert topic == "everywhere.shop.orders"
    assert "everywhere" in {each["name"] for each in client.get("/v1/namespaces").json()["items"]}
    assert client.get("/v1/sources?namespace=everywhere").json()["items"][0]["table"] == "shop.orders"
    assert [each["name"] for each in client.get("/v1/topics?namespace=everywhere").json()["items"]] == [topic]
    assert client.get(f"/v1/topics/{topic}").json()["key_fields"] == ["id"]
    found = client.get(f"/v1/topics/{topic}/schemas").json()["items"]
    assert [each["kind"] for each in found] == ["key", "value"]
    assert client.get(f"/v1/schemas/{value_id}").json()["schema"] == value_schema(ORDERS)
    assert client.get(f"/schemas/ids/{value_id}").json()["schema"] == value_schema(ORDERS)
    assert client.get(f"/subjects/{topic}-value/versions/latest").json()["id"] == value_id


def test_a_create_table_registers_the_same_table(client: httpx.Client) -> None:
    by_schema = register(client, "statement").json()

    by_statement = client.post(
        "/v1/schemas/mysql",
        json={
            "namespace": "statement",
            "create_table": "CREATE TABLE shop.orders (id BIGINT NOT NULL PRIMARY KEY, note VARCHAR(64))",
        },
    ).json()

    assert by_statement == by_schema


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ({"namespace": "x"}, "invalid_request", "body.value_schema: Field required"),
        ({"namespace": "", "key_schema": None, "value_schema": "{}"}, "invalid_request", "body.namespace"),
        ({"namespace": "a\nb", "key_schema": None, "value_schema": "{}"}, "invalid_request", "body.namespace"),
        ({"namespace": "x", "key_schema": None, "value_schema": "{"}, "invalid_schema", "line 1, column 2"),
        ({"namespace": "x", "key_schema": None, "value_schema": '"string"'}, "invalid_table", "Penstock"),
        ({"namespace": "x", "key_schema": None, "value_schema": value_schema(ORDERS)}, "invalid_table", "primary key"),
        ({"namespace": "x", "key_schema": None, "value_schema": "[" * 100_000}, "invalid_schema", "deeply"),
        ({"namespace": "x", "key_schema": None, "value_schema": "x" * (1 << 21)}, "invalid_schema", "longer than"),
    ],
)
def test_a_registration_that_makes_no_sense_is_refused_with_the_reason(
    client: httpx.Client, body: dict[str, str], code: str, message: str
) -> None:
    response = client.post("/v1/tables", json=body)

    assert (response.status_code, response.json()["code"]) == (422, code)
    assert message in response.json()["message"]
    assert response.json()["hint"]


@pytest.mark.parametrize(
    ("method", "path", "status", "number", "code"),
    [
        ("GET", "/v1/topics/nope", 404, 404, "unknown_topic"),
        ("GET", "/v1/topics/nope/schemas", 404, 404, "unknown_topic"),
        ("GET", "/v1/schemas/999999", 404, 40403, "unknown_schema"),
        ("GET", "/v1/schemas/99999999999999999999999", 404, 40403, "unknown_schema"),
        ("GET", "/v1/nope", 404, 404, "unknown_route"),
        ("GET", "/associations/nowhere/-/topic", 404, 404, "unknown_route"),
        ("GET", "/schemas/ids/-1", 404, 40403, "unknown_schema"),
        ("GET", "/schemas/ids/x", 422, 422, "invalid_request"),
        ("GET", "/schemas/ids/999999/versions", 404, 40403, "unknown_schema"),
        ("GET", "/subjects/nope/versions", 404, 40401, "unknown_subject"),
        ("GET", "/subjects/nope/versions/1", 404, 40401, "unknown_subject"),
        ("GET", "/config/nope", 404, 40408, "no_level_of_its_own"),
        ("DELETE", "/subjects/nope", 404, 40401, "unknown_subject"),
        ("DELETE", "/schemas/types", 405, 405, "method_not_allowed"),
    ],
)
def test_every_error_has_one_form(
    client: httpx.Client, method: str, path: str, status: int, number: int, code: str
) -> None:
    response = client.request(method, path)

    assert response.status_code == status
    assert set(response.json()) == {"error_code", "code", "message", "hint"}
    assert (response.json()["error_code"], response.json()["code"]) == (number, code)
    own_face = path.startswith("/v1")
    assert response.headers["content-type"] == ("application/json" if own_face else CONFLUENT)


def test_a_registered_schema_keeps_its_id_in_every_subject(client: httpx.Client) -> None:
    first = post(client, "/subjects/one/versions", RECORD)
    again = post(client, "/subjects/one/versions", RECORD)
    elsewhere = post(client, "/subjects/two/versions", json.loads(json.dumps(RECORD, sort_keys=True)))

    assert first.json() == again.json()
    assert elsewhere.json()["id"] == first.json()["id"]
    assert first.headers["content-type"] == CONFLUENT
    places = client.get(f"/schemas/ids/{first.json()['id']}/versions").json()
    assert places == [{"subject": "one", "version": 1}, {"subject": "two", "version": 1}]
    assert client.get(f"/schemas/ids/{first.json()['id']}/subjects").json() == ["one", "two"]
    assert client.get("/subjects?subjectPrefix=tw").json() == ["two"]


def test_an_incompatible_version_is_refused_at_the_level_that_holds(client: httpx.Client) -> None:
    post(client, "/subjects/levels/versions", WIDER)

    refused = post(client, "/subjects/levels/versions", RECORD)
    assert (refused.status_code, refused.json()["error_code"]) == (409, 409)
    assert "a: long is not readable as int" in refused.json()["message"]
    assert client.put("/config/levels", json={"compatibility": "forward"}).json() == {"compatibility": "FORWARD"}
    assert client.get("/config/levels").json() == {"compatibilityLevel": "FORWARD"}
    assert post(client, "/subjects/levels/versions", RECORD).json()["version"] == 2
    assert client.get("/subjects/levels/versions").json() == [1, 2]


def test_a_schema_can_be_tried_before_it_is_registered(client: httpx.Client) -> None:
    post(client, "/subjects/tried/versions", RECORD)

    fits = post(client, "/compatibility/subjects/tried/versions/latest", WIDER).json()
    does_not = post(client, "/compatibility/subjects/tried/versions/1?verbose=True", "string").json()

    assert fits["is_compatible"] is True
    assert does_not["is_compatible"] is False
    assert does_not["messages"] == ["new reads old: record R is not readable as string"]
    assert client.get("/subjects/tried/versions").json() == [1]


def test_the_global_level_holds_where_a_subject_has_none(client: httpx.Client) -> None:
    assert client.get("/config").json() == {"compatibilityLevel": "BACKWARD"}

    assert client.put("/config", json={"compatibility": "FULL"}).json() == {"compatibility": "FULL"}

    post(client, "/subjects/global/versions", RECORD)
    assert post(client, "/subjects/global/versions", WIDER).status_code == 409
    assert client.get("/config/global?defaultToGlobal=true").json() == {"compatibilityLevel": "FULL"}
    client.put("/config", json={"compatibility": "BACKWARD"})
    refused = client.put("/config", json={"compatibility": "SIDEWAYS"})
    assert (refused.status_code, refused.json()["error_code"]) == (422, 42203)


def test_a_lookup_finds_only_what_is_registered(client: httpx.Client) -> None:
    post(client, "/subjects/looked-up/versions", RECORD)

    assert post(client, "/subjects/looked-up", RECORD).json()["version"] == 1
    assert post(client, "/subjects/looked-up", WIDER).json()["error_code"] == 40403
    assert post(client, "/subjects/nobody", RECORD).json()["error_code"] == 40401


@pytest.mark.parametrize(
    ("version", "number"), [("0", 42202), ("x", 42202), ("-2", 42202), ("²", 42202), ("7", 40402), ("9" * 400, 40402)]
)
def test_a_version_that_is_not_there_is_told_from_one_that_cannot_be(
    client: httpx.Client, version: str, number: int
) -> None:
    post(client, "/subjects/versions/versions", RECORD)

    assert client.get(f"/subjects/versions/versions/{version}").json()["error_code"] == number


def test_what_this_release_would_lose_is_refused(client: httpx.Client) -> None:
    refused: list[dict[str, object]] = [
        {"schemaType": "XML"},
        {"references": [{"name": "x", "subject": "nowhere", "version": 1}]},
    ]
    for more in refused:
        response = client.post("/subjects/more/versions", json={"schema": '"string"', **more})

        assert (response.status_code, response.json()["error_code"]) == (422, 42201)
    assert client.get("/subjects/more/versions").status_code == 404


@pytest.mark.parametrize("subject", ["a/b", "größe", "50%", "a b", "ü" * 255])
def test_subjects_may_have_any_printable_name(client: httpx.Client, subject: str) -> None:

    path = f"/subjects/{quote(subject, safe='')}/versions"

    assert post(client, path, RECORD).json()["version"] == 1
    assert client.get(path).json() == [1]
    assert subject in client.get("/subjects").json()


@pytest.mark.parametrize("subject", ["%00", "a%09b", "x" * 256])
def test_other_names_of_subjects_are_refused(client: httpx.Client, subject: str) -> None:
    assert post(client, f"/subjects/{subject}/versions", RECORD).status_code == 422


def test_modes_and_types_are_told(client: httpx.Client) -> None:
    assert client.get("/mode").json() == {"mode": "READWRITE"}
    assert client.get("/schemas/types").json() == ["AVRO", "JSON", "PROTOBUF"]


def test_a_foreign_version_on_a_tables_subject_is_held_to_the_tables_rule(client: httpx.Client) -> None:
    register(client, "strict")

    refused = post(client, "/subjects/strict.shop.orders-value/versions", RECORD)

    assert refused.status_code == 409
    assert client.get("/config/strict.shop.orders-value").json() == {"compatibilityLevel": "FULL_TRANSITIVE"}


def test_openapi_describes_every_route(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()

    assert {"/v1/tables", "/v1/topics/{name}/schemas", "/subjects/{subject}/versions"} <= set(document["paths"])
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    assert all(operation["summary"] and operation["description"] for operation in operations)
    assert "schema" in document["components"]["schemas"]["TopicSchemaAnswer"]["properties"]


def test_the_migrations_make_the_tables_that_the_models_expect(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'new.db'}")

    with database.engine.connect() as connection:
        difference = compare_metadata(MigrationContext.configure(connection), Model.metadata)

    database.close()
    assert difference == []


@pytest.mark.parametrize("url", ["nonsense", "oracle9://x/y", "sqlite://", "sqlite:///:memory:"])
def test_a_database_url_that_cannot_work_is_a_usage_error(url: str) -> None:
    with pytest.raises(UsageError):
        open_database(url)


def test_a_database_that_goes_away_is_told_as_503(tmp_path: Path) -> None:
    file = tmp_path / "schematizer.db"
    with served(f"sqlite:///{file}") as client:
        register(client, "gone")
        for each in tmp_path.iterdir():
            each.write_bytes(b"no database any more")

        response = client.get("/v1/namespaces")

    assert (response.status_code, response.json()["code"]) == (503, "database_unavailable")


KEYS = st.sampled_from(["type", "name", "namespace", "fields", "items", "values", "symbols", "default", "logicalType"])
LEAVES = st.one_of(
    st.sampled_from(["int", "string", "null", "record", "enum", "fixed", "array", "map", "a", "b.c", "decimal", "a-b"]),
    st.integers(-2, 40),
    st.none(),
    st.booleans(),
)
NEARLY_SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(KEYS, inner, max_size=5),
        st.fixed_dictionaries(
            {"type": st.sampled_from(["record", "enum", "fixed", "array", "map", "bytes", "int"])},
            optional={
                "name": st.sampled_from(["a", "b", "c.d"]),
                "fields": st.lists(
                    st.fixed_dictionaries(
                        {"name": st.sampled_from("xyz"), "type": inner}, optional={"default": inner, "aliases": inner}
                    ),
                    max_size=3,
                ),
                "items": inner,
                "values": inner,
                "symbols": st.lists(st.sampled_from("AB")),
                "size": inner,
                "precision": inner,
                "scale": inner,
                "logicalType": st.sampled_from(["decimal", "uuid", "date"]),
            },
        ),
    ),
    max_leaves=15,
)


@settings(max_examples=5 * settings().max_examples, suppress_health_check=[HealthCheck.too_slow])
@given(NEARLY_SCHEMAS)
def test_nearly_a_schema_is_taken_or_refused_and_never_a_crash(declared: object) -> None:
    try:
        parse_schema(json.dumps(declared))
    except RefusedError as error:
        assert error.code is Code.INVALID_SCHEMA  # noqa: PT017 - either outcome is right


def test_what_was_said_of_a_subject_before_its_table_came_keeps_no_name_from_it(registry: httpx.Client) -> None:
    registry.put("/config/shopdb.shop.orders-value", json={"compatibility": "FULL"}).raise_for_status()
    registry.put("/mode/shopdb.shop.orders-key", json={"mode": "READWRITE"}).raise_for_status()
    post(registry, "/subjects/other.shop.orders-value/versions", RECORD).raise_for_status()
    registry.delete("/subjects/other.shop.orders-value").raise_for_status()
    deleted_softly = register(registry, "other").json()["topic"]
    post(registry, "/subjects/third.shop.orders-value/versions", RECORD).raise_for_status()
    for permanently in ("false", "true"):
        registry.delete("/subjects/third.shop.orders-value", params={"permanent": permanently}).raise_for_status()

    topics = [register(registry, namespace).json()["topic"] for namespace in ("shopdb", "third")]

    assert topics == ["shopdb.shop.orders", "third.shop.orders"]
    assert deleted_softly != "other.shop.orders", "its versions can be asked for"
    assert registry.get("/config/shopdb.shop.orders-value").json() == {"compatibilityLevel": "FULL"}
    assert registry.get("/config/shopdb.shop.orders-key").json() == {"compatibilityLevel": "FULL_TRANSITIVE"}
    refused = registry.delete("/subjects/shopdb.shop.orders-value")
    assert (refused.status_code, refused.json()["error_code"]) == (422, 42205), "it is the table's"
    assert register(registry, "shopdb").json()["topic"] == "shopdb.shop.orders"

"""Answers that are given without the routes are the routes' own, and no older than the question."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING
from unittest.mock import ANY

import pytest
from sqlalchemy import create_engine, text
from starlette.middleware import Middleware
from tests.unit.schematizer.served import served
from tests.unit.schematizer.test_schematizer_app import ORDERS

from penstock.core.avro.schemas import key_schema, value_schema
from penstock.core.tables import Column, IntegerType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import httpx
    from starlette.types import ASGIApp, Receive, Scope, Send

    from penstock.core.tables import TableSchema

USER = {"schema": json.dumps({"type": "record", "name": "User", "fields": [{"name": "a", "type": "int"}]})}
NEWER = {
    "schema": json.dumps(
        {
            "type": "record",
            "name": "User",
            "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "int", "default": 0}],
        }
    )
}
WIDER = replace(ORDERS, columns=(*ORDERS.columns, Column("n", IntegerType(32, unsigned=False), nullable=True)))
NARROWER = replace(ORDERS, columns=(replace(ORDERS.columns[0], type=IntegerType(32, unsigned=False)),))


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'schematizer.db'}"


class Noted:
    """Notes the paths of the requests that go on to the routes."""

    def __init__(self, app: ASGIApp, paths: list[str]) -> None:
        self.app = app
        self.paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self.paths.append(scope["path"])
        await self.app(scope, receive, send)


@pytest.fixture
def routed() -> list[str]:
    """The paths of the requests that went on to the routes."""
    return []


@pytest.fixture
def registry(database_url: str, routed: list[str]) -> Iterator[httpx.Client]:
    with served(database_url, inner=[Middleware(Noted, paths=routed)]) as client:
        yield client


def post(client: httpx.Client, subject: str, body: object) -> httpx.Response:
    return client.post(f"/subjects/{subject}/versions", json=body)


def post_table(client: httpx.Client, table: TableSchema) -> httpx.Response:
    body = {"namespace": "n", "key_schema": key_schema(table), "value_schema": value_schema(table)}
    return client.post("/v1/tables", json=body)


def same(one: httpx.Response, other: httpx.Response) -> bool:
    """Tell whether two answers are the same, to the byte."""
    wanted = ("content-type", "content-length")
    return (one.status_code, one.content, [one.headers[name] for name in wanted]) == (
        other.status_code,
        other.content,
        [other.headers[name] for name in wanted],
    )


def test_the_third_registration_is_answered_like_the_second_without_its_route(
    routed: list[str], registry: httpx.Client
) -> None:
    asks: list[Callable[[], httpx.Response]] = [
        lambda: post(registry, "u-value", USER),
        lambda: post_table(registry, ORDERS),
    ]
    for ask in asks:
        routed.clear()

        first, second, third = ask(), ask(), ask()

        assert len(routed) == 2
        assert first.json() == second.json()
        assert same(second, third)


def test_a_schema_is_answered_without_its_route_once_it_was_asked_for(
    routed: list[str], registry: httpx.Client
) -> None:
    schema_id = post(registry, "u-value", USER).json()["id"]
    asked = f"/schemas/ids/{schema_id}"
    first = registry.get(asked)
    routed.clear()

    again = [registry.get(asked), registry.get(asked, params={"subject": "u-value", "fetchMaxId": "false"})]

    assert routed == []
    assert all(same(first, each) for each in again)
    assert registry.get(asked, params={"fetchMaxId": "true"}).json()["maxId"] == schema_id
    assert registry.get(asked, params={"fetchMaxId": "perhaps"}).status_code == 422
    assert registry.get("/schemas/ids/%31%32%33").status_code == 404
    assert registry.get("/schemas/ids/99999999999999999999").status_code == 404


def test_what_another_service_deletes_is_not_known_any_more(database_url: str, registry: httpx.Client) -> None:
    with served(database_url) as other:
        number = [post(registry, "u-value", USER).json()["version"] for _ in range(3)][-1]

        other.delete("/subjects/u-value")

        answer = post(registry, "u-value", USER).json()
        assert (number, answer["version"]) == (1, 2)


def test_a_version_that_comes_back_is_answered_with_its_new_number(registry: httpx.Client) -> None:
    numbers = []
    for _ in range(3):
        numbers += [post(registry, "u-value", USER).json()["version"] for _ in range(3)]
        registry.delete("/subjects/u-value/versions/latest")

    assert numbers == [1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_a_table_that_went_on_is_not_sent_back(database_url: str, registry: httpx.Client) -> None:
    first = [post_table(registry, ORDERS).json() for _ in range(3)][-1]
    with served(database_url) as other:
        second = post_table(other, NARROWER).json()

    third = post_table(registry, ORDERS).json()

    assert [each["topic"] for each in (first, second, third)] == ["n.shop.orders", *2 * [ANY]]
    assert third["follows"] == second["topic"]
    assert second["follows"] == first["topic"]


def test_a_compatible_change_does_not_make_the_shape_before_unknown(registry: httpx.Client) -> None:
    first = [post_table(registry, ORDERS).json() for _ in range(3)][-1]
    post_table(registry, WIDER)

    assert post_table(registry, ORDERS).json() == first


def test_a_schema_that_is_disabled_is_not_known_any_more(database_url: str, registry: httpx.Client) -> None:
    for _ in range(3):
        post(registry, "u-value", USER)
        post_table(registry, ORDERS)
    engine = create_engine(database_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE subject_versions SET status = 'disabled'"))
    engine.dispose()

    assert post(registry, "u-value", USER).status_code == 409
    assert post_table(registry, ORDERS).json()["follows"] == "n.shop.orders"


def test_a_text_alone_means_the_newest_version_with_it(registry: httpx.Client) -> None:
    def rich(number: str) -> dict[str, object]:
        return {**USER, "metadata": {"properties": {"number": number}}}

    post(registry, "u-value", rich("one"))
    told = [post(registry, "u-value", USER).json()["version"] for _ in range(3)]
    post(registry, "u-value", rich("two"))

    assert [*told, post(registry, "u-value", USER).json()["version"]] == [1, 1, 1, 2]


def test_the_newest_version_of_what_is_used_is_looked_up_each_time(registry: httpx.Client) -> None:
    def uses() -> httpx.Response:
        fields = [{"name": "u", "type": "User"}]
        schema = json.dumps({"type": "record", "name": "Team", "fields": fields})
        reference = {"name": "User", "subject": "u-value", "version": -1}
        return post(registry, "t-value", {"schema": schema, "references": [reference]})

    post(registry, "u-value", USER)
    told = [uses().json()["references"][0]["version"] for _ in range(3)]
    post(registry, "u-value", NEWER)

    assert [*told, uses().json()["references"][0]["version"]] == [1, 1, 1, 2]


def test_subjects_and_contexts_are_not_mixed_up(registry: httpx.Client) -> None:
    names = [f"/subjects/{name}/versions" for name in ("a%2Fb", "a", ":.c:a")] + ["/contexts/.c/subjects/d/versions"]

    told = [[registry.post(path, json=USER).json()["subject"] for _ in range(3)] for path in names]

    assert told == [3 * [name] for name in ("a/b", "a", ":.c:a", ":.c:d")]


def test_bad_bodies_are_refused_by_the_route_as_often_as_they_come(registry: httpx.Client) -> None:
    post(registry, "u-value", USER)
    content = json.dumps(USER)
    for _ in range(3):
        registry.post("/subjects/u-value/versions", content=content, headers={"content-type": "application/json"})
        told = registry.post("/subjects/u-value/versions", content=content, headers={"content-type": "text/plain"})
        assert told.status_code == 422
        assert registry.post("/subjects/u-value/versions", content="{").status_code == 422


def test_many_callers_at_once_get_their_own_answers(registry: httpx.Client) -> None:
    def ask(number: int) -> tuple[int, str]:
        schema = {"schema": json.dumps({"type": "enum", "name": f"E{number % 7}", "symbols": ["A"]})}
        return number % 7, post(registry, f"e{number % 7}", schema).json()["subject"]

    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(ask, range(200)))

    assert all(subject == f"e{number}" for number, subject in told)


def test_a_body_that_comes_in_pieces_is_put_together(registry: httpx.Client) -> None:
    whole = json.dumps(USER).encode()
    headers = {"content-type": "application/json", "content-length": str(len(whole))}

    told = [
        registry.post("/subjects/u-value/versions", content=iter([whole[:10], whole[10:]]), headers=headers).json()
        for _ in range(4)
    ]

    assert [each["version"] for each in told] == [1, 1, 1, 1]

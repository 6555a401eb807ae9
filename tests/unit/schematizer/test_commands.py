"""`penstock schematizer show` and `document`, against a service in this process."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.unit.schematizer.served import served
from tests.unit.schematizer.test_schematizer_app import ORDERS, register
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx
    from typer.testing import Result

HOSTILE = "a/b%2F c.[red]d[/]?#é"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    database = tmp_path_factory.mktemp("commands") / "schematizer.db"
    with served(f"sqlite:///{database}") as opened:
        yield opened


def run(client: httpx.Client, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["schematizer", *arguments, "--url", str(client.base_url)])


def told(client: httpx.Client, *arguments: str) -> str:
    result = run(client, *arguments)
    assert result.exit_code == 0, result.output
    return str(result.stdout)


def refused(client: httpx.Client, exit_code: int, *arguments: str) -> str:
    result = run(client, *arguments)
    assert result.exit_code == exit_code, result.output
    return str(result.stderr)


def source(client: httpx.Client, namespace: str) -> dict[str, object]:
    found: dict[str, object] = client.get(f"/v1/sources/{namespace}/shop/orders").json()
    return found


def test_show_tells_topics_a_topic_a_table_a_namespace_and_a_schema(client: httpx.Client) -> None:
    schema_id = register(client, "shown").json()["value_schema_id"]

    topics, topic = told(client, "show"), told(client, "show", "shown.shop.orders")
    table = told(client, "show", "--table", "shop.orders", "--namespace", "shown")
    namespace = told(client, "show", "--namespace", "shown")
    schema = told(client, "show", "--schema", str(schema_id))

    assert "shown.shop.orders" in topics
    assert "nobody yet" in topics
    assert "value version 1" in topic
    assert '"penstock.key"' in topic
    assert "varchar(64)" in table
    assert "0 %: 0 of 1 tables, 0 of 2 columns" in namespace
    assert "value version 1 of shown.shop.orders-value" in schema


def test_show_prints_json_with_the_names_of_the_api(client: httpx.Client) -> None:
    schema_id = register(client, "json").json()["value_schema_id"]

    table = json.loads(told(client, "show", "--table", "shop.orders", "--namespace", "json", "--json"))
    topic = json.loads(told(client, "show", "json.shop.orders", "--json"))
    namespace = json.loads(told(client, "show", "--namespace", "json", "--json"))
    schema = json.loads(told(client, "show", "--schema", str(schema_id), "--json"))
    topics = json.loads(told(client, "show", "--json"))

    assert [each["name"] for each in table["elements"]] == ["id", "note"]
    assert [each["name"] for each in table["topics"]] == ["json.shop.orders"]
    assert [each["kind"] for each in topic["schemas"]] == ["key", "value"]
    assert namespace["coverage"]["sources"] == 1
    assert schema["elements"][0]["path"] == "id"
    assert "json.shop.orders" in {each["name"] for each in topics}


def test_names_of_any_kind_are_asked_for_and_shown_as_they_are(client: httpx.Client) -> None:
    registered = register(client, HOSTILE, replace(ORDERS, table=TableId(HOSTILE, HOSTILE)))
    assert registered.status_code == 200, registered.text

    shown = told(client, "show", "--namespace", HOSTILE)
    told(client, "document", f"{HOSTILE}.{HOSTILE}", "--namespace", HOSTILE, "--doc", "\x1b[31m red")
    table = told(client, "show", "--table", f"{HOSTILE}.{HOSTILE}", "--namespace", HOSTILE)

    assert f"{HOSTILE}.{HOSTILE}" in shown
    assert "\x1b" not in table
    assert "\ufffd[31m red" in table


def test_document_says_what_a_table_and_a_column_mean_once(client: httpx.Client) -> None:
    register(client, "said")
    table = ("shop.orders", "--namespace", "said", "--author", "Ada Größe")

    first = told(client, "document", *table, "--doc", " Orders\n", "--owner", "ada@example.com", "--category", "sales")
    column = told(client, "document", *table, "--column", "note", "--doc", "remarks", "--pii")
    again = told(client, "document", *table, "--doc", "Orders", "--owner", "ada@example.com", "--category", "sales")

    assert 'changed said: shop.orders: owner_email from nothing to "ada@example.com"' in first
    assert "column note: contains_pii from nothing to yes" in column
    assert again == "nothing changes: the registry says so already\n"
    found = source(client, "said")
    assert (found["doc"], found["owner_email"], found["category"]) == ("Orders", "ada@example.com", "sales")
    history = client.get("/v1/history", params={"namespace": "said"}).json()["items"]
    assert {each["author"] for each in history} == {"Ada Größe"}
    assert len(history) == 5


def test_a_file_documents_many_at_once_and_only_what_differs(client: httpx.Client, tmp_path: Path) -> None:
    register(client, "many")
    register(client, "more")
    file = tmp_path / "docs.yml"
    file.write_text(
        """
many:
  shop.orders:
    owner: ada@example.com
    doc: |
      One row
      for each order
    columns:
      id: Counts up
      note: {doc: remarks, pii: true}
more:
  shop.orders: {category: sales}
"""
    )

    dry = told(client, "document", "--from", str(file), "--dry-run")
    before = source(client, "many")["doc"]
    first = told(client, "document", "--from", str(file))
    again = told(client, "document", "--from", str(file))
    machine = json.loads(told(client, "document", "--from", str(file), "--json"))

    assert dry.count("would change") == first.count("changed ") == 6
    assert before == ""
    assert source(client, "many")["doc"] == "One row\nfor each order"
    assert source(client, "more")["category"] == "sales"
    assert "nothing changes" in again
    assert machine == {"changed": True, "changes": []}


def test_a_file_with_a_wrong_name_changes_nothing(client: httpx.Client, tmp_path: Path) -> None:
    register(client, "whole")
    file = tmp_path / "docs.yml"
    file.write_text("whole:\n  shop.orders: {doc: Orders, columns: {none: x}}\n  shop.none: {doc: x}\n")

    words = refused(client, 1, "document", "--from", str(file))

    assert "nothing was changed" in words
    assert "whole: shop.orders: it has no column none" in words
    assert "there is no table shop.none" in words
    assert source(client, "whole")["doc"] == ""


@pytest.mark.parametrize(
    ("text", "mistakes"),
    [
        ("a:\n  b.c: {own: x}\n", ["line 2: a.b.c.own: unknown key (known here: owner, category, doc, columns)"]),
        ("a:\n  b.c:\n    doc: 7\n", ["line 3: a.b.c.doc: should be text"]),
        ("a:\n  b.c:\n    columns:\n      d: {pii: maybe}\n", ["line 4: a.b.c.columns.d.pii: should be true or false"]),
        ("- a\n", ["line 1: should be a mapping"]),
        ("", ["line 1: should be a mapping"]),
        ("a: [\n", ["not valid YAML"]),
        ("a:\n  b.c: {doc: x, doc: y}\n", ["key is there twice"]),
    ],
)
def test_every_mistake_of_a_file_is_told_with_its_line(
    client: httpx.Client, tmp_path: Path, text: str, mistakes: list[str]
) -> None:
    file = tmp_path / "docs.yml"
    file.write_text(text)

    words = refused(client, 2, "document", "--from", str(file))

    assert all(mistake in words for mistake in mistakes), words


def test_missing_lists_what_nobody_documented(client: httpx.Client) -> None:
    register(client, "lacking")
    told(client, "document", "shop.orders", "--namespace", "lacking", "--column", "id", "--doc", "x")
    told(client, "document", "shop.orders", "--namespace", "lacking", "--owner", "ada@example.com")

    found = json.loads(told(client, "document", "--missing", "--namespace", "lacking", "--json"))
    words = told(client, "document", "--missing", "--namespace", "lacking")

    place = {"namespace": "lacking", "table": "shop.orders"}
    assert found == [{**place, "column": "", "lacks": "docs"}, {**place, "column": "note", "lacks": "docs"}]
    assert "note" in words


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        (["show", "none"], 1, "there is no topic 'none' (unknown_topic)"),
        (["show", "--schema", "999999"], 1, "Schema 999999 not found (unknown_schema)"),
        (["show", "--namespace", "none"], 1, "there is no namespace 'none' (unknown_namespace)"),
        (["show", "--table", "shop.none"], 1, "there is no table shop.none"),
        (["show", "--table", "orders"], 2, "write database and table with a dot between"),
        (["show", "a", "--schema", "1"], 2, "cannot be shown at once"),
        (["document"], 2, "it is not clear what to document"),
        (["document", "shop.orders", "--missing"], 2, "it is not clear what to document"),
        (["document", "shop.orders"], 2, "nothing is said of shop.orders"),
        (["document", "shop.orders", "--pii"], 2, "say which one with --column"),
        (["document", "shop.orders", "--column", "a", "--owner", "b"], 2, "about a whole table"),
        (["document", "--missing", "--doc", "x"], 2, "none is named"),
        (["document", "--missing", "--namespace", "none"], 1, "there is no namespace 'none'"),
        (["document", "--from", "/nowhere.yml"], 2, "cannot read /nowhere.yml"),
        (["document", "wrong.orders", "--doc", "x", "--author", "a\x07"], 2, "the author is no name"),
    ],
)
def test_what_cannot_be_is_said(client: httpx.Client, arguments: list[str], exit_code: int, words: str) -> None:
    register(client, "wrong")

    assert words in refused(client, exit_code, *arguments)


def test_a_refusal_of_the_registry_is_told(client: httpx.Client) -> None:
    register(client, "owner")

    words = refused(client, 1, "document", "shop.orders", "--namespace", "owner", "--owner", "ada")

    assert "'ada' is not an e-mail address (invalid_email)" in words
    assert "orders-team@example.com" in words


def test_a_table_of_several_namespaces_needs_one(client: httpx.Client) -> None:
    for name in ("one", "two"):
        register(client, name, replace(ORDERS, table=TableId("twice", "orders")))

    words = refused(client, 2, "document", "twice.orders", "--doc", "x")

    assert "there are several tables twice.orders: in one (database twice), two (database twice)" in words


def test_where_nobody_answers_is_said() -> None:
    result = CliRunner().invoke(app, ["schematizer", "show", "--url", "http://127.0.0.1:1"])

    assert result.exit_code == 1
    assert "no registry answers at http://127.0.0.1:1" in result.stderr

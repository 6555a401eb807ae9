"""Spolts in a config: what they become, and what is said of each mistake."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from penstock.cli.check import app
from penstock.config.load import parse
from penstock.core.errors import ConfigError
from penstock.wiring.spolts import reads_foreign_topics, spolt_stages

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.config.specs import PipelineSpec

HEAD = """\
pipeline: shop
sources:
  - {name: shopdb, kind: mysql, host: h, user: cdc, password_env: SHOPDB_PASSWORD, tables: [shop.*]}
sinks:
  - {name: warehouse, kind: duckdb, path: ./warehouse.duckdb}
links:
  - {from: shopdb, to: warehouse}
spolts:
"""
SCHEMA = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "order.avsc").write_text(SCHEMA)
    package = tmp_path / "code" / "orders"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('nobody runs this to look whether it is there')\n")
    (package / "big.py").write_text("")
    (tmp_path / "clean.py").write_text(
        "from penstock.spolts import spolt\n"
        "@spolt(batches=True)\ndef batch(batch, above=1):\n    return batch\n"
        "def same(message):\n    return message\n"
    )
    return tmp_path


def _read(directory: Path, spolts: str) -> PipelineSpec:
    return parse(HEAD + spolts, "shop.yaml", directory)


def _mistakes(directory: Path, spolts: str, head: str = HEAD) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(head + spolts, "shop.yaml", directory)
    return list(caught.value.mistakes)


def test_a_spolt_in_full_and_one_in_short(directory: Path) -> None:
    spec = _read(
        directory,
        """\
  - name: long
    function: orders.big:Big
    path: code
    options: {above: 5}
    from: [shopdb.shop.orders, shopdb.shop.i*, {topic: clicks, format: json}, {topic: raw, format: bytes, key: text}]
    to: [{topic: a, schema: order.avsc, key: id}, {topic: b, schema: same}, c]
    on_error: dead_letter
  - {name: short, function: "clean:same", from: a, to: d}
""",
    )

    long, short = spec.spolts
    assert long.path == directory / "code"
    assert long.outputs[0].schema_file == directory / "order.avsc"
    assert [output.schema_file for output in long.outputs[1:]] == ["same", None]
    assert [each.key_format for each in long.inputs] == [None, None, "text", "text"]
    found = [each.tables(["shopdb"]) for each in long.inputs]
    assert [each and (each[0], str(each[1])) for each in found] == [
        ("shopdb", "shop.orders"),
        ("shopdb", "shop.i*"),
        None,
        None,
    ]
    assert (short.topics, short.on_error, short.path) == (("d",), "stop", directory)
    assert [[each.name for each in stage] for stage in spolt_stages(spec)] == [["long"], ["short"]]
    assert [reads_foreign_topics(spec, each) for each in spec.spolts] == [True, False]
    assert pickle.loads(pickle.dumps(spec)) == spec  # noqa: S301 - our own bytes


@pytest.mark.parametrize(
    ("spolt", "told"),
    [
        ('{name: s, function: "clean", from: a, to: b}', "function: should be package.module:name"),
        ('{name: s, function: "nothing:f", from: a, to: b}', "function: there is no module nothing below"),
        ('{name: s, function: "orders.small:f", path: code, from: a, to: b}', "there is no module orders.small below"),
        ('{name: s, function: "clean:same", from: shopdb.orders, to: b}', "from.0: should be shopdb.schema.table"),
        (
            '{name: s, function: "clean:same", from: [{topic: shopdb.a.b, format: json}], to: b}',
            "written as its own format says",
        ),
        ('{name: s, function: "clean:same", from: "x.*", to: b}', "none of the sources is called x"),
        ('{name: s, function: "clean:same", from: [{topic: a, format: xml}], to: b}', "should be 'avro', 'json'"),
        ('{name: s, function: "clean:same", from: [{topic: a, formt: json}], to: b}', "did you mean format?"),
        ('{name: s, function: "clean:same", from: [], to: b}', "from: should have at least one entry"),
        ('{name: s, function: "clean:same", from: a}', "missing key to"),
        ('{name: s, function: "clean:same", from: a, to: "b c"}', "should be a topic"),
        ('{name: s, function: "clean:same", from: a, to: penstock.shop.batches}', "a name of Penstock's own topics"),
        ('{name: s, function: "clean:same", from: a, to: shopdb.shop.orders}', "are the source's own"),
        ('{name: s, function: "clean:same", from: a, to: [b, {topic: b}]}', "the topic b is there twice"),
        ('{name: s, function: "clean:same", from: a, to: {topic: b, schema: no.avsc}}', "schema: cannot read"),
        ('{name: s, function: "clean:same", from: a, to: {topic: b, schema: clean.py}}', "it is no Avro schema"),
        ('{name: s, function: "clean:same", from: a, to: a}', "goes in a circle: a is made of what this spolt writes"),
        ('{name: objects, function: "clean:same", from: a, to: b}', 'the link that writes files is called "objects"'),
        ('{name: shopdb, function: "clean:same", from: a, to: b}', 'a source is called "shopdb" too'),
        ('{name: shopdb-to-warehouse, function: "clean:same", from: a, to: b}', "a link is called"),
        ('{name: s, function: "clean:same", from: a, to: b, on_error: skip}', "should be 'stop' or 'dead_letter'"),
        ('{name: s, function: "clean:same", from: a, to: b, on_emptied: pass}', "is for transforms"),
    ],
)
def test_a_mistake_is_told_with_its_line(directory: Path, spolt: str, told: str) -> None:
    mistakes = _mistakes(directory, f"  - {spolt}\n")

    assert any(told in mistake for mistake in mistakes), mistakes
    assert all(mistake.startswith("line 9: spolts.0") for mistake in mistakes), mistakes


def test_spolts_that_feed_each_other_are_a_circle(directory: Path) -> None:
    spolts = "".join(
        f'  - {{name: s{index}, function: "clean:same", from: t{index}, to: t{(index + 1) % 3}}}\n'
        for index in range(3)
    )

    assert len(_mistakes(directory, spolts)) == 3


def test_without_transactions_there_are_no_spolts(directory: Path) -> None:
    head = HEAD.replace("sources:", 'kafka: {bootstrap_servers: "k:9092", transactions: false}\nsources:')

    (mistake,) = _mistakes(directory, '  - {name: s, function: "clean:same", from: a, to: b}\n', head)

    assert mistake.startswith("line 9: spolts: publish in Kafka's transactions")


def test_check_says_what_a_spolt_does(directory: Path) -> None:
    file = directory / "shop.yaml"
    file.write_text(
        HEAD
        + """\
  - {name: s, function: "clean:same", from: [shopdb.shop.*, {topic: a, format: json}], to: {topic: b, schema: same}}
  - {name: t, function: "clean:batch", options: {above: 2}, from: b, to: {topic: c, key: id}, on_error: dead_letter}
"""
    )

    said = CliRunner().invoke(app, [str(file)]).output

    assert f"Spolt s: clean:same of {directory}, which takes one message at a time" in said
    assert "reads    the tables shop.* of shopdb" in said
    assert "reads    the topic a: json, with keys of text" in said
    assert "writes   the topic b, with the schemas of the messages it reads and the key of the message" in said
    assert "which takes Arrow batches" in said
    assert "reads    the topic b, which s writes: avro" in said
    assert "writes   the topic c, with the columns of the batches that the code returns and the key of id" in said
    assert "options  above=2" in said
    assert "failure  the message goes to the dead letters" in said

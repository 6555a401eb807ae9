"""What is known of topics before anybody compacts them: keys, and rows that lack columns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from penstock.config.load import load
from penstock.core.avro.schemas import value_schema
from penstock.core.schema_changes import SchemaChange
from penstock.core.tables import Column, IntegerType, TableId, TableSchema
from penstock.spolts.testing import LocalSchemas
from penstock.wiring.police import written_topics

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.config.specs import PipelineSpec

INTEGER = IntegerType(32, unsigned=False)
WHOLE = TableSchema(
    TableId("shop", "a"), (Column("id", INTEGER, nullable=False), Column("n", INTEGER, nullable=True)), ("id",)
)
FILE = """\
pipeline: shop
sources:
  - {name: db, kind: postgres, host: h, user: u, password_env: P, database: d, tables: [shop.*]}
spolts:
  - {name: few, from: db.shop.a, to: few, transforms: [{filter: id > 1}]}
  - {name: keyless, from: [db.shop.a, db.shop.log], to: keyless, transforms: [{filter: id > 1}]}
  - {name: fewer, from: few, to: fewer, transforms: [{filter: id > 2}]}
  - {name: later, from: db.other.*, to: later, transforms: [{filter: id > 2}]}
"""
SHARED = """\
  - {name: one, from: db.shop.a, function: c:f, to: {topic: out, schema: same}}
  - {name: other, from: db.shop.a, function: c:f, to: {topic: out, key: id, schema: same}}
  - {name: both, from: db.shop.a, function: c:f, to: {topic: few, schema: same}}
"""


@pytest.fixture
def spec(tmp_path: Path) -> PipelineSpec:
    (tmp_path / "p.yaml").write_text(FILE)
    return load(tmp_path / "p.yaml")


def told(name: str, key: int | None, value: int) -> SchemaChange:
    return SchemaChange("db", TableId("shop", name), f"db.shop.{name}", "", key, value, 1, (1, 1, 0))


def test_transforms_write_the_keys_of_their_tables(spec: PipelineSpec) -> None:
    written = written_topics(spec, [told("a", 1, 2), told("a", 1, 3), told("log", None, 4)])

    assert {topic: each.has_keys for topic, each in written.items()} == {
        "db.shop.a": True,
        "db.shop.log": False,
        "few": True,
        "keyless": False,
        "fewer": False,
        "later": False,
    }
    assert written["few"].schema_ids == written["db.shop.a"].schema_ids == {2, 3}


def test_rows_may_lack_columns_where_a_schema_of_their_topic_says_so(spec: PipelineSpec) -> None:
    subjects = LocalSchemas()
    tables = (WHOLE, replace(WHOLE, partial_rows=True), replace(WHOLE, columns=WHOLE.columns[:1], partial_rows=True))
    whole, partial, keys = (subjects.register_subject("s", value_schema(table)) for table in tables)
    other = subjects.register_subject("s", '{"type": "string"}')

    for ids, lacks in (([whole], False), ([partial, whole], True), ([keys], False), ([other], False), ([], False)):
        written = written_topics(spec, [told("a", 1, each) for each in ids])
        assert written["few"].may_lack_columns(subjects) == lacks


def test_a_topic_has_keys_where_all_who_write_to_it_give_them(tmp_path: Path) -> None:
    (tmp_path / "c.py").write_text("def f(message):\n    return []\n")
    (tmp_path / "p.yaml").write_text(FILE + SHARED)

    written = written_topics(load(tmp_path / "p.yaml"), [told("a", 1, 2)])

    assert not written["out"].has_keys
    assert not written["few"].has_keys
    assert written["few"].schema_ids == {2}

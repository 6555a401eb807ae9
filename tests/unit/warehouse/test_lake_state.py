"""What a lake knows of a table is kept whatever the table is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.adapters.objects.store import ObjectsSpec, open_objects
from penstock.core.batches import BatchOffset
from penstock.core.tables import Column, IntegerType, TableId, TableSchema
from penstock.core.warehouse.load_plan import SchemaInPlace
from penstock.links.warehouse.lake_state import LakeState, TableProgress
from penstock.links.warehouse.table_state import TableState

if TYPE_CHECKING:
    from pathlib import Path

_FOLDER_BYTES_MAX = 255


@pytest.mark.parametrize(
    "name", ["orders", "a/b.c %", "日" * 64, "日" * 63 + "本"], ids=["plain", "odd", "long", "long too"]
)
def test_a_table_of_any_name_is_read_back_from_a_folder_of_its_own(tmp_path: Path, name: str) -> None:
    store = open_objects(ObjectsSpec(tmp_path.as_uri()))
    state = LakeState(store, "shop", "shopdb")
    tables = [TableId("データ" * 20, each) for each in (name, name + "2")]
    column = Column("id", IntegerType(32, unsigned=False), nullable=False)

    for number, table in enumerate(tables):
        schema = TableSchema(table, (column,), ("id",))
        kept = TableState(schema, SchemaInPlace(number, (1, 2, 3)))
        state.set_life(table)
        state.write(table, 1, TableProgress(kept, {("topic", 0): number}))

    read = [state.read(table, 1) for table in tables]
    assert [each.state.schema.table for each in read] == tables
    assert [each.positions for each in read] == [{("topic", 0): 0}, {("topic", 0): 1}]
    assert sorted(state.living(), key=str) == sorted(tables, key=str)
    assert all(len(part.encode()) <= _FOLDER_BYTES_MAX for key in store.list("") for part in key.split("/"))


def test_a_lake_knows_the_last_message_that_it_has_loaded_and_of_an_older_release_none(tmp_path: Path) -> None:
    store = open_objects(ObjectsSpec(tmp_path.as_uri()))
    state, reached = LakeState(store, "shop", "shopdb"), BatchOffset.behind(6, b"message")

    at_first = state.batch_offset()
    state.set_batch_offset(reached, {})
    state.set_batch_offset(state.batch_offset(), {TableId("shop", "orders"): 3})
    kept = state.batch_offset()
    (file,) = [key for key in store.list("") if key.endswith("batches.json")]
    store.put(file, b'{"next_batch_offset": 9, "waiting": {}}')

    assert (at_first, kept, kept.message, state.batch_offset()) == (0, 7, reached.message, 9)
    assert (at_first.message, state.batch_offset().message) == ("", "")


def test_of_an_offset_that_somebody_set_back_the_last_message_tells_nothing(tmp_path: Path) -> None:
    store = open_objects(ObjectsSpec(tmp_path.as_uri()))
    state = LakeState(store, "shop", "shopdb")
    state.set_batch_offset(BatchOffset.behind(9, b"message"), {})
    (file,) = [key for key in store.list("") if key.endswith("batches.json")]
    store.put(file, store.get(file).replace(b'"next_batch_offset": 10', b'"next_batch_offset": 5'))

    assert (state.batch_offset(), state.batch_offset().message) == (5, "")

"""A file that is gone is made again from its messages, of whatever format, and across failovers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.links.conftest import SCHEMAS, MemoryTopics
from tests.unit.links.test_json_ranges import ShopRegistry, deleted, json_values

from penstock.adapters.objects.store import ObjectsSpec, open_objects
from penstock.core.schema_changes import SchemaChange
from penstock.core.tables import TableId
from penstock.core.timelines import TimelineBegan
from penstock.links.audit.told_table import ToldTables
from penstock.links.objects.plan import TopicRange
from penstock.links.objects.rewrite import render_again
from penstock.links.objects.write import FileRules, FileWriter

if TYPE_CHECKING:
    from pathlib import Path

TIMELINES = "eras"


@pytest.mark.parametrize("failed_over", [False, True])
@pytest.mark.parametrize("values", [json_values("shopdb", 3), deleted()], ids=["rows", "deletes"])
def test_a_file_of_json_messages_is_the_same_again(
    tmp_path: Path,
    topics: MemoryTopics,
    values: list[bytes],
    failed_over: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    # The new master's log has the places of the old one's once more.
    topics.values["t", 0] += values * 2 if failed_over else values
    table = TableId("shop", "orders")
    told = SchemaChange("shopdb", table, "t", "", 1, 1, 1, (0, 1, 0), format="json")
    topics.values[SCHEMAS, 0].append(told.to_json())
    began = TimelineBegan("shopdb", 1, {("t", 0): len(values)}, "", "", "", 0)
    topics.values[TIMELINES, 0] += [began.to_json()] if failed_over else []
    tables = ToldTables(topics, SCHEMAS, TIMELINES)
    tables.read()
    timelines = tables.timelines("shopdb", "t", 0)
    end = len(topics.values["t", 0])
    given = TopicRange("shopdb", str(table), "t", 0, 0, 0, end, (), timelines=timelines, format=tables.format("t"))
    objects = open_objects(ObjectsSpec(tmp_path.as_uri()))
    (written,) = FileWriter("shop", topics, ShopRegistry(), objects, FileRules()).write([given])
    (batch,) = written.batches

    again = render_again(batch, topics, ShopRegistry(), tables.format("t"), timelines)

    assert len(timelines) == 1 + failed_over
    assert again == objects.get(batch.path)

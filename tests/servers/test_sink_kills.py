"""The connection is cut at each statement of a long story, and on both sides of each commit; it ends right."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.servers.cut_warehouse import CutError, CutWarehouse
from tests.servers.kinds import on_targets
from tests.servers.sink_case import FIRST, WIDER, schema, schema_change, write_batch
from tests.servers.test_sink_barriers import stated

from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.tables import TableId
from penstock.links.warehouse.sink import SqlSink

if TYPE_CHECKING:
    from tests.servers.sink_case import Place

    from penstock.core.batches import Batch
    from penstock.core.tables import TableSchema

pytestmark = on_targets("postgres")

BY_QTY = replace(WIDER, key=("qty",))
LOG = replace(WIDER, key=())
SCHEMAS = {1: FIRST, 2: WIDER, 3: BY_QTY, 4: LOG, 5: schema()}


def story(place: Place, table: TableId) -> tuple[list[list[Batch]], dict[int, TableSchema]]:
    """Loads of one table: a wider column, another key, TRUNCATE, no key, a new life; and its schemas."""
    schemas = {number: replace(each, table=table) for number, each in SCHEMAS.items()}

    def batch(number: int, start: int, *rows: tuple[object, ...]) -> Batch:
        return replace(write_batch(place, schemas[number], number, start, [*rows]), topic=f"topic.{number}")

    def told(number: int, at: int) -> Batch:
        return replace(schema_change(number, at), table=table, topic=f"topic.{number}")

    loads = [
        [told(1, 0), batch(1, 0, ("a", 1, "c"), ("b", 2, "c")), batch(1, 2, ("b", 2, "d"), ("b", 3, "c"))],
        [told(2, 0), batch(2, 0, ("a", 2**40, "u")), told(3, 0), batch(3, 0, ("z", 3, "u"), ("y", 4, "c"))],
        [
            stated(SchemaChangeKind.TRUNCATE, 9, table, schema_id=3),
            replace(batch(3, 10, ("x", 7, "c")), start_offset=2),
        ],
        [told(4, 0), batch(4, 20, ("x", 7, "u-"), ("w", 8, "u+"))],
        [stated(SchemaChangeKind.CREATE, 50, table, schema_id=5), batch(5, 60, ("n", "c"))],
    ]
    return loads, schemas


def load_cut(
    place: Place, batches: list[Batch], schemas: dict[int, TableSchema], offsets: tuple[int, int], left: int
) -> bool:
    """Load from one offset to the next over a connection that is cut at a statement; return whether it was."""
    table, sink = schemas[1].table, None
    try:
        sink = SqlSink(CutWarehouse(place.target.connect("p/s"), left), "p", "s", place.objects)  # type: ignore[arg-type]
        if sink.batch_offset() == offsets[0]:
            sink.load(table, batches, schemas)
            sink.finish(offsets[1])
    except CutError:
        return True
    finally:
        if sink is not None:
            sink.close()
    return False


def test_wherever_the_connection_is_cut_nothing_is_lost_or_doubled(place: Place) -> None:
    loads, schemas = story(place, TableId("shop", "orders"))
    seen, cuts = [], 0

    for number, batches in enumerate(loads):
        left = 0
        while load_cut(place, batches, schemas, (number, number + 1), left):
            left += 1
        cuts += left
        seen.append(sorted(place.ask("SELECT * FROM shop.orders"), key=repr))

    assert [[row[:3] for row in rows] for rows in seen] == [
        [("a", 1), ("b", 3)],
        [("a", 2**40), ("y", 4), ("z", 3)],
        [("x", 7)],
        [("w", 8, "u+"), ("x", 7, "r"), ("x", 7, "u-")],
        [("n",)],
    ]
    assert cuts > 60
    assert place.tables() == ["shop.orders"]

"""Left joins: what a match that comes or goes is to whoever reads the output."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from tests.unit.joins.joined_streams import table_of

from penstock.core.arrow_types import arrow_schema
from penstock.core.changes import Op
from penstock.core.joins.algebra import JoinState
from penstock.core.joins.changes import output_changes
from penstock.core.joins.events import Changed, row_events
from penstock.core.joins.inputs import JoinInput, JoinOutput
from penstock.core.joins.plan import plan_join
from penstock.core.tables import Column, IntegerType, TableId, TextType

if TYPE_CHECKING:
    from penstock.core.joins.plan import JoinPlan

NUMBER, TEXT = IntegerType(64, unsigned=False), TextType(20, "utf8mb4")
COLUMNS = (
    Column("id", NUMBER, nullable=False),
    Column("k", NUMBER, nullable=True),
    Column("word", TEXT, nullable=True),
)
ORDERS = JoinInput("db.shop.orders", table_of(0, COLUMNS, ("id",)), ("k",), (), (("word", "order"),))
BY_ID = JoinInput("db.shop.places", table_of(1, COLUMNS, ("id",)), ("id",), ("k",), (("id", "k"),), is_optional=True)
BY_K = JoinInput(
    "db.shop.notes", table_of(1, COLUMNS, ("id",)), ("k",), (), (("id", "note"), ("word", "text")), is_optional=True
)
Row = tuple[int, int | None, str | None]


@dataclass
class Joined:
    """A join, to which rows come one by one."""

    plan: JoinPlan
    state: JoinState = field(init=False)
    offset: int = 0

    def __post_init__(self) -> None:
        self.state = JoinState(len(self.plan.inputs), self.plan.optional)

    def put(self, index: int, row: Row, *, is_deleted: bool = False) -> list[tuple[object, ...]]:
        """Put a row into an input, or take it out; return (op, before, after) of the changes of the output."""
        self.offset += 1
        rows = pa.RecordBatch.from_pylist(
            [dict(zip(("id", "k", "word"), row, strict=True))], schema=arrow_schema(table_of(index, COLUMNS, ("id",)))
        )
        orders = np.array([(1, self.offset, 0)], np.int64)
        changed = Changed(rows, np.array([is_deleted]), 0, np.array([self.offset], np.int64), orders)
        differences = self.state.apply([row_events(self.plan, index, changed)])
        return [
            (part.op, *(None if image is None else tuple(image.to_pylist()[0].values()) for image in images))
            for part in output_changes(self.plan, differences)
            for images in [(part.before, part.after)]
        ]


def join_of(other: JoinInput, key: tuple[str, ...]) -> Joined:
    return Joined(plan_join([ORDERS, other], JoinOutput(TableId("joined", "rows"), key)))


def test_a_row_that_gets_its_one_match_is_updated_and_so_is_one_that_loses_it() -> None:
    joined = join_of(BY_ID, ("id",))

    assert joined.put(0, (1, 7, "a")) == [(Op.CREATE, None, (1, 7, "a", None))]
    assert joined.put(1, (7, None, "there")) == [(Op.UPDATE, (1, 7, "a", None), (1, 7, "a", "there"))]
    assert joined.put(1, (7, None, ""), is_deleted=True) == [(Op.UPDATE, (1, 7, "a", "there"), (1, 7, "a", None))]


def test_a_match_that_shows_nothing_is_no_change() -> None:
    joined = join_of(BY_ID, ("id",))
    joined.put(0, (1, 7, "a"))

    assert joined.put(1, (7, None, None)) == []
    assert joined.put(1, (7, None, "now")) == [(Op.UPDATE, (1, 7, "a", None), (1, 7, "a", "now"))]


def test_the_first_of_many_matches_takes_the_place_of_the_row_without_one() -> None:
    joined = join_of(BY_K, ("id", "note"))
    joined.put(0, (1, 7, "a"))

    first, second = joined.put(1, (3, 7, "x")), joined.put(1, (4, 7, "y"))

    assert first == [
        (Op.DELETE, (1, 7, "a", None, None, 0), None),
        (Op.CREATE, None, (1, 7, "a", 3, "x", 3)),
    ]
    assert second == [(Op.CREATE, None, (1, 7, "a", 4, "y", 4))]


def test_a_match_whose_key_is_zero_updates_the_row_without_one() -> None:
    joined = join_of(BY_K, ("id", "note"))
    joined.put(0, (1, 7, "a"))

    assert joined.put(1, (0, 7, None)) == [(Op.UPDATE, (1, 7, "a", None, None, 0), (1, 7, "a", 0, None, 0))]


def test_rows_with_null_join_keys_are_there_and_match_nothing() -> None:
    joined = join_of(BY_K, ("id", "note"))

    assert joined.put(1, (3, None, "x")) == []
    assert joined.put(0, (1, None, "a")) == [(Op.CREATE, None, (1, None, "a", None, None, 0))]
    assert joined.put(0, (2, None, "b")) == [(Op.CREATE, None, (2, None, "b", None, None, 0))]
    assert joined.put(0, (1, None, "a"), is_deleted=True) == [(Op.DELETE, (1, None, "a", None, None, 0), None)]

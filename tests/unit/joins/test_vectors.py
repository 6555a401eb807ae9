"""Joined rows with vectors are compared, which Arrow does not do."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from tests.unit.joins.joined_streams import table_of

from penstock.core.arrow_types import arrow_schema
from penstock.core.changes import Op
from penstock.core.joins.changes import changes_in_parts
from penstock.core.joins.inputs import JoinInput, JoinOutput
from penstock.core.joins.plan import plan_join
from penstock.core.joins.replaced import JoinedRows, replacing_changes
from penstock.core.joins.rows import encode_stored
from penstock.core.joins.upgrade import fit_plan, made_join
from penstock.core.tables import Column, IntegerType, TableId, TextType, VectorType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.core.joins.changes import OutputRows
    from penstock.core.joins.plan import JoinPlan

ID = Column("id", IntegerType(64, unsigned=False), nullable=False)
PLACE = Column("place", VectorType(3), nullable=True)
WORD = Column("word", TextType(20, "utf8mb4"), nullable=True)
SPOT, NAME = table_of(0, (ID, PLACE, WORD), ("id",)), table_of(1, (ID,), ("id",))
SPOTS = JoinInput("spot", SPOT, ("id",))
Spot = tuple[list[float] | None, str]

BEFORE: list[Spot] = [([1.0, 2.0], ""), ([1.0, 2.0], ""), (None, ""), (None, ""), ([], ""), ([1.0], "a")]
AFTER: list[Spot] = [([1.0, 2.0], ""), ([1.0, 2.5], ""), (None, ""), ([1.0], ""), ([0.0], ""), ([1.0], "b")]


def plan_of(spots: JoinInput) -> JoinPlan:
    return plan_join([spots, JoinInput("name", NAME, ("id",))], JoinOutput(TableId("joined", "rows"), ("id",)))


PLAN = plan_of(SPOTS)


def images(letter: str, spots: list[Spot]) -> dict[str, pa.BinaryArray]:
    """Joined rows as each input's bytes, with the ids 0, 1..."""
    rows = [{"id": number, "place": place, "word": word} for number, (place, word) in enumerate(spots)]
    left, right = (pa.RecordBatch.from_pylist(rows, schema=arrow_schema(table)) for table in (SPOT, NAME))
    return {
        f"{letter}0": encode_stored(PLAN.inputs[0], left),
        f"{letter}1": encode_stored(PLAN.inputs[1], right),
    }


def ids(changes: Iterable[OutputRows]) -> list[tuple[Op, list[int | None]]]:
    return [(each.op, each.after.column("id").to_pylist()) for each in changes if each.after is not None]


def test_a_join_that_takes_anothers_place_publishes_the_rows_whose_vectors_differ() -> None:
    nothing = {f"b{index}": pa.nulls(len(BEFORE), pa.binary()) for index in (0, 1)}
    old, new = (JoinedRows(PLAN, [pa.table({**nothing, **images("a", spots)})]) for spots in (BEFORE, AFTER))

    assert ids(replacing_changes(old, new, 1 << 20)) == [(Op.READ, [1, 3, 4, 5])]


def test_a_change_of_what_is_kept_and_not_shown_is_none_beside_a_vector() -> None:
    fewer = fit_plan(plan_of(replace(SPOTS, exclude=("word",))), [SPOT, NAME], made_join(PLAN))
    assert fewer.keeps_more

    found = changes_in_parts(fewer, [pa.table({**images("b", BEFORE), **images("a", AFTER)})], 1 << 20)

    assert ids(found) == [(Op.UPDATE, [1, 3, 4])]

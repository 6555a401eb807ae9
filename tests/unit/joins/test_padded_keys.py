"""Join keys of PostgreSQL's type CHAR, whose values come with blanks at the end: SQL compares them without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.joins.joined_streams import table_of

from penstock.core.joins.events import Changed, row_events
from penstock.core.joins.inputs import JoinInput, JoinOutput
from penstock.core.joins.plan import JoinPlan, plan_join
from penstock.core.joins.rows import decode_stored
from penstock.core.tables import Column, IntegerType, TableId, TextType

NUMBER = Column("id", IntegerType(32, unsigned=False), nullable=False)
SAID = {
    "character(5)": "ab   ",
    "character(8)": "ab      ",
    "character": "ab ",
    "character varying(5)": "ab",
    "text": "ab",
}


def plan_of(declaration: str, other: str, key: tuple[str, ...] = ("id",)) -> JoinPlan:
    columns = [
        Column("k", TextType(9, "utf8"), nullable=False, declaration=declared) for declared in (declaration, other)
    ]
    tables = [table_of(0, (NUMBER, columns[0]), key), table_of(1, (columns[1],), ("k",))]
    return plan_join(
        [JoinInput(f"db.t{index}", table, ("k",)) for index, table in enumerate(tables)],
        JoinOutput(TableId("joined", "rows"), key),
    )


def events_of(plan: JoinPlan, index: int, row: dict[str, object]) -> pa.RecordBatch:
    rows = pa.RecordBatch.from_pylist([row])
    return row_events(plan, index, Changed(rows, np.array([False]), 0, np.array([0]), np.array([(1, 0, 0)])))


@pytest.mark.parametrize("key", [("id",), ("k",)])
@pytest.mark.parametrize(
    "declarations",
    [("character(5)", "text"), ("text", "character(5)"), ("character(5)", "character(8)"), ("character", "text")],
)
def test_blanks_that_postgresql_pads_with_do_not_count_and_are_kept(
    key: tuple[str, ...], declarations: tuple[str, str]
) -> None:
    plan, (left, right) = plan_of(*declarations, key=key), declarations

    found = [events_of(plan, 0, {"id": 1, "k": SAID[left]}), events_of(plan, 1, {"k": SAID[right]})]

    assert found[0].column("join_key").to_pylist() == found[1].column("join_key").to_pylist() == [b"2:ab"]
    stored: Any = found[0].column("row")
    (*_, kept) = decode_stored(plan.inputs[0], stored)
    assert kept[0].as_py() == SAID[left]


def test_blanks_of_other_texts_count() -> None:
    plan = plan_of("text", "character varying(5)")

    assert events_of(plan, 0, {"id": 1, "k": "ab "}).column("join_key").to_pylist() == [b"3:ab "]


def test_a_state_in_which_those_blanks_count_is_another_one() -> None:
    assert plan_of("character(5)", "text").digest != plan_of("character varying(5)", "text").digest

"""What a load has to do."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.batches import Batch
from penstock.core.errors import TableStoppedError
from penstock.core.tables import TableId
from penstock.core.warehouse.load_plan import SchemaInPlace, Step, plan_positions, plan_steps, plan_transactions

if TYPE_CHECKING:
    from collections.abc import Sequence

TOPIC = "shopdb.shop.orders"


def batch(start: int, end: int, *, schema_id: int = 1, topic: str = TOPIC, rows: int | None = None) -> Batch:
    return Batch(
        source="shopdb",
        table=TableId("shop", "orders"),
        topic=topic,
        partition=0,
        start_offset=start,
        end_offset=end,
        rows=end - start if rows is None else rows,
        path="a file",
        size_bytes=100 * (end - start),
        format="parquet",
        schema_id=schema_id,
        first_order=(1, start, 0),
        last_order=(1, end - 1, 0),
        last_timestamp_ms=0,
    )


def steps(position: int | None, *batches: Batch) -> list[Step]:
    positions = {} if position is None else {(TOPIC, 0): position}
    return plan_steps(positions, batches, rows_max=100, bytes_max=5_000)


def ranges(planned: list[Step]) -> list[list[tuple[int, int]]]:
    return [[(piece.from_offset, piece.batch.end_offset) for piece in step.pieces] for step in planned]


def test_a_new_table_starts_wherever_its_first_batch_does() -> None:
    assert ranges(steps(None, batch(7, 10), batch(10, 12))) == [[(7, 10), (10, 12)]]


def test_a_batch_that_is_in_already_is_skipped() -> None:
    assert ranges(steps(10, batch(0, 10), batch(10, 12))) == [[(10, 12)]]


def test_an_overlapping_batch_is_taken_from_the_position_on() -> None:
    assert ranges(steps(8, batch(0, 10), batch(5, 12))) == [[(8, 10), (10, 12)]]


def test_a_hole_is_refused_and_named() -> None:
    with pytest.raises(TableStoppedError, match="starts at offset 11, and the target has everything before 10 only"):
        steps(10, batch(11, 12))
    with pytest.raises(TableStoppedError):
        steps(None, batch(0, 5), batch(6, 7))


def test_a_step_ends_where_topic_or_schema_changes_and_where_it_gets_too_large() -> None:
    planned = steps(
        0,
        batch(0, 30),
        batch(30, 40),
        batch(40, 60),
        batch(60, 70, schema_id=2),
        batch(70, 300, schema_id=2),
        batch(0, 3, schema_id=2, topic="another"),
    )

    assert ranges(planned) == [[(0, 30), (30, 40)], [(40, 60)], [(60, 70)], [(70, 300)], [(0, 3)]]


def test_a_schema_change_is_never_skipped_and_sets_no_position_of_its_own() -> None:
    schema_change = batch(0, 0, schema_id=2)

    assert [step.schema_id for step in steps(50, schema_change)] == [2]
    assert plan_positions({}, [schema_change]) == {}


@given(st.lists(st.integers(0, 40), min_size=1), st.lists(st.integers(0, 40), min_size=1), st.integers(0, 40))
def test_every_offset_is_taken_exactly_once_however_batches_repeat(
    lengths: list[int], again: list[int], position: int
) -> None:
    cuts = [sum(lengths[:count]) for count in range(len(lengths) + 1)]
    once = [batch(start, end) for start, end in pairwise(cuts)]
    repeated = [once[number % len(once)] for number in again]
    end = cuts[-1]
    position = min(position, end)

    planned = steps(position, *once, *repeated)

    taken = [o for step in planned for p in step.pieces for o in range(p.from_offset, p.batch.end_offset)]
    assert taken == list(range(position, end))
    assert plan_positions({(TOPIC, 0): position}, [*once, *repeated]) == ({(TOPIC, 0): end} if end > position else {})


def test_a_younger_schema_takes_the_place_of_an_older_one_and_a_late_one_does_not() -> None:
    in_place = SchemaInPlace(1, (1, 100, 0))
    (younger,) = steps(101, batch(101, 110, schema_id=2))
    (late,) = steps(50, batch(50, 60, schema_id=2))

    assert in_place.after(younger) == SchemaInPlace(2, (1, 109, 0))
    assert in_place.after(late) == in_place


def test_while_a_schema_stays_nothing_is_to_be_remembered_of_its_batches() -> None:
    in_place = SchemaInPlace(1, (1, 100, 0))
    (more,) = steps(120, batch(120, 130))
    (late,) = steps(50, batch(50, 60, schema_id=2))

    assert in_place.after(more) == in_place
    assert in_place.after(more).after(late) == in_place


def test_a_schema_that_comes_back_is_younger_than_what_was_seen_of_the_other() -> None:
    # Schema 1 at 10, schema 2 from 20 to 39, schema 1 again at 40; another partition then tells of 2 at 30.
    (second,) = steps(20, batch(20, 40, schema_id=2))
    (first_again,) = steps(40, batch(40, 50))
    (late,) = steps(30, batch(30, 31, schema_id=2))

    in_place = SchemaInPlace(1, (1, 10, 0)).after(second).after(first_again)

    assert in_place == SchemaInPlace(1, (1, 49, 0))
    assert in_place.after(late) == in_place


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50))), st.integers(1, 60), st.integers(1, 60))
def test_very_many_rows_and_bytes_are_shared_among_transactions_in_their_order(
    sizes: list[tuple[int, int]], rows_max: int, bytes_max: int
) -> None:
    batches = [
        replace(batch(n * 100, n * 100 + 50, rows=rows), size_bytes=size) for n, (rows, size) in enumerate(sizes)
    ]

    def fits(part: Sequence[Batch]) -> bool:
        return sum(each.rows for each in part) <= rows_max and sum(each.size_bytes for each in part) <= bytes_max

    parts = plan_transactions(batches, rows_max, bytes_max)

    assert [each for part in parts for each in part] == batches
    assert all(len(part) == 1 or fits(part) for part in parts if part)
    assert not any(fits((*first, second[0])) for first, second in pairwise(parts))

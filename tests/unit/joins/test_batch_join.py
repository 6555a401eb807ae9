"""Whatever happens in the sources: the batch join of what was read finds the output right, or names what is wrong."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.joins.joined_streams import Streams, completed, random_inputs, random_plan

from penstock.adapters.duckdb.database import DuckdbLimits
from penstock.adapters.duckdb.scratch import DuckdbScratch, open_scratch
from penstock.core.changes import Op
from penstock.core.errors import UsageError
from penstock.core.joins import batch_join
from penstock.core.joins.algebra import JoinState
from penstock.core.joins.batch_completing import (
    cells_rows,
    cells_table,
    complete_statements,
    create_cells,
    events_of_whole,
    whole_table,
)
from penstock.core.joins.changes import OutputRows, output_changes
from penstock.core.joins.completing import RowCompleter
from penstock.core.joins.events import SCHEMA, TRUNCATE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.core.joins.plan import JoinPlan

EMPTY = pa.RecordBatch.from_pylist([], schema=SCHEMA)
_TABLES = (batch_join.OUTPUT_TABLE, batch_join.EXPECTED_TABLE, "folded", "joined", "differences")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckdbScratch]:
    with open_scratch(tmp_path_factory.mktemp("scratch"), DuckdbLimits(256, 1)) as opened:
        yield opened


def streams_of(seed: int) -> Streams:
    rng = Random(seed)  # noqa: S311 - what it makes is no secret
    while True:
        inputs = random_inputs(rng)
        try:
            return Streams(rng, inputs, random_plan(rng, inputs))
        except UsageError:
            continue  # names that collide, or everything is excluded


def read_all(streams: Streams) -> tuple[list[pa.RecordBatch], list[OutputRows]]:
    """Every event, once, and what the join publishes when it reads them in micro-batches."""
    completer, state = RowCompleter(streams.plan), JoinState(len(streams.inputs), streams.plan.optional)
    events, published = dict[Any, pa.RecordBatch](), list[OutputRows]()
    for batch in range(4):
        for _ in range(streams.rng.randint(3, 14)):
            streams.change()
        some = streams.read_some(1.0 if batch == 3 else 0.7)
        published += output_changes(streams.plan, state.apply(completed(completer, some)))
        for each in some:
            for at in range(each.num_rows):
                one = each.slice(at, 1)
                events[tuple(one.column(name)[0].as_py() for name in ("input", "part", "position"))] = one
    return list(events.values()), published


def load(
    plan: JoinPlan, scratch: DuckdbScratch, events: list[pa.RecordBatch], published: list[OutputRows]
) -> dict[int, tuple[int, int]]:
    """Load both sides; return up to where each input was emptied."""
    inputs = range(len(plan.inputs))
    for table in (*_TABLES, *(f"{name}_{index}" for name in ("events", "rows") for index in range(5))):
        scratch.run(f"DROP TABLE IF EXISTS {table}")
    for statement in batch_join.create_statements(plan):
        scratch.run(statement)
    emptied: dict[int, tuple[int, int]] = {}
    rows: dict[int, list[pa.RecordBatch]] = {index: [] for index in inputs}
    for each in events:
        values = each.to_pylist()[0]
        if values["op"] == TRUNCATE:
            place = (values["place"], values["place_row"])
            emptied[values["input"]] = max(place, emptied.get(values["input"], place))
        else:
            rows[values["input"]].append(each)
    for index in inputs:
        if rows[index]:
            together = pa.Table.from_batches(rows[index]).combine_chunks().to_batches()[0]
            if plan.inputs[index].is_partial:
                together = complete(plan, scratch, (index, emptied.get(index)), together)
            scratch.add(batch_join.event_table(index), batch_join.event_rows(plan, index, together))
    offset = 0
    for part in published:
        image = part.before if part.after is None else part.after
        assert image is not None
        offsets = pa.array(range(offset, offset + len(part)), pa.int64())
        is_deleted = pa.array([part.op is Op.DELETE] * len(part))
        scratch.add(batch_join.OUTPUT_TABLE, batch_join.output_rows(plan, offsets, is_deleted, image))
        offset += len(part)
    return emptied


def complete(
    plan: JoinPlan, scratch: DuckdbScratch, emptied: tuple[int, tuple[int, int] | None], events: pa.RecordBatch
) -> pa.RecordBatch:
    """The newest of each row of an input, which was `emptied`, whole."""
    index, place = emptied
    for table in (cells_table(index), f"newest_{index}", whole_table(index)):
        scratch.run(f"DROP TABLE IF EXISTS {table}")
    scratch.run(create_cells(plan, index))
    rows, lacking = cells_rows(plan, index, events)
    scratch.add(cells_table(index), rows)
    for statement in complete_statements(plan, index, place, lacking):
        scratch.run(statement)
    whole = scratch.batches(f"SELECT * FROM {whole_table(index)}")
    found = [events_of_whole(plan, index, each) for each in whole]
    return pa.Table.from_batches(found, SCHEMA).combine_chunks().to_batches()[0] if found else EMPTY


def compare(
    plan: JoinPlan, scratch: DuckdbScratch, emptied: dict[int, tuple[int, int]], sample: batch_join.Sample
) -> list[tuple[object, ...]]:
    for statement in batch_join.fold_statements(plan, emptied, sample):
        scratch.run(statement)
    for images in scratch.batches(batch_join.join_query(plan, sample)):
        scratch.add(batch_join.EXPECTED_TABLE, batch_join.expected_rows(plan, images))
    scratch.run(batch_join.compare_statement(plan))
    return list(scratch.rows("SELECT expected, found FROM differences"))


@settings(max_examples=settings().max_examples // 10)
@given(seed=st.integers(0, 2**62))
def test_the_output_as_it_should_be_has_no_differences(scratch: DuckdbScratch, seed: int) -> None:
    streams = streams_of(seed)
    emptied = load(streams.plan, scratch, *read_all(streams))

    assert compare(streams.plan, scratch, emptied, batch_join.EVERYTHING) == []


@settings(max_examples=settings().max_examples // 15)
@given(seed=st.integers(0, 2**62))
def test_a_row_that_was_not_published_is_named(scratch: DuckdbScratch, seed: int) -> None:
    streams = streams_of(seed)
    streams.truncates = streams.deletes = 0.0
    events, published = read_all(streams)
    if not published or published[-1].after is None:
        return
    lost, kept = published[-1].after, published[:-1]
    emptied = load(streams.plan, scratch, events, kept)

    found = compare(streams.plan, scratch, emptied, batch_join.EVERYTHING)

    expected = [batch_join.shown_rows(streams.plan, pa.array([each], pa.binary()))[0] for each, _ in found if each]
    assert sorted(map(repr, expected)) == sorted(map(repr, lost.to_pylist()))


def test_a_sample_takes_the_same_keys_on_both_sides(scratch: DuckdbScratch) -> None:
    for seed in range(3):
        streams = streams_of(seed)
        sample = batch_join.Sample(0.5, seed)
        emptied = load(streams.plan, scratch, *read_all(streams))

        assert compare(streams.plan, scratch, emptied, sample) == []


def test_what_is_left_of_a_scratch_database_is_nothing(tmp_path: Path) -> None:
    with open_scratch(tmp_path, DuckdbLimits(256, 1)) as scratch:
        scratch.run("CREATE TABLE t AS SELECT 1 AS n")
        assert scratch.value("SELECT n FROM t") == 1

    assert list(tmp_path.iterdir()) == []

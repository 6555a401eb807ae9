"""Whatever happens in the sources, however it is read: the output folded by key is SQL's join of what was read."""

from __future__ import annotations

from random import Random

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.joins.joined_streams import Folded, Streams, completed, random_inputs, random_plan

from penstock.core.errors import UsageError
from penstock.core.joins.algebra import JoinState
from penstock.core.joins.changes import changes_in_parts
from penstock.core.joins.completing import RowCompleter

_BATCHES = 5


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def streams_of(seed: int) -> Streams:
    rng = Random(seed)  # noqa: S311 - what it makes is no secret
    while True:
        inputs = random_inputs(rng)
        try:
            return Streams(rng, inputs, random_plan(rng, inputs))
        except UsageError:
            continue  # names that collide, or everything is excluded


# Each has micro-batches of its own, and takes a quarter of a second.
@settings(max_examples=2 * settings().max_examples // 5)
@given(seed=st.integers(0, 2**62))
def test_the_folded_output_is_the_join_of_what_was_read_after_each_micro_batch(
    database: duckdb.DuckDBPyConnection, seed: int
) -> None:
    streams = streams_of(seed)
    completer, state = RowCompleter(streams.plan), JoinState(len(streams.inputs), streams.plan.optional)
    folded, history = Folded(streams.plan), []

    for batch in range(_BATCHES):
        for _ in range(streams.rng.randint(0, 14)):
            streams.change()
        events = streams.read_some(1.0 if batch == _BATCHES - 1 else 0.7)
        differences = state.apply(completed(completer, events))
        cut = streams.rng.randint(0, len(differences))
        tables = [differences.slice(0, cut), differences.slice(cut)]
        folded.take(list(changes_in_parts(streams.plan, tables, streams.rng.choice([1 << 20, 200]))))
        history += events
        if streams.rng.random() < 0.2:  # it is lost, and made again of what was read
            completer, state = RowCompleter(streams.plan), JoinState(len(streams.inputs), streams.plan.optional)
            state.apply(completed(completer, history))

        expected = streams.join(database)
        assert len({tuple(row[name] for name in streams.plan.output.key) for row in expected}) == len(expected)
        assert sorted(map(repr, folded.rows.values())) == sorted(map(repr, expected))

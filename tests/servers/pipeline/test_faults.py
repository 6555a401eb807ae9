"""A few faults of `make faults`, chosen for what they break, on a whole pipeline with two instances."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.faults.broken import BrokenPipeline
from penstock.faults.catalogue import all_faults
from penstock.faults.pick import fault_source
from penstock.faults.suite import run_suite
from penstock.faults.world import World

if TYPE_CHECKING:
    from pathlib import Path

_FAULTS = (
    "kill -9 of a Python worker",
    "kill -9 of the tracker in the middle of an ALTER",
    "kill -9 of the broker",
    "connections cut: source",
    "network drops everything: schematizer",
)


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    said: list[str] = []
    with World(tmp_path / "world", BrokenPipeline(fault_source("mysql"))) as world:
        trials = run_suite(world, 1, range(len(_FAULTS)), said.append, _FAULTS)

    assert {trial.fault for trial in trials} == set(_FAULTS)
    assert sum(trial.changes for trial in trials) > 0
    assert [trial for trial in trials if not trial.is_clean] == [], said


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_a_join_is_the_sources_own_join_after_a_kill_and_without_its_state(tmp_path: Path) -> None:
    said: list[str] = []
    faults = ("kill -9 of the driver in a micro-batch of the join", "the state of the join is lost")
    with World(tmp_path / "world", BrokenPipeline(fault_source("mysql"), has_join=True)) as world:
        trials = run_suite(world, 1, range(len(faults)), said.append, faults)
        assert world.joined is not None
        joined = world.joined.rows()

    assert {trial.fault for trial in trials} == set(faults)
    assert joined
    assert [trial for trial in trials if not trial.is_clean] == [], said


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_a_join_that_is_made_again_comes_whole_while_something_breaks(tmp_path: Path) -> None:
    said: list[str] = []
    with World(tmp_path / "world", BrokenPipeline(fault_source("mysql"), has_join=True)) as world:
        known = all_faults(world.broken, with_full_disk=False)
        faults = [fault.name for fault in known if fault.name.endswith("while the join is made again")]
        trials = run_suite(world, 1, range(len(faults)), said.append, faults)
        assert world.joined is not None
        joined = world.joined.rows()

    assert {trial.fault for trial in trials} == set(faults)
    assert joined
    assert [trial for trial in trials if not trial.is_clean] == [], said


@pytest.mark.nightly
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("source", ["mysql", "postgres"])
def test_a_snapshot_comes_whole_while_something_breaks(tmp_path: Path, source: str) -> None:
    said: list[str] = []
    with World(tmp_path / "world", BrokenPipeline(fault_source(source))) as world:
        known = all_faults(world.broken, with_full_disk=False)
        faults = [fault.name for fault in known if fault.name.endswith("in a snapshot")]
        trials = run_suite(world, 1, range(len(faults)), said.append, faults)

    assert {trial.fault for trial in trials} == set(faults)
    assert [trial for trial in trials if not trial.is_clean] == [], said


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_log_of_a_slot_that_is_nearly_full_is_told_of_and_drains(tmp_path: Path) -> None:
    said: list[str] = []
    faults = ("the WAL that the slot may keep is nearly full",)
    with World(tmp_path / "world", BrokenPipeline(fault_source("postgres"))) as world:
        trials = run_suite(world, 1, range(2), said.append, faults)

    assert len(trials) == 2
    assert [trial for trial in trials if not trial.is_clean] == [], said


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_two_sources_come_whole_into_two_targets_whichever_of_them_ends(tmp_path: Path) -> None:
    said: list[str] = []
    faults = ("kill -9 of the second source", "kill -9 of the PostgreSQL target", "kill -9 of the leader, all of it")
    with World(tmp_path / "world", BrokenPipeline(fault_source("mysql"), is_double=True)) as world:
        trials = run_suite(world, 1, range(len(faults)), said.append, faults)

    assert [trial for trial in trials if not trial.is_clean] == [], said
    assert {trial.fault for trial in trials} == set(faults)

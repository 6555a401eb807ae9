"""Which faults the fault suite has to choose from."""

from __future__ import annotations

import pytest

from penstock.faults.broken import BrokenPipeline
from penstock.faults.catalogue import all_faults
from penstock.faults.pick import fault_source


@pytest.mark.parametrize("is_double", [False, True])
def test_processes_crash_where_the_workload_leads_and_nowhere_else(is_double: bool) -> None:  # noqa: FBT001 - a parameter
    broken = BrokenPipeline(fault_source("mysql"), is_double=is_double)

    names = {fault.name for fault in all_faults(broken, with_full_disk=False)}

    families = {name.removeprefix("crash at ").partition(".")[0] for name in names if name.startswith("crash at ")}
    assert families == {"load", "objects", "publish", "publisher", "snapshot", "statement"}


@pytest.mark.parametrize(("kind", "has_slot"), [("mysql", False), ("postgres", True)])
def test_the_log_of_a_source_fills_up_where_its_server_keeps_it_for_us_alone(kind: str, *, has_slot: bool) -> None:
    names = {fault.name for fault in all_faults(BrokenPipeline(fault_source(kind)), with_full_disk=False)}

    assert ("the WAL that the slot may keep is nearly full" in names) == has_slot

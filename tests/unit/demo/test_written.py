"""What the live page says the source has."""

from __future__ import annotations

from penstock.demo.phases import count_written
from penstock.demo.workload import WorkloadProgress


def test_a_new_table_whose_first_statements_met_no_row_is_shown_empty() -> None:
    progress = WorkloadProgress(changes={"users": 2, "bookings": 0}, newest={"users": 8.0})

    written = count_written({"users": (10, 5.0), "audit_log": (3, 5.0)}, progress)

    assert written == {"users": (12, 8.0), "audit_log": (3, 5.0), "bookings": (0, 0.0)}

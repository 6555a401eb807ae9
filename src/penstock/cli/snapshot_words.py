"""How far a snapshot is, for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.cli.console import format_seconds
from penstock.core.snapshots import Method
from penstock.wiring.snapshot_progress import seconds_left, state_word

if TYPE_CHECKING:
    from penstock.ports.snapshots import Snapshot


def describe_snapshot(snapshot: Snapshot) -> dict[str, object]:
    """One snapshot as `--json` prints it; every key is documented in docs/snapshots.md."""
    options = snapshot.options
    return {
        "id": snapshot.id,
        "source": snapshot.source,
        "table": snapshot.table,
        "status": snapshot.status,
        "wanted": snapshot.wanted,
        "where": options.where or None,
        "keys": len(options.keys) or None,
        "chunk_rows": options.chunk_rows,
        "rows_per_second_max": options.rows_per_second or None,
        "full_refresh": options.full_refresh,
        "link": options.link or None,
        "method": options.method,
        "lock_ms": options.lock_ms if options.method is Method.BLACKHOLE else None,
        "rows": snapshot.rows,
        "rows_expected": snapshot.rows_expected,
        "seconds_left": seconds_left(snapshot),
        "requested_at_ms": snapshot.requested_at_ms,
        "started_at_ms": snapshot.started_at_ms or None,
        "updated_at_ms": snapshot.updated_at_ms,
        "error": snapshot.error or None,
        "hint": snapshot.hint or None,
    }


def snapshot_line(snapshot: Snapshot, source: str = "") -> str:
    """One snapshot in a line, which names the `source` if it is given."""
    of_about = f" of about {snapshot.rows_expected:,}" if snapshot.rows_expected and not snapshot.options.where else ""
    left = seconds_left(snapshot)
    ahead = "" if left is None else f", {format_seconds(left)} left"
    whose = f" for {snapshot.options.link}" if snapshot.options.link else ""
    named = f"{snapshot.table} of {source}" if source else snapshot.table
    return f"{named}{whose}: {state_word(snapshot)}, {snapshot.rows:,}{of_about} rows{ahead}"

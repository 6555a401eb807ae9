"""Snapshots beside a capture of any kind: carried, and asked for where a start finds that a table needs one."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from penstock.core.errors import PenstockError
from penstock.core.snapshots import SnapshotOptions, Status, Wanted
from penstock.core.tables import TableId
from penstock.links.capture.gone_tables import GoneTables
from penstock.links.capture.refresher_state import Known
from penstock.links.capture.refreshers import Refreshers
from penstock.ports.snapshots import Snapshot
from penstock.wiring.open import open_snapshot_list

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from penstock.config.specs import SourceSpec
    from penstock.links.capture.open_capture import OpenCapture
    from penstock.links.capture.spec import CaptureSpec
    from penstock.ports.relations import Gone
    from penstock.ports.snapshots import RowReader, SnapshotList


def open_refreshers(
    spec: CaptureSpec,
    capture: OpenCapture,
    readers: Sequence[RowReader],
    added: Callable[[], Sequence[TableId]],
    returned: Callable[[], Sequence[TableId]] = tuple,
    gone: Callable[[Collection[int]], Gone] | None = None,
) -> Refreshers | None:
    """Carry the snapshots of a capture that has begun; None where brokers cannot commit them with their progress.

    `added` looks for the tables that the source has and the capture was never told of, `returned` for those
    that changed while the log did not have them. `gone` says which numbers no table has any more, for a log
    that does not tell of that.
    """
    if not spec.pipeline.kafka.transactions:
        return None
    snapshots = open_snapshot_list(spec.pipeline)
    try:
        # What a process that was killed left behind. Where that fails now, the next start does it.
        with suppress(PenstockError):
            readers[0].sweep(lambda id_: id_ not in capture.snapshots)
        ask_by_itself(spec.source, capture.stopped, snapshots, added, returned)
    except BaseException:
        snapshots.close()
        raise
    started = [(reader, ThreadPoolExecutor(1, "snapshot").submit) for reader in readers]
    known = Known(spec.source.snapshot_tables, spec.source.snapshot_readers)
    ended = None
    if gone is not None:
        ask_for_new = partial(ask_by_itself, spec.source, capture.stopped, snapshots, added, tuple)
        ended = GoneTables(capture, gone, ThreadPoolExecutor(1, "catalog").submit, ask_for_new)
    return Refreshers(capture, snapshots, started, known, ended)


def readers_at_once(source: SourceSpec) -> int:
    """How many readers a source has: those of one table at once, or one for each of several."""
    return max(source.snapshot_tables, source.snapshot_readers)


def new_snapshot(source: str, table: str, options: SnapshotOptions) -> Snapshot:
    """A snapshot that nobody has asked for yet."""
    return Snapshot(uuid.uuid4().hex[:12], source, table, options, Wanted.RUN, Status.REQUESTED)


def ask_by_itself(
    source: SourceSpec,
    stopped: Collection[str],
    snapshots: SnapshotList,
    added: Callable[[], Sequence[TableId]],
    returned: Callable[[], Sequence[TableId]],
) -> None:
    """Ask for a snapshot of each table that the config has added, or that needs one, unless one failed before.

    One for a single link says nothing of that; while it is open there can be no other.
    """
    if source.snapshot == "never":
        return
    tables = {str(table): SnapshotOptions() for table in added()}
    if source.snapshot == "when-needed":
        wanted = [table for table in sorted(stopped) if source.patterns.matches(TableId.parse(table))]
        tables |= dict.fromkeys(wanted, SnapshotOptions())
    tables |= {str(table): SnapshotOptions(full_refresh=True) for table in returned()}
    if not tables:
        return
    told = [each for each in snapshots.all(source.name) if not (each.options.link and each.status.has_ended)]
    newest = {each.table: each.status for each in told}
    for table, options in tables.items():
        if newest.get(table) in {None, Status.DONE, Status.CANCELLED}:
            snapshots.add(new_snapshot(source.name, table, options))

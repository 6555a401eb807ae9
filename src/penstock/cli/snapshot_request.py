"""What `penstock snapshot` asks a pipeline for, from what was typed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from penstock.core.errors import UsageError
from penstock.core.snapshots import CHUNK_ROWS_MAX, KEYS_MAX, SnapshotOptions, Wanted
from penstock.wiring.snapshots import ask_for_snapshots, want_snapshots

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from penstock.config.specs import PipelineSpec
    from penstock.ports.snapshots import Snapshot

_WANTED = {"pause": Wanted.PAUSE, "resume": Wanted.RUN, "cancel": Wanted.CANCEL}


def request_snapshots(
    spec: PipelineSpec, tables: Sequence[str], typed: tuple[str, Path | None, int, int], *, full_refresh: bool
) -> Sequence[Snapshot]:
    """Ask for snapshots with --where, --keys, --chunk-rows, --rows-per-second and --full-refresh as `typed`."""
    where, keys_file, chunk_rows, rows_per_second = typed
    if full_refresh and (where or keys_file is not None):
        message = "--full-refresh empties the table in targets, and only some of its rows would come back"
        raise UsageError(message, "leave --where and --keys out")
    if not 1 <= chunk_rows <= CHUNK_ROWS_MAX or rows_per_second < 0:
        message = f"--chunk-rows {chunk_rows} or --rows-per-second {rows_per_second} is out of its range"
        raise UsageError(message, f"--chunk-rows may be 1 to {CHUNK_ROWS_MAX:,}, --rows-per-second 0 or more")
    if keys_file is not None and (where or len(tables) > 1):
        message = "--keys are of one table, and say already which rows are meant"
        raise UsageError(message, "name one table, and leave --where out")
    keys = () if keys_file is None else _read_keys(keys_file)
    return ask_for_snapshots(spec, tables, SnapshotOptions(where, keys, chunk_rows, rows_per_second, full_refresh))


def change_snapshots(spec: PipelineSpec, tables: Sequence[str], what: str) -> Sequence[Snapshot]:
    """Pause, resume or cancel the snapshots of `tables`."""
    return want_snapshots(spec, tables, _WANTED[what])


def _read_keys(file: Path) -> tuple[str, ...]:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"the keys in {file} cannot be read: {error}"
        raise UsageError(message, "give a file of UTF-8 text with one key in JSON on each line") from error
    keys = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not 1 <= len(keys) <= KEYS_MAX:
        message = f"{file} has {len(keys):,} keys"
        raise UsageError(message, f"give 1 to {KEYS_MAX:,} at once; for more rows use --where, or all of the table")
    return keys

"""What `penstock snapshot` asks a pipeline for, from what was typed."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.core.errors import UsageError
from penstock.core.snapshots import CHUNK_ROWS_MAX, KEYS_MAX, LOCK_MS_MAX, LOCK_MS_MIN, Method, Wanted
from penstock.wiring.snapshots import ask_for_snapshots, want_snapshots

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from penstock.config.specs import PipelineSpec
    from penstock.core.snapshots import SnapshotOptions
    from penstock.ports.snapshots import Snapshot

_WANTED = {"pause": Wanted.PAUSE, "resume": Wanted.RUN, "cancel": Wanted.CANCEL}


def request_snapshots(
    spec: PipelineSpec, tables: Sequence[str], typed: SnapshotOptions, keys_file: Path | None, source_name: str = ""
) -> Sequence[Snapshot]:
    """Ask for snapshots with the options `typed`, of the keys in `keys_file` if there is one."""
    is_part = bool(typed.where) or keys_file is not None
    if typed.full_refresh and is_part:
        message = "--full-refresh and --full-lock empty the table in targets, and only some of its rows would come back"
        raise UsageError(message, "leave --where and --keys out")
    if not 1 <= typed.chunk_rows <= CHUNK_ROWS_MAX or typed.rows_per_second < 0:
        message = f"--chunk-rows {typed.chunk_rows} or --rows-per-second {typed.rows_per_second} is out of its range"
        raise UsageError(message, f"--chunk-rows may be 1 to {CHUNK_ROWS_MAX:,}, --rows-per-second 0 or more")
    if not LOCK_MS_MIN <= typed.lock_ms <= LOCK_MS_MAX:
        message = f"--lock-ms {typed.lock_ms} is out of its range"
        raise UsageError(message, f"--lock-ms may be {LOCK_MS_MIN} to {LOCK_MS_MAX:,}")
    if typed.method is Method.FULL_LOCK and typed.rows_per_second:
        message = "--full-lock keeps the table locked until all of it is read, and --rows-per-second would draw it out"
        raise UsageError(message, "leave --rows-per-second out")
    if typed.method is Method.BLACKHOLE and keys_file is not None:
        message = "--blackhole copies rows that are there, and of --keys some may have gone"
        raise UsageError(message, "leave --blackhole out: --keys locks nothing")
    if keys_file is not None and (typed.where or len(tables) > 1):
        message = "--keys are of one table, and say already which rows are meant"
        raise UsageError(message, "name one table, and leave --where out")
    if typed.link and (not typed.full_refresh or typed.method is Method.FULL_LOCK):
        message = "--link says whose target --full-refresh empties; other ways concern all targets"
        raise UsageError(message, "give --full-refresh with it, without --full-lock; or leave --link out")
    keys = () if keys_file is None else _read_keys(keys_file)
    return ask_for_snapshots(spec, tables, replace(typed, keys=keys), source_name)


def change_snapshots(spec: PipelineSpec, tables: Sequence[str], what: str, source_name: str = "") -> Sequence[Snapshot]:
    """Pause, resume or cancel the snapshots of `tables`."""
    return want_snapshots(spec, tables, _WANTED[what], source_name)


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

"""The snapshots of a pipeline (ports/snapshots.SnapshotList), in the state database."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, select, update

from penstock.adapters.state.database import transaction
from penstock.adapters.state.migrate import open_current
from penstock.adapters.state.tables import SNAPSHOTS
from penstock.core.commands import shell_word
from penstock.core.errors import UsageError
from penstock.core.snapshots import Method, SnapshotOptions, Status, Wanted
from penstock.ports.snapshots import Snapshot

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sqlalchemy import ColumnElement, Connection, Engine, Row

# SQLite lets a reader become a writer only if nobody else wrote in between.
_WRITE = "BEGIN IMMEDIATE"


def open_snapshots(url: str, pipeline: str) -> SqlSnapshots:
    """Open the state database at `url`, as `open_state` does."""
    return SqlSnapshots(open_current(url), pipeline)


class SqlSnapshots:
    """A `SnapshotList`. Every method raises UnavailableError when the database is away, busy or full."""

    def __init__(self, engine: Engine, pipeline: str) -> None:
        """Take over an engine whose database has this release's tables."""
        self._engine = engine
        self._pipeline = pipeline

    def add(self, snapshot: Snapshot, in_place_of: Collection[str] = ()) -> None:
        """See ports/snapshots.SnapshotList."""
        with transaction(self._engine, _WRITE) as connection:
            found = self._read(connection, snapshot.source, is_open=True)
            others = [other for other in found if other.table == snapshot.table]
            if any(other.id not in in_place_of for other in others):
                message = f"a snapshot of {snapshot.table} is under way already"
                hint = f"wait for it, or end it: penstock snapshot FILE {shell_word(snapshot.table)} --cancel"
                raise UsageError(message, hint)
            for other in others:
                connection.execute(update(SNAPSHOTS).where(*self._mine(other.id)).values(wanted=Wanted.CANCEL))
            connection.execute(insert(SNAPSHOTS).values(self._row(snapshot)))

    def want(self, id_: str, wanted: Wanted) -> None:
        """See ports/snapshots.SnapshotList."""
        with transaction(self._engine) as connection:
            connection.execute(update(SNAPSHOTS).where(*self._mine(id_)).values(wanted=wanted))

    def tell(self, snapshot: Snapshot) -> None:
        """See ports/snapshots.SnapshotList."""
        told = {
            "status": snapshot.status,
            "rows_done": snapshot.rows,
            "rows_expected": snapshot.rows_expected,
            "started_at_ms": snapshot.started_at_ms,
            "updated_at_ms": _now_ms(),
            "error": snapshot.error,
            "hint": snapshot.hint,
            "ran_ms": snapshot.ran_ms,
        }
        with transaction(self._engine) as connection:
            connection.execute(update(SNAPSHOTS).where(*self._mine(snapshot.id)).values(told))

    def all(self, source: str | None = None, *, is_open: bool = False) -> Sequence[Snapshot]:
        """See ports/snapshots.SnapshotList."""
        with transaction(self._engine) as connection:
            return self._read(connection, source, is_open=is_open)

    def close(self) -> None:
        """Drop the connections. Safe to call twice."""
        self._engine.dispose()

    def _read(self, connection: Connection, source: str | None, *, is_open: bool) -> list[Snapshot]:
        table, ended = SNAPSHOTS, [status.value for status in Status if status.has_ended]
        query = select(table).where(table.c.pipeline == self._pipeline)
        if is_open:
            query = query.where(table.c.status.not_in(ended))
        rows = connection.execute(query.order_by(table.c.requested_at_ms, table.c.snapshot_id))
        return [_snapshot(row) for row in rows if source in {None, row.source}]

    def _mine(self, id_: str) -> list[ColumnElement[bool]]:
        return [SNAPSHOTS.c.pipeline == self._pipeline, SNAPSHOTS.c.snapshot_id == id_]

    def _row(self, snapshot: Snapshot) -> dict[str, object]:
        return {
            "pipeline": self._pipeline,
            "snapshot_id": snapshot.id,
            "source": snapshot.source,
            "table_name": snapshot.table,
            "options": json.dumps(_fields(snapshot.options)),
            "wanted": snapshot.wanted,
            "status": snapshot.status,
            "rows_done": snapshot.rows,
            "rows_expected": snapshot.rows_expected,
            "requested_at_ms": _now_ms(),
            "started_at_ms": 0,
            "updated_at_ms": _now_ms(),
            "error": "",
            "hint": "",
        }


def _snapshot(row: Row[tuple[object, ...]]) -> Snapshot:
    return Snapshot(
        id=row.snapshot_id,
        source=row.source,
        table=row.table_name,
        options=_options(json.loads(row.options)),
        wanted=Wanted(row.wanted),
        status=Status(row.status),
        rows=row.rows_done,
        rows_expected=row.rows_expected,
        requested_at_ms=row.requested_at_ms,
        started_at_ms=row.started_at_ms,
        updated_at_ms=row.updated_at_ms,
        error=row.error,
        hint=row.hint,
        ran_ms=row.ran_ms,
    )


def _fields(options: SnapshotOptions) -> dict[str, object]:
    """Options as JSON values; earlier releases refuse a link."""
    return {name: value for name, value in asdict(options).items() if value or name != "link"}


def _options(fields: dict[str, Any]) -> SnapshotOptions:
    """Read options back; earlier releases knew one method."""
    keys, method = tuple(fields["keys"]), Method(fields.get("method", Method.READ_ONLY))
    return SnapshotOptions(**{**fields, "keys": keys, "method": method})


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

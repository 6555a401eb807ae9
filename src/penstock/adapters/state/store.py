"""The state database behind `penstock.ports.state.State`, on any database that SQLAlchemy reaches."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sqlalchemy import Table, delete, select, update

from penstock.adapters.state.database import open_engine, transaction
from penstock.adapters.state.migrate import migrate
from penstock.adapters.state.tables import (
    DATA_EVENT_CHECKPOINT,
    GLOBAL_EVENT_STATE,
    LINK_PROGRESS,
    MYSQL_DUMPS,
    TABLE_PROGRESS,
)
from penstock.adapters.state.upserts import upsert
from penstock.core.positions import BinlogPosition
from penstock.ports.state import LinkProgress, TableProgress, TrackerDump

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import ColumnElement, Engine, Row


def open_state(url: str, pipeline: str) -> SqlState:
    """Open the state database at `url`, an SQLAlchemy URL, and bring its tables to this release's.

    Raises UsageError for a URL that cannot work or a database of a newer
    release, UnavailableError when the database is away.
    """
    engine = open_engine(url)
    try:
        migrate(engine)
    except BaseException:
        engine.dispose()
        raise
    return SqlState(engine, pipeline)


class SqlState:
    """One pipeline's rows. Every method is one transaction, durable when it returns.

    Every method raises UnavailableError when the database is away, busy for
    longer than 10 seconds, or full. Threads may share one; processes may not.
    """

    def __init__(self, engine: Engine, pipeline: str) -> None:
        """Take over an engine whose database `open_state` has brought up to date."""
        self._engine = engine
        self._pipeline = pipeline

    def close(self) -> None:
        """Drop the connections. Safe to call twice."""
        self._engine.dispose()

    def tracker_dump(self, source: str) -> TrackerDump | None:
        """The dump that a crash left behind, if any."""
        table = MYSQL_DUMPS
        rows = self._rows(table, table.c.source == source)
        return TrackerDump(_position(rows[0]), rows[0].dump) if rows else None

    def keep_tracker_dump(self, source: str, dump: TrackerDump) -> None:
        """Write the dump, replacing an older one."""
        row = {**self._key(source=source), **_position_columns(dump.position), "dump": dump.dump}
        with transaction(self._engine) as connection:
            upsert(connection, MYSQL_DUMPS, [row])

    def drop_tracker_dump(self, source: str) -> None:
        """Forget the dump: its statement is applied and checkpointed."""
        table = MYSQL_DUMPS
        with transaction(self._engine) as connection:
            connection.execute(delete(table).where(table.c.pipeline == self._pipeline, table.c.source == source))

    def save_position(
        self, source: str, position: BinlogPosition, records_offset: int, topic_offsets: Mapping[str, int]
    ) -> None:
        """Mirror a source's position and its topics' last offsets; topics that are not named keep theirs."""
        state = {**self._key(source=source), **_position_columns(position), "records_offset": records_offset}
        checkpoints = [
            {**self._key(source=source), "topic_partition": topic_partition, "last_offset": offset}
            for topic_partition, offset in sorted(topic_offsets.items())
        ]
        with transaction(self._engine) as connection:
            upsert(connection, GLOBAL_EVENT_STATE, [state])
            upsert(connection, DATA_EVENT_CHECKPOINT, checkpoints)

    def position(self, source: str) -> tuple[BinlogPosition, int] | None:
        """The mirrored position and the offset in the positions topic it was read up to."""
        rows = self._rows(GLOBAL_EVENT_STATE, GLOBAL_EVENT_STATE.c.source == source)
        return (_position(rows[0]), rows[0].records_offset) if rows else None

    def add_rows(self, link: str, rows: Mapping[str, tuple[int, int]]) -> None:
        """Add to the tables' progress: table to (rows, newest commit time in Unix ms). Errors stay."""
        progress = [
            self._table_row(link, table, rows=count, timestamp_ms=timestamp_ms)
            for table, (count, timestamp_ms) in sorted(rows.items())
        ]
        with transaction(self._engine) as connection:
            upsert(
                connection,
                TABLE_PROGRESS,
                progress,
                adding=("carried_rows",),
                growing=("last_timestamp_ms",),
                keeping=("error", "hint"),
            )

    def save_link(self, progress: LinkProgress) -> None:
        """Replace what is known of a link."""
        row = {
            "pipeline": self._pipeline,
            "link": progress.link,
            "position": progress.position,
            "state": progress.state,
            "lag_seconds": progress.lag_seconds,
            "lag_bytes": progress.lag_bytes,
            "updated_at_ms": progress.updated_at_ms,
            "error": progress.error,
            "hint": progress.hint,
        }
        with transaction(self._engine) as connection:
            upsert(connection, LINK_PROGRESS, [row])

    def stop_table(self, link: str, table: str, error: str, hint: str) -> None:
        """Write down that a table stopped, and why; what it has carried stays."""
        row = self._table_row(link, table, error=error, hint=hint)
        with transaction(self._engine) as connection:
            upsert(connection, TABLE_PROGRESS, [row], keeping=("carried_rows", "last_timestamp_ms"))

    def note_table(self, link: str, table: str, note: str) -> None:
        """Write down what is good to know of a table, as a hint without an error; what it has carried stays."""
        row = self._table_row(link, table, hint=note)
        with transaction(self._engine) as connection:
            upsert(connection, TABLE_PROGRESS, [row], keeping=("carried_rows", "last_timestamp_ms"))

    def resume_table(self, link: str, table: str) -> None:
        """Clear a table's error; nothing happens if there is none."""
        progress = TABLE_PROGRESS
        mine = (
            progress.c.pipeline == self._pipeline,
            progress.c.link == link,
            progress.c.table_name == table,
        )
        with transaction(self._engine) as connection:
            connection.execute(update(progress).where(*mine).values(error="", hint="", updated_at_ms=_now_ms()))

    def stopped_tables(self, link: str) -> Mapping[str, str]:
        """Tables of `link` that stopped, with their error."""
        rows = self._rows(TABLE_PROGRESS, TABLE_PROGRESS.c.link == link, TABLE_PROGRESS.c.error != "")
        return {row.table_name: row.error for row in rows}

    def links(self) -> Sequence[LinkProgress]:
        """Every link, sorted by name."""
        return [
            LinkProgress(
                row.link,
                row.position,
                row.state,
                row.lag_seconds,
                row.lag_bytes,
                row.updated_at_ms,
                row.error,
                row.hint,
            )
            for row in sorted(self._rows(LINK_PROGRESS), key=lambda row: str(row.link))
        ]

    def tables(self) -> Sequence[TableProgress]:
        """Every table of every link, sorted by link and table."""
        return [
            TableProgress(
                row.link,
                row.table_name,
                row.carried_rows,
                row.last_timestamp_ms,
                row.updated_at_ms,
                row.error,
                row.hint,
            )
            for row in sorted(self._rows(TABLE_PROGRESS), key=lambda row: (str(row.link), str(row.table_name)))
        ]

    def _rows(self, table: Table, *conditions: ColumnElement[bool]) -> Sequence[Row[tuple[object, ...]]]:
        with transaction(self._engine) as connection:
            return connection.execute(select(table).where(table.c.pipeline == self._pipeline, *conditions)).all()

    def _key(self, *, source: str) -> dict[str, object]:
        return {"pipeline": self._pipeline, "source": source, "updated_at_ms": _now_ms()}

    def _table_row(
        self, link: str, table: str, *, rows: int = 0, timestamp_ms: int = 0, error: str = "", hint: str = ""
    ) -> dict[str, object]:
        return {
            "pipeline": self._pipeline,
            "link": link,
            "table_name": table,
            "carried_rows": rows,
            "last_timestamp_ms": timestamp_ms,
            "updated_at_ms": _now_ms(),
            "error": error,
            "hint": hint,
        }


def _position(row: Row[tuple[object, ...]]) -> BinlogPosition:
    return BinlogPosition(row.log_file, row.log_offset, row.rows_from, row.gtids)


def _position_columns(position: BinlogPosition) -> dict[str, object]:
    return {
        "log_file": position.file,
        "log_offset": position.offset,
        "rows_from": position.rows_from,
        "gtids": position.gtids,
    }


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

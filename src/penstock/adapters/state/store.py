"""The state database behind `penstock.ports.state.State`, on any database that SQLAlchemy reaches."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from sqlalchemy import Table, delete, select, update

from penstock.adapters.state.database import transaction
from penstock.adapters.state.migrate import open_current
from penstock.adapters.state.tables import (
    DATA_EVENT_CHECKPOINT,
    GLOBAL_EVENT_STATE,
    LINK_PLACE,
    LINK_PROGRESS,
    MYSQL_DUMPS,
    PIPELINE_IDENTITY,
    TABLE_PROGRESS,
)
from penstock.adapters.state.upserts import upsert
from penstock.core.positions import BinlogPosition, PreparedXa, WalPosition, parse_lsn
from penstock.ports.state import LinkProgress, PipelineIdentity, TableProgress, TrackerDump

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection, Engine, Row

    from penstock.core.positions import Position
    from penstock.ports.state import Rows

_LSN_MARK = "/"
_CARRIED = ("carried_rows", "last_timestamp_ms")


def open_state(url: str, pipeline: str) -> SqlState:
    """Open the state database at `url`, an SQLAlchemy URL; an empty one gets its tables.

    Raises UsageError for a URL that cannot work or a database of another
    release, UnavailableError when the database is away.
    """
    return SqlState(open_current(url), pipeline)


class SqlState:
    """One pipeline's rows. Every method is one transaction, durable when it returns.

    Every method raises UnavailableError when the database is away, busy for
    longer than 10 seconds, or full. Threads may share one; processes may not.
    """

    def __init__(self, engine: Engine, pipeline: str) -> None:
        """Take over an engine whose database has this release's tables."""
        self._engine = engine
        self._pipeline = pipeline

    def close(self) -> None:
        """Drop the connections. Safe to call twice."""
        self._engine.dispose()

    def identity(self) -> PipelineIdentity | None:
        """Whose rows these are, None before the first start of a release that wrote it down."""
        rows = self._rows(PIPELINE_IDENTITY)
        return PipelineIdentity(rows[0].kafka_cluster, tuple(json.loads(rows[0].sources))) if rows else None

    def save_identity(self, identity: PipelineIdentity) -> None:
        """Write down whose rows these are."""
        row = {
            "pipeline": self._pipeline,
            "kafka_cluster": identity.kafka_cluster,
            "sources": json.dumps(identity.sources),
            "updated_at_ms": _now_ms(),
        }
        with transaction(self._engine) as connection:
            upsert(connection, PIPELINE_IDENTITY, [row])

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

    def drop_tracker_dump(self, source: str, position: Position) -> None:
        """Forget the dump of the statement at `position`; another one stays."""
        table = MYSQL_DUMPS
        ours = [table.c.pipeline == self._pipeline, table.c.source == source]
        columns = _position_columns(position)
        place = [table.c[name] == columns[name] for name in ("log_file", "log_offset")]
        with transaction(self._engine) as connection:
            connection.execute(delete(table).where(*ours, *place))

    def save_position(
        self, source: str, position: Position, records_offset: int, topic_offsets: Mapping[str, int], rows: Rows
    ) -> None:
        """Mirror a source's position and its topics' last offsets, and add `rows`; topics not named keep theirs."""
        prepared, heartbeat = "[]", None
        if isinstance(position, BinlogPosition):
            prepared = json.dumps([[xa.xid, xa.file, xa.offset] for xa in position.prepared])
            heartbeat = position.heartbeat if position.heartbeat and position.heartbeat.serial else None
        state = {
            **self._key(source=source),
            **_position_columns(position),
            "records_offset": records_offset,
            "prepared": prepared,
            "heartbeat_serial": heartbeat and heartbeat.serial,
            "heartbeat_timestamp_ms": heartbeat and heartbeat.timestamp_ms,
        }
        checkpoints = [
            {**self._key(source=source), "topic_partition": topic_partition, "last_offset": offset}
            for topic_partition, offset in sorted(topic_offsets.items())
        ]
        with transaction(self._engine) as connection:
            upsert(connection, GLOBAL_EVENT_STATE, [state])
            upsert(connection, DATA_EVENT_CHECKPOINT, checkpoints)
            self._add_rows(connection, source, rows)

    def position(self, source: str) -> tuple[Position, int] | None:
        """The mirrored position and the offset in the positions topic it was read up to."""
        rows = self._rows(GLOBAL_EVENT_STATE, GLOBAL_EVENT_STATE.c.source == source)
        if not rows:
            return None
        position = _position(rows[0])
        if isinstance(position, BinlogPosition):
            prepared = tuple(PreparedXa(*xa) for xa in json.loads(rows[0].prepared or "[]"))
            position = replace(position, prepared=prepared)
        return position, rows[0].records_offset

    def heartbeat(self, source: str) -> tuple[int, int] | None:
        """The mirrored serial and time (Unix ms) of the newest heartbeat before the position, None before the first."""
        rows = self._rows(GLOBAL_EVENT_STATE, GLOBAL_EVENT_STATE.c.source == source)
        found = rows[0] if rows and rows[0].heartbeat_serial is not None else None
        return None if found is None else (found.heartbeat_serial, found.heartbeat_timestamp_ms)

    def topic_offsets(self, source: str) -> Mapping[str, int]:
        """Where the partitions of a source's topics ended, as mirrored, by `topic/partition`."""
        rows = self._rows(DATA_EVENT_CHECKPOINT, DATA_EVENT_CHECKPOINT.c.source == source)
        return {row.topic_partition: row.last_offset for row in rows}

    def add_rows(self, link: str, rows: Rows) -> None:
        """Add to the tables' progress. Errors stay."""
        with transaction(self._engine) as connection:
            self._add_rows(connection, link, rows)

    def _add_rows(self, connection: Connection, link: str, rows: Rows) -> None:
        progress = [
            self._table_row(link, table, rows=count, timestamp_ms=timestamp_ms)
            for table, (count, timestamp_ms) in sorted(rows.items())
        ]
        upsert(
            connection,
            TABLE_PROGRESS,
            progress,
            adding=("carried_rows",),
            latest=("last_timestamp_ms",),
            keeping=("error", "hint", "behind_since_ms", "stopped_at_ms"),
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
            "error": _shown(progress.error),
            "hint": _shown(progress.hint),
            "behind_since_ms": progress.behind_since_ms,
            "lag_messages": progress.lag_messages,
            "moved_at_ms": progress.moved_at_ms,
            "running_since_ms": progress.running_since_ms,
            "failures": progress.failures,
            "failed_at_ms": progress.failed_at_ms,
            "failure": _shown(progress.failure),
            "dead_letters": progress.dead_letters,
        }
        with transaction(self._engine) as connection:
            upsert(connection, LINK_PROGRESS, [row])

    def save_table_lags(self, link: str, behind_since_ms: Mapping[str, int]) -> None:
        """Write down since when each of some tables is behind, 0 for those that are not; the rest stays."""
        rows = [
            {**self._table_row(link, table), "behind_since_ms": since_ms}
            for table, since_ms in sorted(behind_since_ms.items())
        ]
        with transaction(self._engine) as connection:
            upsert(connection, TABLE_PROGRESS, rows, keeping=(*_CARRIED, "error", "hint", "stopped_at_ms"))

    def save_place(self, link: str, offset: int) -> None:
        """Write down which offset of its topic a link reads next."""
        row = {"pipeline": self._pipeline, "link": link, "next_offset": offset, "updated_at_ms": _now_ms()}
        with transaction(self._engine) as connection:
            upsert(connection, LINK_PLACE, [row])

    def place(self, link: str) -> int | None:
        """The offset that `save_place` wrote down, None if it never did."""
        rows = self._rows(LINK_PLACE, LINK_PLACE.c.link == link)
        return rows[0].next_offset if rows else None

    def stop_table(self, link: str, table: str, error: str, hint: str, since_ms: int) -> None:
        """Write down that a table stopped, since when and why; what it has carried stays."""
        row = {**self._table_row(link, table, error=error, hint=hint), "stopped_at_ms": since_ms}
        with transaction(self._engine) as connection:
            upsert(connection, TABLE_PROGRESS, [row], keeping=(*_CARRIED, "behind_since_ms"))

    def note_table(self, link: str, table: str, note: str) -> None:
        """Write down what is good to know of a table, as a hint without an error; what it has carried stays."""
        row = self._table_row(link, table, hint=note)
        with transaction(self._engine) as connection:
            upsert(connection, TABLE_PROGRESS, [row], keeping=(*_CARRIED, "behind_since_ms", "stopped_at_ms"))

    def resume_table(self, link: str, table: str) -> None:
        """Clear a table's error; nothing happens if there is none."""
        progress = TABLE_PROGRESS
        mine = (
            progress.c.pipeline == self._pipeline,
            progress.c.link == link,
            progress.c.table_name == table,
        )
        cleared = {"error": "", "hint": "", "stopped_at_ms": 0, "updated_at_ms": _now_ms()}
        with transaction(self._engine) as connection:
            connection.execute(update(progress).where(*mine).values(cleared))

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
                row.behind_since_ms,
                row.lag_messages,
                row.moved_at_ms,
                row.running_since_ms,
                row.failures,
                row.failed_at_ms,
                row.failure or "",
                row.dead_letters,
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
                row.behind_since_ms,
                row.stopped_at_ms,
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
            "error": _shown(error),
            "hint": _shown(hint),
            "behind_since_ms": None,
            "stopped_at_ms": 0,
        }


def _position(row: Row[tuple[object, ...]]) -> Position:
    """Read a position back. No binlog has a slash in its name, and every LSN has one."""
    if _LSN_MARK in row.log_file:
        return WalPosition(parse_lsn(row.log_file), row.rows_from)
    return BinlogPosition(row.log_file, row.log_offset, row.rows_from, row.gtids)


def _position_columns(position: Position) -> dict[str, object]:
    match position:
        case BinlogPosition(file, offset, rows_from, gtids):
            return {"log_file": file, "log_offset": offset, "rows_from": rows_from, "gtids": gtids}
        case WalPosition(_, rows_from):
            return {"log_file": str(position), "log_offset": 0, "rows_from": rows_from, "gtids": ""}
        case _:
            assert_never(position)


def _shown(text: str) -> str:
    """`text` as every database can hold it: an error may show bytes that are none."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

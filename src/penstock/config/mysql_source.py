"""A MySQL or MariaDB source in a pipeline's file, and the limits that it has."""

from __future__ import annotations

import zlib
from pathlib import Path  # noqa: TC003 - as pydantic reads annotations
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field

from penstock.config.rules import EnvironmentName, SourceName, TableList  # noqa: TC001 - pydantic reads them
from penstock.config.spec import (
    LargeValues,
    Port,
    SnapshotCommitSeconds,
    SnapshotReaders,
    SnapshotTables,
    Spec,
    Start,
    TailSliceSeconds,
    Text,
    TlsSpec,
)
from penstock.core.changes import MessageFormat  # noqa: TC001 - pydantic reads it from a field's annotation
from penstock.core.patterns import TablePatterns
from penstock.core.system_schemas import MYSQL as SYSTEM_SCHEMAS
from penstock.core.table_policy import RowImages, TablePolicy
from penstock.core.tables import TableId
from penstock.core.zero_dates import ZeroDates  # noqa: TC001 - pydantic reads it from a field's annotation

SERVER_IDS_PER_SOURCE = 1024
BACKLOG_TASKS_MAX = 64
_SERVER_ID_MIN = 2**31


def _check_heartbeat_table(table: str) -> str:
    pattern = TablePatterns((table,), SYSTEM_SCHEMAS)
    if set(table) & set("*?!") or not pattern.matches(TableId.parse(table)):
        text = "should be schema.table, in a schema that is not the server's own, for example penstock.heartbeat"
        raise ValueError(text)
    return table


HeartbeatTable: TypeAlias = Annotated[str, AfterValidator(_check_heartbeat_table)]


class HeartbeatSpec(Spec):
    """A row that is written into the source every `period_seconds`, in `table` (schema.name), which is made if missing.

    `heartbeat: {}` is enough. Several pipelines may share a table.
    """

    table: HeartbeatTable = "penstock.heartbeat"
    period_seconds: Annotated[float, Field(strict=True, ge=0.1, le=3600)] = 10.0

    @property
    def table_id(self) -> TableId:
        """The table."""
        return TableId.parse(self.table)


class TrackerSpec(Spec):
    """A MariaDB or MySQL server of which nothing but schemas is asked, and which is all ours."""

    host: Text
    port: Port = 3306
    user: Text
    password_env: EnvironmentName
    tls: TlsSpec | None = None

    def located(self, directory: Path) -> TrackerSpec:
        """Return it with files that are named from `directory` on named from the root."""
        return self.model_copy(update={"tls": self.tls and self.tls.located(directory)})


class ReplicaSpec(Spec):
    """Where a replica of a source is; it has the source's login."""

    host: Text
    port: Port = 3306


class MysqlSourceSpec(Spec):
    """A MySQL or MariaDB server, and the tables of it that are carried.

    `start: auto` begins at the start of the binlog if the server still has it
    whole, else with an initial snapshot; `log` and `snapshot` insist. `server_id` is the first
    of the SERVER_IDS_PER_SOURCE replica ids that are ours on that server. Without
    `tls` nothing is encrypted. `zero_dates` says what becomes of 0000-00-00 and
    other dates that no calendar has, `row_images` of rows that were logged
    without all of their columns. `cascades` says what becomes of tables whose rows the
    source changes because of a foreign key, which is not in its log. Rows of XA transactions are held in memory from
    XA PREPARE to XA COMMIT, `prepared_xa_mebibytes_max` of them at most; those of
    more than 1 GiB would have places behind the next transaction. A
    publication begins `publish_interval_ms` after the one before, or later; 0
    gives the least latency, for more CPU, and without a number its links say
    (PipelineSpec.publish_interval_seconds). `backlog_tasks` files of a backlog are
    read side by side, each by a task that publishes it in its turn; with 1 a single
    task reads and publishes all of it. An initial snapshot that takes longer than
    `snapshot_commit_seconds` is committed in pieces. A table that `tables` has more than
    at the last start gets a snapshot by itself, with `snapshot: when-needed` one that has
    stopped, too; with `never` none does; `snapshot_tables` of them are read at once,
    with `snapshot_readers` chunks of one table at once where there are no others. While the
    source, or one of its `replicas`, is further behind its master than `max_replica_lag_seconds`,
    they wait; without a number nobody looks.
    `retention_warning_hours` is how soon the binlog that we need may be purged
    before we warn. `format` is how messages are written: see docs/json-topics.md.
    Without `heartbeat` nothing is written to the source. `tracker` is the schema
    tracker of this source where a pipeline has several.
    """

    name: SourceName
    kind: Literal["mysql"]
    host: Text
    port: Port = 3306
    user: Text
    password_env: EnvironmentName
    tls: TlsSpec | None = None
    tables: TableList
    format: MessageFormat = "avro"
    large_values: LargeValues = "stop"
    start: Start = "auto"
    snapshot: Literal["initial", "never", "when-needed"] = "initial"
    server_id: Annotated[int, Field(strict=True, ge=1, le=2**32 - 1 - SERVER_IDS_PER_SOURCE)] | None = None
    tail_slice_seconds: TailSliceSeconds = 300.0
    zero_dates: ZeroDates = "stop"
    row_images: RowImages = "full"
    cascades: Literal["stop", "reread"] = "stop"
    prepared_xa_mebibytes_max: Annotated[int, Field(strict=True, ge=1, le=1024)] = 256
    publish_interval_ms: Annotated[int, Field(strict=True, ge=0, le=10_000)] | None = None
    backlog_tasks: Annotated[int, Field(strict=True, ge=1, le=BACKLOG_TASKS_MAX)] = 1
    snapshot_commit_seconds: SnapshotCommitSeconds = 300
    snapshot_tables: SnapshotTables = 2
    snapshot_readers: SnapshotReaders = 2
    max_replica_lag_seconds: Annotated[float, Field(strict=True, ge=0, le=86_400)] | None = None
    replicas: tuple[ReplicaSpec, ...] = ()
    retention_warning_hours: Annotated[float, Field(strict=True, ge=0, le=8760)] = 24.0
    heartbeat: HeartbeatSpec | None = None
    tracker: TrackerSpec | None = None

    @property
    def patterns(self) -> TablePatterns:
        """Which tables are wanted."""
        return TablePatterns(self.tables, SYSTEM_SCHEMAS)

    @property
    def policy(self) -> TablePolicy:
        """How its tables are carried."""
        return TablePolicy(self.zero_dates, self.row_images)

    def located(self, directory: Path) -> MysqlSourceSpec:
        """Return it with files that are named from `directory` on named from the root."""
        tls, tracker = self.tls and self.tls.located(directory), self.tracker and self.tracker.located(directory)
        return self.model_copy(update={"tls": tls, "tracker": tracker})

    def first_server_id(self, pipeline: str) -> int:
        """The first of the SERVER_IDS_PER_SOURCE replica ids that `pipeline` uses on this server.

        The same for the same names for ever, in 2**31 and up, where people seldom
        number servers by hand. Every connection that reads the log at the same
        time needs an id of its own: a server drops the older of two that are equal.
        """
        if self.server_id is not None:
            return self.server_id
        blocks = (2**32 - _SERVER_ID_MIN) // SERVER_IDS_PER_SOURCE - 1
        block = zlib.crc32(f"{pipeline}/{self.name}".encode()) % blocks
        return _SERVER_ID_MIN + block * SERVER_IDS_PER_SOURCE

"""A PostgreSQL source in a pipeline's file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from penstock.config.rules import EnvironmentName, SourceName, TableList  # noqa: TC001 - as below
from penstock.config.spec import (
    LargeValues,
    Port,
    SnapshotCommitSeconds,
    SnapshotReaders,
    SnapshotTables,
    Spec,
    TailSliceSeconds,
    Text,
    TlsSpec,
)
from penstock.core.changes import MessageFormat  # noqa: TC001 - pydantic reads it from a field's annotation
from penstock.core.patterns import TablePatterns
from penstock.core.positions import Partitions  # noqa: TC001 - pydantic reads it from a field's annotation
from penstock.core.postgres.types import SpecialValues  # noqa: TC001 - pydantic reads it from a field's annotation
from penstock.core.system_schemas import POSTGRES as SYSTEM_SCHEMAS

if TYPE_CHECKING:
    from pathlib import Path

_NAME_MAX = 63


class PostgresSourceSpec(Spec):
    """A database of a PostgreSQL server, and the tables of it that are carried.

    The first start copies them. `slot` and `publication` are made if they are
    missing; without names of their own they are called after pipeline and source.
    Without `tls` the connection is encrypted only if the server offers it.
    With `partitions: many` each partition is a table of its own, and a partitioned table is none.
    With `failover` standbys that synchronize slots keep ours too (PostgreSQL 17 and later).
    With `ddl_trigger` event triggers write ALTER TABLE into the log: see docs/postgres.md.
    `special_values` says what becomes of NaN in a NUMERIC with limits, and of dates
    and times that are infinite or outside of the years 1 to 9999. A publication of
    messages begins `publish_interval_ms` after the one before, or later; without a number
    the links say (PipelineSpec.publish_interval_seconds). An initial snapshot
    that takes longer than `snapshot_commit_seconds` is committed in pieces.
    A table that is wanted now, and was not at the last start, gets a snapshot by itself, with
    `snapshot: when-needed` one that has stopped as well, with `never` none.
    `wal_warning_mebibytes` is how much log the server may keep for us before we warn.
    `format` is how messages are written: see docs/json-topics.md. `large_values` says what becomes
    of a row that is larger than its topic takes: see docs/objects.md.
    """

    name: SourceName
    kind: Literal["postgres"]
    host: Text
    port: Port = 5432
    database: Text
    user: Text
    password_env: EnvironmentName
    tls: TlsSpec | None = None
    tables: TableList
    format: MessageFormat = "avro"
    large_values: LargeValues = "stop"
    slot: Annotated[str, Field(pattern=r"^[a-z0-9_]{1,63}$")] | None = None
    publication: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,62}$")] | None = None
    partitions: Partitions = "one"
    failover: Annotated[bool, Field(strict=True)] = False
    ddl_trigger: Annotated[bool, Field(strict=True)] = False
    special_values: SpecialValues = "stop"
    snapshot: Literal["initial", "never", "when-needed"] = "initial"
    tail_slice_seconds: TailSliceSeconds = 300.0
    publish_interval_ms: Annotated[int, Field(strict=True, ge=0, le=10_000)] | None = None
    snapshot_commit_seconds: SnapshotCommitSeconds = 300
    snapshot_tables: SnapshotTables = 2
    snapshot_readers: SnapshotReaders = 2
    wal_warning_mebibytes: Annotated[int, Field(strict=True, ge=1)] = 1024

    @property
    def patterns(self) -> TablePatterns:
        """Which tables are wanted."""
        return TablePatterns(self.tables, SYSTEM_SCHEMAS)

    @property
    def backlog_tasks(self) -> int:
        """A slot is read by one task at a time."""
        return 1

    @property
    def slot_name(self) -> str:
        """The replication slot that is read."""
        return self.slot or _own_name("", self.name)

    @property
    def publication_name(self) -> str:
        """The publication that says what is in the log for us."""
        return self.publication or _own_name("", self.name)

    def located(self, directory: Path) -> PostgresSourceSpec:
        """Return it with files that are named from `directory` on named from the root."""
        return self.model_copy(update={"tls": self.tls and self.tls.located(directory)})

    def named_after(self, pipeline: str) -> PostgresSourceSpec:
        """Return it with names for slot and publication, where the file gives none."""
        own = _own_name(pipeline, self.name)
        return self.model_copy(update={"slot": self.slot or own, "publication": self.publication or own})


def _own_name(pipeline: str, source: str) -> str:
    """A name of letters, digits and `_`, in small letters, that fits PostgreSQL."""
    name = f"penstock_{pipeline}_{source}".lower()
    return "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in name)[:_NAME_MAX]

"""A table as the files of its batches have it: every file folded by key, in the order of the batch topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.core.batches import read_batch
from penstock.core.errors import SinkError
from penstock.core.file_formats import parse_batch_file
from penstock.core.files import OFFSET, OP
from penstock.core.schema_changes import SchemaChangeKind
from penstock.links.audit.table_changes import repeated
from penstock.links.batch_files import read_content

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.core.audit.dialects import AuditDialect
    from penstock.core.audit.stage_columns import ArrowColumn
    from penstock.core.batches import Batch, ReadBatches
    from penstock.links.audit.table_changes import TableChanges
    from penstock.ports.objects import ObjectStore


class FilesStage:
    """The files of one table, as a database that an audit reads (ports/audited.AuditedDatabase)."""

    def __init__(
        self,
        read: ReadBatches,
        objects: ObjectStore,
        changes: TableChanges,
        limits: Callable[[], tuple[int, int, int]],
    ) -> None:
        """Read nothing yet.

        `read` reads the batch topic. `limits` asks where that begins, before where files are deleted, and up to where
        it counts.
        """
        self._read = read
        self._objects = objects
        self._changes = changes
        self._limits = limits
        self._next = 0

    @property
    def dialect(self) -> AuditDialect:
        """See AuditedDatabase."""
        return self._changes.folded.dialect

    def fetch(self, query: str) -> Sequence[Sequence[Any]]:
        """See AuditedDatabase."""
        return self._changes.folded.fetch(query)

    def fetch_texts(self, query: str) -> pa.Table:
        """See AuditedDatabase."""
        return self._changes.folded.fetch_texts(query)

    def close(self) -> None:
        """See AuditedDatabase: whoever opened what it reads closes that."""

    def renew(self) -> None:
        """See AuditedDatabase: read the files of batches that are new. Raises UnavailableError."""
        begin, deleted_to, end = self._limits()
        if end <= self._next:
            return
        if begin > self._next:
            # What the table had before, if it was there, is not known any more.
            self._next, self._changes.is_partial = begin, True
        for messages in self._read(self._next, end):
            for offset, message in messages:
                batch = read_batch(offset, message)
                if (batch.source, batch.table) == (self._changes.source, self._changes.schema.table):
                    self._take(batch, is_deleted=offset < deleted_to)
        self._next = end

    def _take(self, batch: Batch, *, is_deleted: bool) -> None:
        match batch.kind:
            case SchemaChangeKind.SCHEMA if batch.rows and is_deleted:
                self._changes.is_partial = True
            case SchemaChangeKind.SCHEMA if batch.rows:
                self._fold(batch)
            case SchemaChangeKind.SCHEMA:
                pass
            case SchemaChangeKind.RENAME:
                self._changes.refusal = "its rows came from another table by RENAME, whose files are not looked into"
            case _:
                self._changes.folded.clear()
                self._changes.refusal, self._changes.is_partial = "", False

    def _fold(self, batch: Batch) -> None:
        schema = self._changes.schema_of(batch.schema_id)
        try:
            rows = parse_batch_file(schema, batch, read_content(self._objects, batch))
        except SinkError as error:
            self._changes.tell(f"{batch.file_place}: {error.message}")
            return
        except ValueError as error:
            self._changes.tell(f"{batch.file_place} is not the file that was written: {error}")
            return
        ours: list[ArrowColumn] = [
            rows.column(OP),
            rows.column(OFFSET),
            repeated(batch.topic, pa.string(), rows),
            repeated(batch.partition, pa.int32(), rows),
            repeated("", pa.string(), rows),
        ]
        self._changes.fold(batch.schema_id, rows, ours)

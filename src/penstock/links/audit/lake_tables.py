"""Finds tables of a folder of Delta tables or Parquet files, as they are now."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.core.audit.delta_log import DeltaVersion, choose_entries
from penstock.core.audit.table_files import TableFiles
from penstock.core.errors import SinkError
from penstock.core.warehouse.lake_paths import table_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.core.tables import TableId
    from penstock.ports.objects import ObjectStore

_LOG = "_delta_log"
_HINT = "read the table with Spark: it says what is wrong with it"


class DeltaTables:
    """The tables SCHEMA/TABLE of a folder. `local` brings files of the store here, and says where they are."""

    def __init__(self, store: ObjectStore, local: Callable[[Sequence[str]], tuple[str, ...]]) -> None:
        """Read nothing yet."""
        self._store = store
        self._local = local

    def find(self, table: TableId) -> TableFiles | None:
        """Return the newest version of a table, None for no table. Raises SinkError for one that is not understood."""
        folder = table_folder(table)
        log = f"{folder}/{_LOG}/"
        names = [key.removeprefix(log) for key in self._store.list(log)]
        if not any(name.endswith(".json") for name in names):
            return None
        version = DeltaVersion()
        try:
            entries = choose_entries(names)
            if entries.checkpoint is not None:
                version.take(_checkpoint(self._store.get(log + entries.checkpoint)))
            for name in entries.commits:
                version.take(json.loads(line) for line in self._store.get(log + name).splitlines() if line.strip())
        except (ValueError, KeyError, TypeError, pa.ArrowException) as error:
            message = f"the log of the Delta table {folder} is not understood: {error}"
            raise SinkError(message, _HINT) from error
        if why := version.why_unreadable:
            message = f"the Delta table {folder} cannot be audited: {why}"
            raise SinkError(message, "audit a copy of it, or leave the table out with `tables`")
        paths = self._local([f"{folder}/{path}" for path in version.files])
        return TableFiles(paths, version.columns, version.numbers)


class ParquetTables:
    """The tables SCHEMA/TABLE.parquet, or the folders SCHEMA/TABLE of Parquet files, of a folder."""

    def __init__(self, store: ObjectStore, local: Callable[[Sequence[str]], tuple[str, ...]]) -> None:
        """As `DeltaTables`."""
        self._store = store
        self._local = local

    def find(self, table: TableId) -> TableFiles | None:
        """Return the files of a table, None for no table. A folder's files are all that it has, however deep."""
        folder = table_folder(table)
        keys = [key for key in self._store.list(f"{folder}/") if _is_shown(key)]
        if not keys and self._store.exists(f"{folder}.parquet"):
            keys = [f"{folder}.parquet"]
        return TableFiles(self._local(keys)) if keys else None


def _is_shown(key: str) -> bool:
    """As Spark and others have it, what begins with a dot or an underscore is no data."""
    return key.endswith(".parquet") and not any(part.startswith((".", "_")) for part in key.split("/")[2:])


def _checkpoint(content: bytes) -> Iterator[dict[str, Any]]:
    """Yield the actions of a checkpoint, each a row with one column that is not null."""
    reader = pq.ParquetFile(pa.BufferReader(content))
    wanted = [name for name in reader.schema_arrow.names if name in {"add", "metaData", "txn", "protocol"}]
    for batch in reader.iter_batches(columns=wanted):
        for row in batch.to_pylist():
            yield {name: value for name, value in row.items() if value is not None}

"""Which files and columns a Delta table has in its newest version, as its log says.

Source: Delta transaction log protocol, "Actions", "Checkpoints", "Column Mapping"
and "Reader Requirements for ...".
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from penstock.core.audit.table_files import FileColumn

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_KNOWN_FEATURES: Final = frozenset(
    {"columnMapping", "timestampNtz", "typeWidening", "typeWidening-preview", "deletionVectors", "vacuumProtocolCheck"}
)
_PLAIN_VERSION: Final = 2
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_ENTRY: Final = re.compile(r"(?P<version>\d{20})\.(?P<kind>json|checkpoint\.parquet)")
_DUCKDB_TYPES: Final[Mapping[str, str]] = {
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "string": "VARCHAR",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMPTZ",
    "timestamp_ntz": "TIMESTAMP",
}


@dataclass(slots=True)
class DeltaVersion:
    """What the actions of a log add up to. `files` are paths below the table's folder."""

    columns: tuple[FileColumn, ...] = ()
    files: dict[str, None] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    refusal: str = ""
    _with_vectors: set[str] = field(default_factory=set)

    def take(self, actions: Iterable[Mapping[str, Any]]) -> None:
        """Take what one commit, or a checkpoint, says. ValueError for what no log says."""
        added: list[Mapping[str, Any]] = []
        for action in actions:
            if (file := action.get("add")) is not None:
                added.append(file)
            elif (removed := action.get("remove")) is not None:
                self.files.pop(unquote(removed["path"]), None)
            elif (described := action.get("metaData")) is not None:
                self._describe(described)
            elif (number := action.get("txn")) is not None:
                self.numbers[number["appId"]] = int(number["version"])
            elif (protocol := action.get("protocol")) is not None:
                self._check(protocol)
        # Last, as actions of a commit have no order: a file that gets a deletion vector is removed, and added with it.
        for file in added:
            self._add(unquote(file["path"]), has_vector=bool(file.get("deletionVector")))

    @property
    def why_unreadable(self) -> str:
        """Say why the table cannot be read here, "" if it can."""
        if self.refusal or not self._with_vectors & set(self.files):
            return self.refusal
        return (
            "its files have deletion vectors, which an audit does not read: REORG TABLE ... APPLY (PURGE) rewrites them"
        )

    def _add(self, path: str, *, has_vector: bool) -> None:
        self.files[path] = None
        if has_vector:
            self._with_vectors.add(path)
        else:
            self._with_vectors.discard(path)

    def _describe(self, described: Mapping[str, Any]) -> None:
        if described["partitionColumns"]:
            self.refusal = "it is partitioned, and an audit does not read values that stand in paths"
        self.columns = tuple(_column(each) for each in json.loads(described["schemaString"])["fields"])

    def _check(self, protocol: Mapping[str, Any]) -> None:
        features = protocol.get("readerFeatures") or ()
        unknown = sorted(set(features) - _KNOWN_FEATURES)
        if unknown or (not features and protocol["minReaderVersion"] > _PLAIN_VERSION):
            self.refusal = f"readers of it must know {', '.join(unknown) or 'more'}, which an audit does not"


@dataclass(frozen=True, slots=True)
class LogEntries:
    """Which entries of a log make up its newest version: a checkpoint, if there is one, and the commits behind it."""

    checkpoint: str | None
    commits: tuple[str, ...]


def choose_entries(names: Iterable[str]) -> LogEntries:
    """Choose among the names of a log's folder. ValueError where commits are missing."""
    found = [match for match in (_ENTRY.fullmatch(name) for name in names) if match]
    checkpoint = max((each[0] for each in found if each["kind"] != "json"), default=None)
    first = -1 if checkpoint is None else int(checkpoint[:20])
    commits = sorted(each[0] for each in found if each["kind"] == "json" and int(each["version"]) > first)
    if [int(name[:20]) for name in commits] != list(range(first + 1, first + 1 + len(commits))):
        message = "commits are missing in its log, or it has a checkpoint in several parts"
        raise ValueError(message)
    return LogEntries(checkpoint, tuple(commits))


def _column(described: Mapping[str, Any]) -> FileColumn:
    in_files = described["metadata"].get("delta.columnMapping.physicalName", described["name"])
    return FileColumn(described["name"], in_files, _duckdb_type(described["type"]))


def _duckdb_type(type_: Any) -> str | None:  # noqa: ANN401 - JSON
    if not isinstance(type_, str):
        return None
    found = _DECIMAL.fullmatch(type_)
    return f"DECIMAL({found[1]}, {found[2]})" if found else _DUCKDB_TYPES.get(type_)

"""The file of a backup: lines of JSON, compressed by gzip.

Version 1 of the format:

    {"format": "penstock schematizer backup", "version": 1, "revision": "0003_...", "created_at_ms": 0,
     "tables": [{"name": "schemas", "columns": [["id", "integer"], ...], "next_id": 18}, ...]}
    [0, [1, "9f86d0...", ...]]          a row: the number of its table above, and its values in order
    ...
    {"rows": [17, ...], "sha256": "..."}

`revision` is that of the database's tables, `next_id` the id that a table would
have given next (null where it gives none): ids that were deleted are not given
again. The kinds of columns are integer, number, text, boolean, bytes (Base64)
and json. `rows` counts each table's, and `sha256` is of all the lines before,
their ends included: a file without its last line, or with another one, is not
a backup.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from penstock.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_FORMAT = "penstock schematizer backup"
_VERSION = 1
_LINE_BYTES_MAX = 1 << 30
_OWNER_ONLY = 0o600
_HINT = "use another copy of the file; nothing was written"

Row: TypeAlias = "tuple[int, list[JsonValue]]"


class TableHead(BaseModel):
    """A table: its columns with their kinds, and the id that it would give next."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    columns: list[tuple[str, str]]
    next_id: int | None


class Head(BaseModel):
    """What a backup is of."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: str = _FORMAT
    version: int = _VERSION
    revision: str
    created_at_ms: int
    tables: list[TableHead]


@dataclass(frozen=True, slots=True)
class Backup:
    """A file that was read to its end, and found whole; `rows` counts those of each table."""

    file: Path
    head: Head
    rows: tuple[int, ...]

    def read_rows(self) -> Iterator[Row]:
        """Yield every row, again from the file."""
        lines = _lines(self.file)
        next(lines)
        for _ in range(sum(self.rows)):
            table, values = json.loads(next(lines))
            yield table, values


def write_backup(file: Path, head: Head, rows: Iterable[Row]) -> tuple[int, ...]:
    """Write a backup in one step: what is there by that name stays until the new one is whole.

    Returns the number of rows of each table. Raises UsageError where the file cannot be written.
    """
    counts = [0] * len(head.tables)
    digest = hashlib.sha256()
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _OWNER_ONLY), "wb") as raw:  # noqa: PTH123 - a descriptor
            with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
                for line in _told(head, rows, counts):
                    digest.update(line)
                    packed.write(line)
                packed.write(_line({"rows": list(counts), "sha256": digest.hexdigest()}))
            raw.flush()
            os.fsync(raw.fileno())
        unfinished.replace(file)
    except OSError as error:
        message = f"the backup {file} cannot be written: {error.strerror}"
        raise UsageError(message, "choose another place, or free some") from error
    finally:
        unfinished.unlink(missing_ok=True)
    return tuple(counts)


def read_backup(file: Path) -> Backup:
    """Read a backup to its end. Raises UsageError for a file that is none, or is not whole any more."""
    digest = hashlib.sha256()
    lines = _lines(file)
    first = next(lines, b"")
    head = _head(file, first)
    counts = [0] * len(head.tables)
    before = first
    for line in lines:
        digest.update(before)
        if before is not first:
            _count(file, head, before, counts)
        before = line
    if _line({"rows": counts, "sha256": digest.hexdigest()}) != before:
        message = f"the backup {file} is cut or damaged"
        raise UsageError(message, _HINT)
    return Backup(file, head, tuple(counts))


def _told(head: Head, rows: Iterable[Row], counts: list[int]) -> Iterator[bytes]:
    yield _line(head.model_dump(mode="json"))
    for table, values in rows:
        counts[table] += 1
        yield _line([table, values])


def _line(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def _lines(file: Path) -> Iterator[bytes]:
    try:
        with gzip.open(file) as opened:
            while line := opened.readline(_LINE_BYTES_MAX):
                yield line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        message = f"the backup {file} is cut or damaged: {error}"
        raise UsageError(message, _HINT) from error
    except OSError as error:
        message = f"the backup {file} cannot be read: {error.strerror}"
        raise UsageError(message, "give the file that penstock schematizer backup wrote") from error


def _head(file: Path, line: bytes) -> Head:
    try:
        head = Head.model_validate_json(line)
    except ValidationError as error:
        message = f"{file} is no backup of a Schematizer"
        raise UsageError(message, "give the file that penstock schematizer backup wrote") from error
    if head.format != _FORMAT or head.version != _VERSION:
        message = f"{file} is a {head.format!r} of version {head.version}, and this release reads {_VERSION}"
        raise UsageError(message, "restore it with the release that wrote it, or a newer one")
    return head


def _count(file: Path, head: Head, line: bytes, counts: list[int]) -> None:
    try:
        table, values = json.loads(line)
        fits = len(values) == len(head.tables[table].columns)
        counts[table] += 1
    except (ValueError, TypeError, IndexError):
        fits = False
    if not fits:
        message = f"the backup {file} is damaged: it has a row that is none"
        raise UsageError(message, _HINT)

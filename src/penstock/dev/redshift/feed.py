"""Files become COPY text in threads, a few at a time, in order, with memory bounded."""

from __future__ import annotations

import asyncio
import bz2
import contextlib
import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

import pyarrow as pa

from penstock.dev.redshift.copy_text import ChunkFile, join_rows
from penstock.dev.redshift.errors import INTERNAL
from penstock.dev.redshift.files import Bucket
from penstock.dev.redshift.load_errors import BadRow, LoadError
from penstock.dev.redshift.wire import RedshiftError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from penstock.dev.redshift.cluster import S3Place
    from penstock.dev.redshift.files import SourceFile

_FILES_AT_ONCE = 3
_CHUNKS_WAITING = 2
_WAIT_SECONDS = 0.2
_READ_BYTES = 1 << 20
_WHOLE = object()

Rows = tuple[int, ...] | range


class Reader(Protocol):
    """How files of one form are read, each by a reader of its own. It leaves rows of `skipped` out where it can."""

    skipped: frozenset[int]

    def batches(self, chunks: Iterator[bytes]) -> Iterator[pa.RecordBatch]:
        """One file's rows, some at a time."""
        ...

    def texts(self, batch: pa.RecordBatch, first_row: int) -> list[pa.Array[Any]]:
        """Their columns as strings of COPY text."""
        ...


class BadRowError(Exception):
    """A bad row and its file's number."""

    def __init__(self, file: int, bad: BadRow) -> None:
        """Carry both."""
        super().__init__(file, bad)
        self.file = file
        self.bad = bad


@dataclass
class Feed:
    """The rows of all files in order, without those in `skip`: (file's number, row's number) pairs.

    While it is read it counts, and notes which line of COPY text is which row.
    """

    files: list[SourceFile]
    place: S3Place
    make_reader: Callable[[], Reader]
    compression: str
    skip: frozenset[tuple[int, int]] = frozenset()
    rows: int = 0
    rows_of_files: dict[int, int] = field(default_factory=dict)
    _parts: list[tuple[int, int, Rows]] = field(default_factory=list)
    _stopped: threading.Event = field(default_factory=threading.Event)

    async def chunks(self) -> AsyncIterator[bytes]:
        """COPY text. Raises BadRowError for a bad row and RedshiftError for a bad file."""
        loop = asyncio.get_running_loop()
        queues: dict[int, queue.Queue[object]] = {}
        workers = ThreadPoolExecutor(_FILES_AT_ONCE + 1, thread_name_prefix="copy")
        try:
            for number in range(len(self.files)):
                for ahead in range(number, min(number + _FILES_AT_ONCE, len(self.files))):
                    if ahead not in queues:
                        queues[ahead] = queue.Queue(_CHUNKS_WAITING)
                        workers.submit(self._read_file, ahead, queues[ahead])
                while (item := await loop.run_in_executor(workers, queues[number].get)) is not _WHOLE:
                    if isinstance(item, Exception):
                        raise item
                    content, rows = cast("tuple[bytes, Rows]", item)
                    self._parts.append((self.rows, number, rows))
                    self.rows += len(rows)
                    self.rows_of_files[number] = self.rows_of_files.get(number, 0) + len(rows)
                    yield content
                del queues[number]
        finally:
            self._stopped.set()
            workers.shutdown(wait=False, cancel_futures=True)

    def place_of(self, line: int) -> tuple[int, int]:
        """The file's and the row's number of a line of COPY text, counted from 1."""
        for first, file, rows in self._parts:
            if first < line <= first + len(rows):
                return file, rows[line - 1 - first]
        return 0, 0

    def fields_of(self, file: int, row: int) -> list[str]:
        """A row's fields as they are written; empty where they cannot be read."""
        seen = 0
        reader = self.make_reader()
        reader.skipped = frozenset(each for number, each in self.skip if number == file)
        with contextlib.suppress(RedshiftError, LoadError, OSError, pa.ArrowException):
            for batch in reader.batches(self._content(self.files[file])):
                if row < seen + len(batch):
                    values = [column[row - seen].as_py() for column in batch.columns]
                    return [v.decode(errors="replace") if isinstance(v, bytes) else str(v) for v in values]
                seen += len(batch)
        return []

    def _read_file(self, number: int, into: queue.Queue[object]) -> None:
        """One file, in a thread of its own; whatever breaks is handed on too, and is the file's last word."""
        try:
            for content, rows in self._convert(number):
                if not self._put(into, (content, rows)):
                    return
            self._put(into, _WHOLE)
        except LoadError as error:
            self._put(into, BadRowError(number, error.bad))
        except RedshiftError as error:
            self._put(into, error)
        except Exception as error:  # noqa: BLE001 - nothing that breaks here may look like the file's end
            url = self.files[number].url
            self._put(into, RedshiftError(INTERNAL, f"{url} cannot be read: {type(error).__name__}: {error}"))

    def _put(self, into: queue.Queue[object], item: object) -> bool:
        """Wait for room; False if nobody reads any more."""
        while not self._stopped.is_set():
            with contextlib.suppress(queue.Full):
                into.put(item, timeout=_WAIT_SECONDS)
                return True
        return False

    def _convert(self, number: int) -> Iterator[tuple[bytes, Rows]]:
        reader = self.make_reader()
        seen = 0
        skipped = reader.skipped = frozenset(row for file, row in self.skip if file == number)
        for batch in reader.batches(self._content(self.files[number])):
            rows: Rows = range(seen, seen + len(batch))
            seen += len(batch)
            if skipped.isdisjoint(rows):
                yield join_rows(reader.texts(batch, rows[0])), rows
                continue
            kept = tuple(row for row in rows if row not in skipped)
            for row in kept:
                # One by one: a row's number must stay what it is in the file.
                yield join_rows(reader.texts(batch.slice(row - rows[0], 1), row)), (row,)

    def _content(self, file: SourceFile) -> Iterator[bytes]:
        """A file's bytes, unpacked. RedshiftError where they are not packed as the statement says."""
        chunks = Bucket(self.place, file.bucket).chunks(file.key)
        if not self.compression:
            return chunks
        return self._unpacked(chunks, file)

    def _unpacked(self, chunks: Iterator[bytes], file: SourceFile) -> Iterator[bytes]:
        source = ChunkFile(chunks)
        form: Literal["gzip", "zstd"] = "gzip" if self.compression == "GZIP" else "zstd"
        try:
            if self.compression == "BZIP2":
                with bz2.open(source) as unpacked:
                    while content := unpacked.read(_READ_BYTES):
                        yield content
                return
            with pa.CompressedInputStream(pa.PythonFile(source, mode="r"), form) as stream:
                while content := stream.read(_READ_BYTES):
                    yield content
        except (OSError, EOFError, pa.ArrowException) as error:
            message = f"{file.url} is not in {self.compression} format, or is cut off"
            raise RedshiftError(INTERNAL, message, str(error)) from error

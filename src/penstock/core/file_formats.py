"""The formats that batch files come in: Parquet, or CSV that is compressed."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import pyarrow as pa

from penstock.core.csv_dialect import CsvDialect, render_csv
from penstock.core.csv_reading import parse_csv
from penstock.core.files import file_schema, parse_file, render_file, require_layout

if TYPE_CHECKING:
    from penstock.core.batches import Batch
    from penstock.core.tables import TableSchema

FormatName: TypeAlias = Literal["parquet", "csv"]
Compression: TypeAlias = Literal["zstd", "gzip"]

_GZIP_LEVEL = 1
"""Files are read once or twice and then deleted: level 6 takes four times as long for a tenth less."""


@dataclass(frozen=True, slots=True)
class FileFormat:
    """How files are written. Parquet has its compression inside, and it is zstd."""

    name: FormatName = "parquet"
    compression: Compression = "zstd"

    @property
    def ending(self) -> str:
        """What follows the last of a key's fixed parts."""
        if self.name == "parquet":
            return "parquet"
        return "csv.gz" if self.compression == "gzip" else "csv.zst"


PARQUET = FileFormat()
IN_MESSAGE = FileFormat("csv")
"""What a batch message carries itself: a Parquet file of one row has 2 KB, and takes three times as long."""


@dataclass(frozen=True, slots=True)
class RenderedFile:
    """The bytes of a file, and for CSV how to read it."""

    content: bytes
    dialect: CsvDialect | None = None


def render_as(format_: FileFormat, schema: TableSchema, rows: pa.Table) -> RenderedFile:
    """Return the file of `rows`, which are laid out as `files.file_rows` does.

    The same rows give the same bytes under the same versions of Arrow and zlib.
    Raises ValueError for rows of another layout.
    """
    if format_.name == "parquet":
        return RenderedFile(render_file(schema, rows))
    require_layout(schema, rows)
    text, dialect = render_csv(rows)
    if format_.compression == "gzip":
        # Without the time, which gzip would write into its head.
        return RenderedFile(gzip.compress(memoryview(text), _GZIP_LEVEL, mtime=0), dialect)
    return RenderedFile(pa.compress(text, "zstd", asbytes=True), dialect)


def parse_batch_file(schema: TableSchema, batch: Batch, content: bytes) -> pa.Table:
    """Return the rows of the file that `batch` tells of.

    Raises ValueError for another file, for one that was damaged or cut short, and
    for a number of rows that is not the batch's; with the first place that is
    wrong, where there is one.
    """
    damage = _damage(batch, content)
    try:
        rows = _parse(schema, batch, content)
    except (pa.ArrowException, ValueError, OSError, EOFError, zlib.error) as error:
        text = f"{error}; {damage}" if damage else str(error)
        raise ValueError(text) from error
    if damage:
        raise ValueError(damage)
    if rows.num_rows != batch.rows:
        text = f"it has {rows.num_rows} rows, and its batch message says {batch.rows}"
        raise ValueError(text)
    return rows


def _parse(schema: TableSchema, batch: Batch, content: bytes) -> pa.Table:
    if batch.format == "parquet":
        return parse_file(schema, content)
    if batch.format != "csv" or batch.dialect is None:
        text = f"its batch message says that it is {batch.format or 'of no format'}, which this release does not read"
        raise ValueError(text)
    return parse_csv(file_schema(schema), _decompress(batch.compression, content), batch.dialect)


def _decompress(compression: str, content: bytes) -> pa.Buffer:
    match compression:
        case "gzip":
            return pa.py_buffer(gzip.decompress(content))
        case "zstd":
            with pa.CompressedInputStream(pa.BufferReader(content), "zstd") as stream:
                return stream.read_buffer()
        case _:
            text = f"it is compressed with {compression!r}, says its batch message, which this release does not read"
            raise ValueError(text)


def _damage(batch: Batch, content: bytes) -> str:
    """Return how the bytes differ from those that were written, "" if they do not; older messages tell less."""
    if batch.size_bytes and len(content) != batch.size_bytes:
        return f"it has {len(content)} bytes, and its batch message says {batch.size_bytes}"
    if batch.crc32 is not None and zlib.crc32(content) != batch.crc32:
        return "its bytes are not those that were written: their CRC-32 differs"
    return ""

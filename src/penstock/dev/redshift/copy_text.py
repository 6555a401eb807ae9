"""Files of CSV and delimited text, by column: read, checked, and written as PostgreSQL's COPY text.

Each row becomes exactly one line, so that the line which PostgreSQL refuses tells the row.

Source: Amazon Redshift Database Developer Guide, "Data format parameters", "Data conversion parameters",
"Load error reference", "Multibyte character load errors"; PostgreSQL documentation, "COPY: Text Format".
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute
from pyarrow import csv

from penstock.dev.redshift.copy_values import convert_column
from penstock.dev.redshift.load_errors import INVALID_LINE, NO_DELIMITER, BadRow, LoadError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.dev.redshift.copy_options import CopyOptions
    from penstock.dev.redshift.copy_target import Column

# A row may have 4 MB.
pc: Any = pyarrow.compute  # its stubs refuse what its functions take

_BLOCK_BYTES = 8 << 20


class ChunkFile(io.RawIOBase):
    """An iterator of bytes as a file that Arrow can read."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        """Read from `chunks` as they are asked for."""
        self._chunks = chunks
        self._left = memoryview(b"")

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # RawIOBase takes any buffer
        """Fill what it can of `buffer`."""
        while not self._left:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._left = memoryview(chunk)
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size


@dataclass
class TextReader:
    """Reads a file of one COPY. `columns` are the table's, in the files' order.

    Rows with too many or too few fields are not among those that are numbered from 0;
    they have the numbers -1, -2 and so on by their lines, and are left out if these are in `skipped`.
    """

    options: CopyOptions
    columns: tuple[Column, ...]
    skipped: frozenset[int] = frozenset()
    _wrong: list[BadRow] = field(default_factory=list)

    def batches(self, chunks: Iterator[bytes]) -> Iterator[pa.RecordBatch]:
        """One file's rows as they are written, all columns binary. LoadError for a row of another width.

        `chunks` are not compressed any more.
        """
        self._wrong.clear()
        source: Any = pa.PythonFile(ChunkFile(chunks), mode="r")
        try:
            with csv.open_csv(source, self._read(), self._parse(), self._convert()) as reader:
                for batch in reader:
                    self._raise_wrong()
                    yield batch
        except pa.ArrowInvalid as error:
            self._raise_wrong()
            if "Empty CSV file" not in str(error):
                raise LoadError(BadRow(-1, None, INVALID_LINE, _reason(str(error)))) from error

    def texts(self, batch: pa.RecordBatch, first_row: int) -> list[pa.Array[Any]]:
        """A batch's columns as PostgreSQL takes them. LoadError for the first value that is refused."""
        return [
            convert_column(values, column, self.options, first_row)
            for column, values in zip(self.columns, batch.columns, strict=True)
        ]

    def _raise_wrong(self) -> None:
        if self._wrong:
            raise LoadError(self._wrong[0])

    def _read(self) -> csv.ReadOptions:
        names = [str(number) for number in range(len(self.columns))]
        return csv.ReadOptions(
            use_threads=False, block_size=_BLOCK_BYTES, skip_rows=self.options.ignore_header, column_names=names
        )

    def _parse(self) -> csv.ParseOptions:
        is_csv = self.options.form == "CSV"
        quoted = is_csv or self.options.remove_quotes
        return csv.ParseOptions(
            delimiter=self.options.delimiter,
            quote_char=self.options.quote if quoted else False,
            double_quote=is_csv,
            escape_char="\\" if self.options.escape else False,
            newlines_in_values=is_csv or self.options.escape,
            ignore_empty_lines=self.options.ignore_blank_lines or len(self.columns) > 1,
            invalid_row_handler=self._invalid,
        )

    def _convert(self) -> csv.ConvertOptions:
        types = {str(number): pa.binary() for number in range(len(self.columns))}
        return csv.ConvertOptions(check_utf8=False, column_types=types, strings_can_be_null=False)

    def _invalid(self, row: csv.InvalidRow) -> Literal["skip", "error"]:
        """A row with more or fewer fields than there are columns."""
        few = row.actual_columns < row.expected_columns
        reason = "Delimiter not found" if few else "Extra column(s) found"
        number = -max(1, (row.number or 1) - self.options.ignore_header)
        if number in self.skipped:
            return "skip"
        self._wrong.append(BadRow(number, None, NO_DELIMITER if few else INVALID_LINE, reason, raw_line=row.text))
        return "error"


def join_rows(columns: list[pa.Array[Any]]) -> bytes:
    """Lines of PostgreSQL's COPY text from columns of strings that are escaped already."""
    joined = pc.binary_join_element_wise(*columns, "\t", null_handling="replace", null_replacement="\\N")
    lines = pc.binary_join_element_wise(joined, "", "\n")
    if isinstance(lines, pa.ChunkedArray):
        lines = lines.combine_chunks()
    if not len(lines):
        return b""
    offsets, data = lines.buffers()[1:3]
    numbers = memoryview(offsets).cast("q" if pa.types.is_large_string(lines.type) else "i")
    return bytes(memoryview(data)[numbers[lines.offset] : numbers[lines.offset + len(lines)]])


def _reason(text: str) -> str:
    return text.removeprefix("CSV parse error: ")[:100]

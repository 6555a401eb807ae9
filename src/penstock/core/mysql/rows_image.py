"""The front of a ROWS event: which columns it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.mysql.bytes_reader import BytesReader, MalformedError

if TYPE_CHECKING:
    from penstock.core.mysql.row_layout import RowLayout


class PartialImageError(ValueError):
    """The event does not have all columns of its rows."""


def rows_begin(payload: bytes, layout: RowLayout, images: int) -> int:
    """Return where in `payload` the first row begins.

    Before it are the number of columns and, for each of `images` (2 for updates),
    a bitmap of the columns that are there. Raises PartialImageError unless all
    are, MalformedError for a number of columns that is not the table's.
    """
    reader = BytesReader(payload)
    columns = reader.length()
    if columns != len(layout.cells):
        message = f"rows of {columns} columns in a table of {len(layout.cells)}"
        raise MalformedError(message)
    all_present = (1 << columns) - 1
    for _ in range(images):
        if reader.integer(layout.null_bytes) & all_present != all_present:
            raise PartialImageError
    return reader.at

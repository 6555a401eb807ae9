"""The front of a ROWS event: which columns its row images have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.mysql.types.bytes_reader import BytesReader, MalformedError

if TYPE_CHECKING:
    from penstock.core.mysql.types.row_layout import RowLayout


@dataclass(frozen=True, slots=True)
class RowImages:
    """The images of each row of an event, one (created, deleted) or two (before and after an update).

    `begin` is where in the payload the first row begins. `layouts` has the cells
    that each image has, `columns` which columns of the log they are of, and
    `known` which of these are the table's own: not those that the server hides.
    """

    begin: int
    layouts: tuple[RowLayout, ...]
    columns: tuple[tuple[int, ...], ...]
    known: tuple[tuple[int, ...], ...]

    def are_whole(self, columns: int) -> bool:
        """Whether every image has all `columns` of the table, and none that the server hides."""
        return all(len(present) == columns for present in self.known) and self.known == self.columns


def read_images(payload: bytes, layout: RowLayout, images: int) -> RowImages:
    """Read what an event says of its `images`: the number of columns and, for each image, a bitmap of those there.

    Raises MalformedError for a number of columns that is not the table's, and
    for images without any column.
    """
    reader = BytesReader(payload)
    count = reader.length()
    if count != len(layout.cells):
        message = f"rows of {count} columns in a table of {len(layout.cells)}"
        raise MalformedError(message)
    bitmaps = [reader.integer(layout.null_bytes) for _ in range(images)]
    columns = tuple(tuple(index for index in range(count) if bitmap >> index & 1) for bitmap in bitmaps)
    shown = count - layout.hidden
    known = tuple(tuple(index for index in present if index < shown) for present in columns)
    if not any(known):
        message = "rows without any column"
        raise MalformedError(message)
    return RowImages(reader.at, tuple(layout.only(present) for present in columns), columns, known)

"""Rows of PARTIAL_UPDATE_ROWS events, whose new images may have differences in place of JSON documents.

Source: MySQL internals, `Rows_log_event` ("value_options", "partial_bits"): before
the null bitmap of each new image are options, a length-encoded integer, and with
the first option a bitmap with a bit for each JSON column of the table. Tried on
MySQL 9.7: NOBLOB logs all JSON documents from before an update; MINIMAL does where
the table has no key, else only the key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.mysql.rows.rows_plain import OPTIONS_MAX, walk_image
from penstock.core.mysql.types import column_codes as codes
from penstock.core.mysql.types.bytes_reader import BytesReader, MalformedError
from penstock.core.mysql.types.json_diff import ChangedJson

if TYPE_CHECKING:
    from penstock.core.mysql.rows.rows_image import RowImages
    from penstock.core.mysql.rows.rows_plain import Span
    from penstock.core.mysql.types.row_layout import Cell, RowLayout


class LackingDocumentError(ValueError):
    """A document was logged as differences to one that is not in the log; `cell` says of which column."""

    def __init__(self, cell: Cell) -> None:
        """Keep which one."""
        super().__init__(cell)
        self.cell = cell


def read_partial_rows(payload: bytes, images: RowImages, layout: RowLayout) -> list[list[bytes | ChangedJson | None]]:
    """Cut the updates of one event of a table laid out as `layout`, whose images are like `images`, into values.

    Returns one list per row: the cells of its images, before and after. Raises
    MalformedError unless the last row ends with the payload, LackingDocumentError
    where the image before lacks a document that was changed.
    """
    json_columns = [index for index, cell in enumerate(layout.cells) if cell.code == codes.JSON]
    (first, second), (before_columns, after_columns) = images.layouts, images.columns
    rows, at = [], images.begin
    while at < len(payload):
        before, at = _image(payload, at, first)
        reader = BytesReader(payload, at)
        changed = _changed_columns(reader, json_columns)
        after, at = _image(payload, reader.at, second)
        row: list[bytes | ChangedJson | None] = [*before, *after]
        for column in changed:
            cell = layout.cells[column]
            place = after_columns.index(column) if column in after_columns else None
            differences = None if place is None else after[place]
            if place is None or differences is None:
                message = f"the JSON column {cell.column.name} becomes NULL by differences"
                raise MalformedError(message)
            if column not in before_columns:
                raise LackingDocumentError(cell)
            row[len(before) + place] = ChangedJson(before[before_columns.index(column)], differences)
        rows.append(row)
    return rows


def _image(payload: bytes, at: int, layout: RowLayout) -> tuple[list[bytes | None], int]:
    """Return the values of the row image at `at`, and where it ends."""
    spans: list[Span] = []
    end = walk_image(payload, at, len(payload), layout, spans)
    return [None if span is None else payload[span[0] : span[1]] for span in spans], end


def _changed_columns(reader: BytesReader, json_columns: list[int]) -> list[int]:
    """Return which of the table's columns have differences in the new image that follows."""
    options = reader.length()
    if options > OPTIONS_MAX:
        message = f"a row with the unknown value options {options}"
        raise MalformedError(message)
    if not options:
        return []
    bits = reader.integer((len(json_columns) + 7) // 8)
    if bits >> len(json_columns):
        message = f"differences to more JSON columns than the {len(json_columns)} of the table"
        raise MalformedError(message)
    return [column for number, column in enumerate(json_columns) if bits >> number & 1]

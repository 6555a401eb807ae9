"""Rows of PARTIAL_UPDATE_ROWS events, whose new images may have differences in place of JSON documents.

Source: MySQL internals, `Rows_log_event` ("value_options", "partial_bits"): before
the null bitmap of each new image are options, a length-encoded integer, and with
the first option a bitmap with a bit for each JSON column of the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.mysql import column_codes as codes
from penstock.core.mysql.bytes_reader import BytesReader, MalformedError
from penstock.core.mysql.json_diff import ChangedJson
from penstock.core.mysql.rows_plain import OPTIONS_MAX, walk_image

if TYPE_CHECKING:
    from penstock.core.mysql.row_layout import RowLayout
    from penstock.core.mysql.rows_plain import Span


def read_partial_rows(payload: bytes, begin: int, layout: RowLayout) -> list[list[bytes | ChangedJson | None]]:
    """Cut the updates of one event, which begin at `payload[begin]` and have all columns, into values.

    Returns one list per row: twice the columns of `layout`, before and after.
    Raises MalformedError unless the last row ends with the payload.
    """
    json_cells = [index for index, cell in enumerate(layout.cells) if cell.code == codes.JSON]
    rows, at = [], begin
    while at < len(payload):
        before, at = _image(payload, at, layout)
        reader = BytesReader(payload, at)
        changed = _changed_cells(reader, json_cells)
        after, at = _image(payload, reader.at, layout)
        row: list[bytes | ChangedJson | None] = [*before, *after]
        for index in changed:
            differences = after[index]
            if differences is None:
                message = f"the JSON column {layout.cells[index].column.name} becomes NULL by differences"
                raise MalformedError(message)
            row[len(before) + index] = ChangedJson(before[index], differences)
        rows.append(row)
    return rows


def _image(payload: bytes, at: int, layout: RowLayout) -> tuple[list[bytes | None], int]:
    """Return the values of the row image at `at`, and where it ends."""
    spans: list[Span] = []
    end = walk_image(payload, at, len(payload), layout, spans)
    return [None if span is None else payload[span[0] : span[1]] for span in spans], end


def _changed_cells(reader: BytesReader, json_cells: list[int]) -> list[int]:
    """Return which cells of the new image that follows have differences in them."""
    options = reader.length()
    if options > OPTIONS_MAX:
        message = f"a row with the unknown value options {options}"
        raise MalformedError(message)
    if not options:
        return []
    bits = reader.integer((len(json_cells) + 7) // 8)
    if bits >> len(json_cells):
        message = f"differences to more JSON columns than the {len(json_cells)} of the table"
        raise MalformedError(message)
    return [cell for number, cell in enumerate(json_cells) if bits >> number & 1]

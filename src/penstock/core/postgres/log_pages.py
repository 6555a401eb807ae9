"""Where the records of PostgreSQL's log end.

Source: PostgreSQL's `src/include/access/xlog_internal.h`, "XLogPageHeaderData" and "XLogLongPageHeaderData".
"""

from __future__ import annotations

from typing import Final

_HEADER_BYTES: Final = 24
_SEGMENT_HEADER_BYTES: Final = 40


def end_of_records(inserted: int, block_bytes: int, segment_bytes: int) -> int:
    """Return where the last record ends, when the next one will begin at the LSN `inserted`.

    Behind a page that is full the next record begins after a header, which is only written with it:
    whoever waits for the log to come to `inserted` would wait for the next record.
    """
    header = _HEADER_BYTES if inserted % segment_bytes >= block_bytes else _SEGMENT_HEADER_BYTES
    return inserted - header if inserted % block_bytes == header else inserted

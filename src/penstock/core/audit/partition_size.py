"""How many rows a partition has, where nobody says so."""

from __future__ import annotations

from typing import Final

PARTITION_ROWS: Final = 10_000
_ROWS_MIN: Final = 64
_BYTES: Final = 64 << 20


def partition_size(row_bytes: int) -> int:
    """Return `PARTITION_ROWS`, or fewer where rows of about `row_bytes` come to more than 64 MiB; 0 for unknown."""
    return max(_ROWS_MIN, min(PARTITION_ROWS, _BYTES // max(1, row_bytes)))

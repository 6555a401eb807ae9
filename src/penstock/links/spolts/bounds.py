"""How much user code may make in one call."""

from __future__ import annotations

MADE_BYTES_MAX = 32 << 20
MADE_RECORDS_MAX = 100_000
"""Twice the bytes that it was given on top. More would not fit into Spark's memory, which all links share."""


class MadeTooMuchError(Exception):
    """User code made more than can be carried."""


def require_bounded(records: int, size_bytes: int, given_bytes: int) -> None:
    """Raise MadeTooMuchError for more than one call of user code may make of `given_bytes`."""
    bytes_max = MADE_BYTES_MAX + 2 * given_bytes
    if records > MADE_RECORDS_MAX or size_bytes > bytes_max:
        text = f"it made more than {MADE_RECORDS_MAX} records or {bytes_max >> 20} MiB in one call"
        raise MadeTooMuchError(text)

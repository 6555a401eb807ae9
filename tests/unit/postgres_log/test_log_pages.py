"""Where the log ends that is behind a full page."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.postgres.log_pages import end_of_records

_BLOCK, _SEGMENT = 8192, 16 << 20


def test_a_place_behind_the_header_of_a_page_is_the_end_of_the_page_before() -> None:
    page, segment = _SEGMENT + 3 * _BLOCK, 2 * _SEGMENT

    assert end_of_records(page + 24, _BLOCK, _SEGMENT) == page
    assert end_of_records(segment + 40, _BLOCK, _SEGMENT) == segment


@given(st.integers(0, 1 << 40))
def test_a_place_within_a_page_is_where_it_is(place: int) -> None:
    lsn = place * 8
    first = lsn % _SEGMENT < _BLOCK
    at_header = lsn % _BLOCK == (40 if first else 24)

    assert (end_of_records(lsn, _BLOCK, _SEGMENT) == lsn) != at_header

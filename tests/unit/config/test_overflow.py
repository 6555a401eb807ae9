"""What becomes of values that a sink cannot hold, as the file says it."""

from __future__ import annotations

import pytest
from tests.unit.config.test_load import SMALL, mistakes, read


def test_null_is_written_in_quotes() -> None:
    assert read(SMALL.replace("to: warehouse}", 'to: warehouse, overflow: "null"}')).links[0].overflow == "null"


@pytest.mark.parametrize("written", ["null", "", "~"])
def test_null_without_quotes_is_no_value_and_said_to_be_so(written: str) -> None:
    (said,) = mistakes(SMALL.replace("to: warehouse}", f"to: warehouse, overflow: {written}}}"))

    assert 'overflow has no value: write "null" in quotes' in said

"""Messages that cannot be read go past a join."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.core.errors import PositionError
from penstock.core.joins.unreadable import Unreadable, pack_unreadable, split_blocks
from penstock.links.joins.decode import UNREADABLE_MAX, sort_out

FIRST = Unreadable("db.shop.t", 0, 7, b"\xff\x00", "it does not decode")
OTHER = Unreadable("db.shop.t", 1, 3, b"", "it is empty")


def test_they_are_told_from_differences_in_the_order_of_their_places() -> None:
    differences = (2).to_bytes(4, "little") + b"rest"

    found = split_blocks([pack_unreadable([OTHER]), differences, pack_unreadable([FIRST])])

    assert found == ([differences], [FIRST, OTHER])


def test_they_are_told_from_events() -> None:
    events = pa.RecordBatch.from_pydict({"input": [1]})

    assert sort_out([events, FIRST, events]) == ([events, events], [FIRST])


def test_so_many_of_them_that_something_else_is_wrong_stop_the_join() -> None:
    with pytest.raises(PositionError, match=r"db.shop.t/0 has a foreign message at offset 7: it and 1000 before it"):
        sort_out([FIRST] * (UNREADABLE_MAX + 1))

"""Messages that cannot be read go past a join."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.joins.test_changes import PLAN

from penstock.core.errors import PositionError
from penstock.core.joins.unreadable import Unreadable, pack_unreadable, split_blocks
from penstock.core.large_messages import LargeMessage
from penstock.core.tables import TableId
from penstock.links.joins.decode import UNREADABLE_MAX, JoinDecoder, require_few, sort_out
from penstock.links.joins.spec import JoinJob, JoinStream

FIRST = Unreadable("db.shop.t", 0, 7, b"\xff\x00", "it does not decode")
LARGE = Unreadable("db.shop.t", 0, 8, LargeMessage("large/1.avro", 9, "f").to_value(), "it is too large")
OTHER = Unreadable("db.shop.t", 1, 3, b"", "it is empty")


def test_they_are_told_from_differences_in_the_order_of_their_places() -> None:
    differences = (2).to_bytes(4, "little") + b"rest"

    found = split_blocks([pack_unreadable([OTHER]), differences, pack_unreadable([FIRST])])

    assert found == ([differences], [FIRST, OTHER])


def test_they_are_told_from_events() -> None:
    events = pa.RecordBatch.from_pydict({"input": [1]})

    assert sort_out([events, FIRST, events]) == ([events, events], [FIRST])


def test_so_many_of_them_that_something_else_is_wrong_stop_the_join() -> None:
    with pytest.raises(
        PositionError, match=r"db.shop.t/0 has a foreign message at offset 7: it and 1000 before it"
    ) as stopped:
        sort_out([LARGE, *[FIRST] * (UNREADABLE_MAX + 1)])

    assert stopped.value.hint.startswith("let only this pipeline write to db.shop.t; a join of its table")
    sort_out([FIRST] * UNREADABLE_MAX)


def test_rows_that_are_in_an_object_store_are_set_aside_however_many_they_are() -> None:
    large = [LARGE] * (UNREADABLE_MAX + 1)

    assert sort_out([*large, FIRST]) == ([], [*large, FIRST])
    require_few([*large, FIRST])


def test_a_message_in_a_partition_that_was_added_stops_the_join_with_what_to_do() -> None:
    stream = JoinStream("db", TableId("shop", "t"), "db.shop.t", 1, timelines=(((0, 0),),))
    decoder = JoinDecoder(JoinJob("joined", PLAN, (stream, stream), "schemas"), lambda _: "")

    with pytest.raises(PositionError, match=r"topic db.shop.t had 1 partition\(s\) and now has 2") as stopped:
        list(decoder.decode("db.shop.t", 1, np.array([0]), pa.array([b"any"], pa.binary()), pa.nulls(1, pa.binary())))

    assert not stopped.value.retryable

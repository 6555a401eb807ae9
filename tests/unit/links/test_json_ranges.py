"""A range of a topic of JSON messages: tombstones are passed over where the delete before them was read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.unit.avro.envelopes import PROCESSED_AT_MS, SHOP, batch_of, encodable

from penstock.core.avro.schemas import value_schema
from penstock.core.changes import Op
from penstock.core.message_format import changes_as_messages, encode_changes
from penstock.links.objects.decoding import RangeDecoder, Stretch
from penstock.links.objects.plan import TopicRange
from penstock.ports.topics import Fetched

if TYPE_CHECKING:
    from penstock.core.errors import UnreadableMessageError
    from penstock.ports.registry import RegisteredTable

_JSON = replace(encodable(SHOP), format="json")
_PLACE = ("shopdb", "shop.orders", "t", 0)


class ShopRegistry:
    """Knows one schema."""

    def register(self, source: str, schema: object) -> RegisteredTable:
        raise AssertionError((source, schema))

    def value_schema(self, schema_id: int) -> str:
        assert schema_id == _JSON.value_schema_id
        return value_schema(SHOP)

    def close(self) -> None:
        """Nothing is open."""


def deleted() -> list[bytes]:
    """A delete of two rows as a topic's reader sees them, who takes a tombstone for no bytes."""
    created = batch_of(2)
    batch = replace(created, op=Op.DELETE, before=created.after, after=None)
    encoded = encode_changes(_JSON, batch, PROCESSED_AT_MS)
    messages = changes_as_messages(_JSON, "t", batch.op, encoded, [1, 2])
    return [value or b"" for value in messages.lists()[1]]


def decoded(start: int, offsets: list[int], values: list[bytes]) -> list[Stretch]:
    stretches, stopped = read(start, offsets, values)
    assert stopped is None
    return stretches


def read(start: int, offsets: list[int], values: list[bytes]) -> tuple[list[Stretch], UnreadableMessageError | None]:
    """What can be read of a range, and the message that ended it."""
    decoder = RangeDecoder(TopicRange(*_PLACE, start, start, offsets[-1] + 1, (), format="json"), ShopRegistry())
    decoder.add(Fetched(offsets, values, sum(map(len, values))))
    return decoder.finish(), decoder.stopped


def test_tombstones_are_passed_over() -> None:
    (stretch,) = decoded(7, [7, 8, 9, 10], deleted())

    assert stretch.offsets.tolist() == [7, 9]
    assert stretch.changes.op.to_pylist() == ["d", "d"]


def test_a_range_that_begins_with_the_tombstone_of_a_delete_that_was_read_is_as_good() -> None:
    (stretch,) = decoded(8, [8, 9, 10], deleted()[1:])

    assert stretch.offsets.tolist() == [9]


def test_a_range_of_nothing_but_such_a_tombstone_has_no_changes() -> None:
    assert decoded(8, [8], [b""]) == []


def test_a_tombstone_whose_delete_was_compacted_away_unread_ends_the_range() -> None:
    first, tombstone, second, other = deleted()
    del second

    (stretch,), stopped = read(7, [7, 8, 10], [first, tombstone, other])

    assert stretch.offsets.tolist() == [7]
    assert stopped is not None
    assert "t/0 offset 10 is a tombstone" in stopped.message
    assert "min.compaction.lag.ms" in stopped.hint
    assert "penstock snapshot FILE shop.orders --full-refresh" in stopped.hint


def test_a_tombstone_in_a_topic_of_avro_is_foreign() -> None:
    decoder = RangeDecoder(TopicRange(*_PLACE, 0, 0, 1, ()), ShopRegistry())
    decoder.add(Fetched([0], [b""], 0))

    assert decoder.finish() == []
    assert decoder.stopped is not None
    assert "foreign message at offset 0" in decoder.stopped.message


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_message_of_another_source_ends_the_range_behind_those_before_it(count: int) -> None:
    own = json_values("shopdb", 3)
    values = [*own[:count], *json_values("elsewhere", 1), *own[count:]]

    stretches, stopped = read(4, [4, 5, 6, 7], values)

    assert [offset for stretch in stretches for offset in stretch.offsets.tolist()] == [4, 5, 6][:count]
    assert stopped is not None
    assert (stopped.place, stopped.offset) == (("t", 0), 4 + count)
    assert "foreign message" in stopped.message


@pytest.mark.parametrize(
    ("own", "other", "why"),
    [
        (b'"bin.000001:100"', b'"bin.no number:100"', "has no number"),
        (b'"bin.000001:100"', b'"bin.99999999999999999999:100"', "has no number"),
        (b'"__penstock_op":"c"', b'"__penstock_op":[]', "has no operation"),
        (b'"__penstock_row":', b'"__penstock_lacks":"note","__penstock_row":', "what no row can lack"),
        (b'"__penstock_row":', b'"__penstock_row":99999999999', "more than 32 bits"),
        (b'"note":"note"', b'"note":' + b"[" * 100_000 + b"]" * 100_000, "nested too deep"),
        (b'"id":1', b'"id":null', "NULL in id"),
    ],
    ids=["file", "large file", "operation", "lacks", "row", "nested", "key"],
)
def test_a_message_of_another_shape_ends_the_range_behind_those_before_it(own: bytes, other: bytes, why: str) -> None:
    first, second, third = json_values("shopdb", 3)
    assert own in second

    (stretch,), stopped = read(4, [4, 5, 6], [first, second.replace(own, other), third])

    assert stretch.offsets.tolist() == [4]
    assert stopped is not None
    assert "t/0 has a foreign message at offset 5: " in stopped.message
    assert why in stopped.message
    assert "penstock snapshot FILE shop.orders --full-refresh" in stopped.hint


def json_values(source: str, count: int) -> list[bytes]:
    _, values = encode_changes(replace(_JSON, source=source), batch_of(count), PROCESSED_AT_MS)
    assert isinstance(values, pa.BinaryArray)
    return [value or b"" for value in values.to_pylist()]

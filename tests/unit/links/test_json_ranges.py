"""A range of a topic of JSON messages: tombstones are passed over where the delete before them was read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.unit.avro.envelopes import PROCESSED_AT_MS, SHOP, batch_of, encodable

from penstock.core.avro.schemas import value_schema
from penstock.core.changes import Op
from penstock.core.errors import PositionError
from penstock.core.message_format import changes_as_messages, encode_changes
from penstock.links.objects.decoding import RangeDecoder, Stretch
from penstock.links.objects.plan import TopicRange
from penstock.ports.topics import Fetched

if TYPE_CHECKING:
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
    decoder = RangeDecoder(TopicRange(*_PLACE, start, start, offsets[-1] + 1, (), format="json"), ShopRegistry())
    decoder.add(Fetched(offsets, values, sum(map(len, values))))
    return decoder.finish()


def test_tombstones_are_passed_over() -> None:
    (stretch,) = decoded(7, [7, 8, 9, 10], deleted())

    assert stretch.offsets.tolist() == [7, 9]
    assert stretch.changes.op.to_pylist() == ["d", "d"]


def test_a_range_that_begins_with_the_tombstone_of_a_delete_that_was_read_is_as_good() -> None:
    (stretch,) = decoded(8, [8, 9, 10], deleted()[1:])

    assert stretch.offsets.tolist() == [9]


def test_a_range_of_nothing_but_such_a_tombstone_has_no_changes() -> None:
    assert decoded(8, [8], [b""]) == []


def test_a_tombstone_whose_delete_was_compacted_away_unread_is_an_error() -> None:
    first, tombstone, second, other = deleted()
    del second

    with pytest.raises(PositionError, match="t/0 offset 10 is a tombstone") as raised:
        decoded(7, [7, 8, 10], [first, tombstone, other])

    assert "min.compaction.lag.ms" in raised.value.hint


def test_a_tombstone_in_a_topic_of_avro_is_foreign() -> None:
    decoder = RangeDecoder(TopicRange(*_PLACE, 0, 0, 1, ()), ShopRegistry())
    decoder.add(Fetched([0], [b""], 0))

    with pytest.raises(PositionError, match="foreign message at offset 0"):
        decoder.finish()


def test_messages_of_another_source_are_foreign() -> None:
    other = replace(_JSON, source="elsewhere")
    _, values = encode_changes(other, batch_of(1), PROCESSED_AT_MS)
    assert isinstance(values, pa.BinaryArray)

    with pytest.raises(PositionError, match="foreign message"):
        decoded(0, [0], [value or b"" for value in values.to_pylist()])

"""A tombstone of a JSON topic deletes its row from a join, whether the delete before it was compacted away or not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.joins.joined_streams import table_of

from penstock.core.arrow_types import arrow_schema
from penstock.core.avro.envelope_encode import EncodableTable
from penstock.core.avro.schemas import value_schema
from penstock.core.changes import Op, RowBatch
from penstock.core.joins.algebra import JoinState
from penstock.core.joins.changes import joined_images, joined_rows
from penstock.core.joins.completing import RowCompleter
from penstock.core.joins.described import Described
from penstock.core.joins.events import truncate_event
from penstock.core.joins.inputs import JoinInput, JoinOutput
from penstock.core.joins.plan import plan_join
from penstock.core.joins.unreadable import Unreadable, pack_unreadable, split_blocks
from penstock.core.message_format import changes_as_messages, encode_changes
from penstock.core.tables import Column, DecimalType, IntegerType, TableId, TextType
from penstock.links.joins.decode import JoinDecoder, sort_out, to_join
from penstock.links.joins.spec import JoinJob, JoinStream

if TYPE_CHECKING:
    from penstock.core.changes import MessageFormat

Message: TypeAlias = "tuple[bytes | None, bytes | None]"

NUMBER, TEXT = IntegerType(64, unsigned=False), TextType(20, "utf8")
NOTE = table_of(
    0,
    (
        Column("text", TEXT, nullable=True),
        Column("shop", DecimalType(10, 0), nullable=True),
        Column("id", NUMBER, nullable=False),
        Column("part", TEXT, nullable=False),
    ),
    ("part", "id"),
)
SHOP = table_of(1, (Column("id", NUMBER, nullable=False), Column("city", TEXT, nullable=True)), ("id",))
PARTIAL = replace(NOTE, partial_rows=True)
FIRST = {"id": 1, "part": "a", "shop": 7, "text": "one"}
LARGE = {"id": 2**60, "part": "a", "shop": 7, "text": "two"}
ULM = {"id": 7, "city": "Ulm"}


class Joined:
    """Notes, whose keys do not tell their join keys, and shops, whose do; all messages are in one partition each."""

    def __init__(self, note: Any = NOTE) -> None:  # noqa: ANN401 - a table
        self.tables = (note, SHOP)
        notes = JoinInput("db.shop.t0", note, ("shop",))
        shops = JoinInput("db.shop.t1", SHOP, ("id",), aliases=(("id", "shop"),))
        streams = tuple(
            JoinStream("db", table.table, f"db.shop.t{index}", index, "", (((0, 0),),), (Described((0, 0, 0), index),))
            for index, table in enumerate(self.tables)
        )
        plan = plan_join([notes, shops], JoinOutput(TableId("joined", "rows"), ("part", "id")))
        self.job = JoinJob("joined", plan, streams, "schemas")
        self.completer, self.state = RowCompleter(plan), JoinState(2)
        self.rows: dict[int, str] = {}
        self.letters: list[Unreadable] = []
        self.ends, self.place = [0, 0], 0
        self.take(1, self.messages(1, Op.CREATE, ULM))

    def messages(self, index: int, op: Op, *rows: dict[str, Any], written: MessageFormat = "json") -> list[Message]:
        """What a capture writes of changes."""
        table, count = self.tables[index], len(rows)
        self.place += 1
        image = pa.RecordBatch.from_pylist(list(rows), schema=arrow_schema(table))
        batch = RowBatch(
            schema=table,
            op=op,
            before=None if op is Op.CREATE else image,
            after=None if op is Op.DELETE else image,
            file="000001",
            offsets=np.full(count, self.place, np.int64),
            rows=np.arange(count, dtype=np.int32),
            timestamps_ms=np.zeros(count, np.int64),
            gtids=pa.array([""] * count),
            server_id=1,
        )
        encodable = EncodableTable("db", "mysql", table, 100 + index, index, format=written)
        encoded = encode_changes(encodable, batch, 0)
        keys, values = changes_as_messages(encodable, "t", op, encoded, range(count)).lists()
        return list(zip(keys, values, strict=True))

    def take(self, index: int, messages: list[Message]) -> int:
        """Let messages come, as one micro-batch; return how many joined rows it changes."""
        offsets = np.arange(self.ends[index], self.ends[index] + len(messages))
        self.ends[index] += len(messages)
        keys = pa.array([key if value is None else None for key, value in messages], pa.binary())
        values = pa.array([value for _, value in messages], pa.binary())
        decoder = JoinDecoder(self.job, lambda number: value_schema(self.tables[number]))
        events, letters = sort_out(decoder.decode(f"db.shop.t{index}", 0, offsets, values, keys))
        self.letters += letters
        return self.apply(events)

    def apply(self, events: list[pa.RecordBatch]) -> int:
        whole, _ = sort_out(to_join(self.job, self.completer.take(events)))
        differences, plan = self.state.apply(whole), self.job.plan
        for row in joined_rows(plan, joined_images(plan, differences, "b")).to_pylist():
            assert self.rows.pop(row["id"]) == f"{row['text']} {row['city']}"
        for row in joined_rows(plan, joined_images(plan, differences, "a")).to_pylist():
            self.rows[row["id"]] = f"{row['text']} {row['city']}"
        return len(differences)


@pytest.mark.parametrize("note", [NOTE, PARTIAL], ids=["whole", "partial"])
def test_a_tombstone_whose_delete_was_compacted_away_deletes_its_row(note: object) -> None:
    joined = Joined(note)
    joined.take(0, joined.messages(0, Op.CREATE, FIRST, LARGE))
    _, tombstone = joined.messages(0, Op.DELETE, LARGE)

    joined.take(0, [tombstone])

    assert joined.rows == {1: "one Ulm"}
    assert joined.letters == []


def test_so_does_one_whose_key_tells_the_join_key() -> None:
    joined = Joined()
    joined.take(0, joined.messages(0, Op.CREATE, FIRST))

    joined.take(1, joined.messages(1, Op.DELETE, ULM)[1:])

    assert joined.rows == {}


def test_a_tombstone_behind_its_delete_changes_nothing_more() -> None:
    joined = Joined()
    joined.take(0, joined.messages(0, Op.CREATE, FIRST, LARGE))
    delete, tombstone = joined.messages(0, Op.DELETE, FIRST)

    assert joined.take(0, [delete, tombstone]) == 1
    assert joined.rows == {2**60: "two Ulm"}

    delete, tombstone = joined.messages(0, Op.DELETE, LARGE)
    assert joined.take(0, [delete]) == 1
    assert joined.take(0, [tombstone]) == 0
    assert joined.rows == {}


def test_a_row_that_comes_back_stays() -> None:
    joined = Joined()
    joined.take(0, joined.messages(0, Op.CREATE, FIRST))
    _, tombstone = joined.messages(0, Op.DELETE, FIRST)
    again = joined.messages(0, Op.CREATE, {**FIRST, "text": "again"})

    joined.take(0, [tombstone, *again])

    assert joined.rows == {1: "again Ulm"}


def test_a_row_from_behind_a_truncate_is_deleted_by_its_tombstone_alone() -> None:
    joined = Joined()
    joined.apply([truncate_event(0, 0, (1, 100, 0))])
    joined.place = 100
    joined.take(0, joined.messages(0, Op.CREATE, FIRST))

    joined.take(0, joined.messages(0, Op.DELETE, FIRST)[1:])

    assert joined.rows == {}


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (None, "is not there"),
        (b"\0\0\0\0\7a", "is no JSON: "),
        (b"\xff", "is no JSON: "),
        (b"[" * 100_000, "is nested too deep"),
        (b'{"id":1}', "does not have one value each of part, id"),
        (b'{"id":1,"part":null}', "does not have one value each of part, id"),
        (b'{"id":"one","part":"a"}', "has a value of id that its type cannot have: "),
    ],
)
def test_a_tombstone_whose_key_is_none_is_a_dead_letter_and_the_others_go_on(key: bytes | None, why: str) -> None:
    joined = Joined()
    joined.take(0, joined.messages(0, Op.CREATE, FIRST, LARGE))
    (_, first), (_, last) = (joined.messages(0, Op.DELETE, row) for row in (FIRST, LARGE))

    joined.take(0, [first, (key, None), last])

    assert joined.rows == {}
    (letter,) = joined.letters
    assert (letter.topic, letter.partition, letter.offset, letter.value, letter.key) == ("db.shop.t0", 0, 3, None, key)
    assert why in letter.reason
    assert split_blocks([pack_unreadable([letter])]) == ([], [letter])


def test_a_tombstone_in_a_topic_of_avro_is_a_dead_letter() -> None:
    joined = Joined()
    joined.take(0, joined.messages(0, Op.CREATE, FIRST, written="avro"))
    ((key, _),) = joined.messages(0, Op.DELETE, FIRST, written="avro")

    joined.take(0, [(key, None)])

    assert joined.rows == {1: "one Ulm"}
    assert [letter.key for letter in joined.letters] == [key]

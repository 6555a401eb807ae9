"""A join of notes, whose rows may lack columns, and of the shops that they are of: messages come one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from tests.unit.joins.joined_streams import table_of

from penstock.core.arrow_types import arrow_schema
from penstock.core.avro.envelope_encode import EncodableTable
from penstock.core.avro.schemas import value_schema
from penstock.core.changes import Op, RowBatch
from penstock.core.joins.algebra import JoinState
from penstock.core.joins.changes import joined_images, joined_rows
from penstock.core.joins.completing import RowCompleter
from penstock.core.joins.described import Described
from penstock.core.joins.inputs import JoinInput, JoinOutput
from penstock.core.joins.plan import plan_join
from penstock.core.message_format import encode_changes
from penstock.core.tables import Column, IntegerType, TableId, TextType
from penstock.links.joins.decode import JoinDecoder, sort_out, to_join
from penstock.links.joins.spec import JoinJob, JoinStream

if TYPE_CHECKING:
    from penstock.core.joins.unreadable import Unreadable
    from penstock.core.tables import TableSchema

NUMBER, TEXT = IntegerType(32, unsigned=False), TextType(2000, "utf8")
NOTE = replace(
    table_of(
        0,
        (
            Column("id", NUMBER, nullable=False),
            Column("shop", NUMBER, nullable=True),
            Column("state", TEXT, nullable=False, default="new"),
            Column("text", TEXT, nullable=True),
        ),
        ("id",),
    ),
    partial_rows=True,
)
SHOP = table_of(1, (Column("id", NUMBER, nullable=False), Column("city", TEXT, nullable=True)), ("id",))
OUTPUT = JoinOutput(TableId("joined", "rows"), ("id",))
SAID = {"id": 1, "shop": 8, "state": "open"}
WHOLE = {"id": 1, "shop": 7, "state": "open", "text": "long"}


class Joined:
    """Notes and the shops that they are of: messages are decoded, made whole and joined, a micro-batch each."""

    def __init__(self, where: str = "", note: TableSchema = NOTE, exclude: tuple[str, ...] = ()) -> None:
        self.note = replace(note, partial_rows=True)
        notes = JoinInput("db.shop.t0", note, ("shop",), where=where, exclude=exclude)
        shops = JoinInput("db.shop.t1", SHOP, ("id",), aliases=(("id", "shop"),))
        self.schemas = {0: value_schema(self.note), 1: value_schema(SHOP)}
        streams = tuple(
            JoinStream("db", table.table, f"db.shop.t{index}", index, "", (((0, 0),),), (Described((0, 0, 0), index),))
            for index, table in enumerate((NOTE, SHOP))
        )
        self.job = JoinJob("joined", plan_join([notes, shops], OUTPUT), streams, "schemas")
        self.completer, self.state = RowCompleter(self.job.plan), JoinState(2)
        self.rows: dict[int, dict[str, Any]] = {}
        self.letters: list[Unreadable] = []
        self.place = 0
        self.take(1, Op.CREATE, {"id": 7, "city": "Ulm"})
        self.take(1, Op.CREATE, {"id": 8, "city": "Bonn"})

    def take(self, index: int, op: Op, row: dict[str, Any], lacks: tuple[str, ...] = ()) -> None:
        """Let a message come."""
        self.apply(self.decoded(index, op, row, lacks))

    def decoded(self, index: int, op: Op, row: dict[str, Any], lacks: tuple[str, ...]) -> list[pa.RecordBatch]:
        """The events of a message."""
        messages = self.message(index, op, row, lacks)
        decoder = JoinDecoder(self.job, self.schemas.__getitem__)
        return sort_out(
            decoder.decode(f"db.shop.t{index}", 0, np.array([self.place]), messages, pa.nulls(1, pa.binary()))
        )[0]

    def message(self, index: int, op: Op, row: dict[str, Any], lacks: tuple[str, ...] = ()) -> pa.BinaryArray:
        """The message of the next change, and no other."""
        table, self.place = (self.note, SHOP)[index], self.place + 1
        fields = pa.schema([each.with_nullable(nullable=True) for each in arrow_schema(table)])
        rows = pa.RecordBatch.from_pylist([row], schema=fields)
        count = np.array([self.place], np.int64)
        batch = RowBatch(
            schema=table,
            op=op,
            before=None if op in {Op.CREATE, Op.READ} else rows,
            after=None if op is Op.DELETE else rows,
            file="000001",
            offsets=count,
            rows=np.zeros(1, np.int32),
            timestamps_ms=count,
            gtids=pa.array([""]),
            server_id=1,
            before_lacks=lacks if op is Op.DELETE else (),
            after_lacks=lacks if op is not Op.DELETE else (),
        )
        _, values = encode_changes(EncodableTable("db", "test", table, 100 + index, index), batch, 0)
        return values

    def cells(self, op: Op, row: dict[str, Any], lacks: tuple[str, ...] = ()) -> bytes:
        """What a change of a note is on its way to be completed."""
        (found,) = self.decoded(0, op, row, lacks)[0].column("row").to_pylist()
        assert isinstance(found, bytes)
        return found

    def apply(self, events: list[pa.RecordBatch]) -> None:
        """Apply what is decoded, as one micro-batch."""
        whole, letters = sort_out(to_join(self.job, self.completer.take(events)))
        self.letters += letters
        differences, plan = self.state.apply(whole), self.job.plan
        for row in joined_rows(plan, joined_images(plan, differences, "b")).to_pylist():
            assert self.rows.pop(row["id"]) == row
        for row in joined_rows(plan, joined_images(plan, differences, "a")).to_pylist():
            self.rows[row["id"]] = row

"""What follows a log and publishes from it needs no more of a kind of source than its ports."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self, cast

import numpy as np
import pyarrow as pa
import pytest

from penstock.bench.known_tables import KnownTables
from penstock.core.arrow_types import arrow_schema
from penstock.core.avro.schemas import table_schema, value_schema
from penstock.core.changes import Op, RowBatch
from penstock.core.log_items import LogPassed, RowsRead, StatementRead, TransactionsRead
from penstock.core.message_format import decode_changes
from penstock.core.positions import WalPosition, wal_position
from penstock.core.publication import CaptureRecord, Publication
from penstock.core.schema_changes import SchemaChange
from penstock.core.tables import Column, IntegerType, TableId, TableSchema
from penstock.links.capture.follow import LogFollower, Pace
from penstock.links.capture.open_capture import CaptureParts, OpenCapture
from penstock.links.capture.table_catalog import TableCatalog
from penstock.links.own_messages import CaptureMessages
from penstock.ports.replay import StatementOutcome

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from tests.unit.links.conftest import MemoryPublisher

    from penstock.core.avro.envelope_encode import EncodableTable
    from penstock.core.changes import MessageFormat
    from penstock.core.log_items import LoggedRows, LoggedStatement, LogStep
    from penstock.core.positions import Order, Position
    from penstock.ports.replay import Replay

USERS = TableSchema(TableId("shop", "users"), (Column("id", IntegerType(32, unsigned=False), nullable=False),), ("id",))
START = WalPosition(5 << 32)


@dataclass(frozen=True, slots=True)
class Row:
    """A row that was inserted by the transaction whose COMMIT is at `commit`."""

    commit: WalPosition
    number: int
    id: int
    table: TableId = USERS.table
    weight_bytes: int = 10
    newest_ms: int = 7


@dataclass(frozen=True, slots=True)
class Relation:
    """A table was described anew."""

    begin: Position
    end: Position
    timestamp_ms: int = 7

    @property
    def order(self) -> Order:
        return self.begin.order

    def ending_at(self, end: Position) -> Self:
        return replace(self, end=end)


class Reading:
    """Reads lists of rows, relations and ends of transactions."""

    def __init__(self) -> None:
        self.last: Row | None = None

    def steps(self, items: Sequence[object]) -> Iterator[LogStep]:
        for item in items:
            match item:
                case Row():
                    self.last = item
                    yield RowsRead(item)
                case Relation():
                    yield StatementRead(item.begin, item)
                case WalPosition():
                    yield LogPassed(item) if self.last is None else TransactionsRead(item)
                    self.last = None

    def until(self, items: Sequence[object], stop: Position | None) -> Sequence[object]:
        assert stop is None
        return items

    def behind_rows(self, boundary: Position) -> Position | None:
        assert boundary.order >= START.order
        return None if self.last is None else replace(self.last.commit, rows_from=self.last.number + 1)

    def decode(self, schema: TableSchema, rows: Sequence[LoggedRows]) -> Iterator[RowBatch]:
        for row in cast("Sequence[Row]", rows):
            after = pa.RecordBatch.from_pylist([{"id": row.id}], arrow_schema(schema))
            places = np.array([row.commit.offset], np.int64), np.array([row.number], np.int32), np.array([7], np.int64)
            yield RowBatch(schema, Op.CREATE, None, after, row.commit.file, *places, pa.array(["731"]), 1)

    def encode_few(self, table: EncodableTable, topic: str, rows: Sequence[LoggedRows], processed_at_ms: int) -> None:
        del table, topic, rows, processed_at_ms


class NoReplay:
    """Takes note of statements."""

    def __init__(self) -> None:
        self.taken: list[LoggedStatement] = []

    def replays(self, statement: LoggedStatement) -> bool:
        del statement
        return False

    def apply(self, statement: LoggedStatement, stopped: Collection[str]) -> StatementOutcome:
        del stopped
        self.taken.append(statement)
        return StatementOutcome()

    def settle(self, statement: LoggedStatement) -> None:
        assert statement is self.taken[-1]


@pytest.mark.parametrize(("bytes_max", "format_"), [(1, "avro"), (1000, "avro"), (1, "json"), (1000, "json")])
def test_a_source_of_another_kind_is_published_with_its_own_positions(
    publisher: MemoryPublisher, bytes_max: int, format_: MessageFormat
) -> None:
    first, second, end = (replace(START, lsn=START.lsn + offset) for offset in (10, 20, 30))
    items = [Row(first, 0, 1), Row(first, 1, 2), second, Relation(second, second), Row(second, 0, 3), end]
    known, replay = KnownTables({USERS.table: USERS}), NoReplay()
    announced = SchemaChange("pg", USERS.table, "users", "", 1, 2, 1, (0, 0, -1))
    table_catalog = TableCatalog("pg", known, known, [announced], lambda table: table == USERS.table)
    table_catalog.format = format_
    capture = OpenCapture(CaptureParts(publisher, table_catalog, cast("Replay", replay), "schemas"), 1, START, 0)
    follower = LogFollower(table_catalog, {}, START, Pace(0.0, bytes_max=bytes_max), Reading())

    for part in (*follower.feed(items), *follower.finish()):
        if isinstance(part, Publication):
            capture.publish(part)
        else:
            capture.take_statement(part)

    passed = follower.skip_ahead()
    if passed is not None:
        capture.advance(passed)

    records = [CaptureRecord.from_mapping(record) for record in publisher.records]
    schema = value_schema(USERS)
    decoded = decode_changes(table_schema(schema), schema, pa.array(publisher.committed, pa.binary()))
    assert wal_position(records[-1].position) == end
    assert [each.position.order for each in records] == sorted(each.position.order for each in records)
    assert {str(file) for file in decoded.file} == {"wal.000005"}
    assert decoded.pos.tolist() == [10, 10, 20]
    assert len(replay.taken) == 1
    inside = [each.position for each in records if wal_position(each.position).rows_from]
    pieces = [replace(first, rows_from=1), replace(first, rows_from=2), replace(second, rows_from=1)]
    assert inside == (pieces if bytes_max == 1 else [])


@pytest.mark.parametrize("format_", ["avro", "json"])
def test_a_message_behind_a_position_in_a_wal_is_none_of_ours(
    publisher: MemoryPublisher, format_: MessageFormat
) -> None:
    test_a_source_of_another_kind_is_published_with_its_own_positions(publisher, 1000, format_)
    check, message = (
        CaptureMessages("pg", "schemas", "timelines", "shop/large-messages/pg", lambda _: value_schema(USERS), format_),
        publisher.committed[-1],
    )

    before, behind = (CaptureRecord(replace(START, lsn=START.lsn + offset), 1, 0).to_mapping() for offset in (10, 20))

    assert check.fault("users", message, behind) == ""
    assert "stands at 5/A" in check.fault("users", message, before)
    assert (check.fault("users", None, behind) == "") == (format_ == "json")

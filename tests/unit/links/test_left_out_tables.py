"""A table that `tables` leaves out for a while comes back stopped, alone, as its changes of that time are not known."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from penstock.bench.known_tables import KnownTables
from penstock.core.positions import WalPosition
from penstock.core.publication import CaptureRecord, StoppedTable
from penstock.core.schema_changes import SchemaChange
from penstock.core.tables import Column, IntegerType, TableId, TableSchema
from penstock.links.capture.open_capture import CaptureParts, OpenCapture
from penstock.links.capture.table_catalog import TableCatalog

if TYPE_CHECKING:
    from tests.unit.links.conftest import MemoryPublisher

    from penstock.ports.replay import Replay

USERS, ORDERS, NOTES = (TableId("shop", name) for name in ("users", "orders", "notes"))
ID = Column("id", IntegerType(32, unsigned=False), nullable=False)
SHAPES = {table: TableSchema(table, (ID,), ("id",)) for table in (USERS, ORDERS, NOTES)}
START = WalPosition(5 << 32)


class Statements:
    """Nothing is half done."""

    def take_over(self) -> None:
        """There is nobody else."""

    def is_half_done(self) -> bool:
        return False


class Capture:
    """A capture that begins again with another `tables`, and with a tracker that may lack what was left out."""

    def __init__(self, publisher: MemoryPublisher) -> None:
        self.publisher = publisher
        self.publisher.records.append(CaptureRecord(START, 1, 0).to_mapping())

    def begin(self, epoch: int, *wanted: TableId, altered: TableId | None = None) -> OpenCapture:
        told = [
            SchemaChange("pg", table, str(table), "", None if table == NOTES else 1, 2, 1, (0, 0, -1))
            for table in SHAPES
        ]
        registry = KnownTables(SHAPES)
        tracker = KnownTables({table: shape for table, shape in SHAPES.items() if table != altered})
        catalog = TableCatalog("pg", tracker, registry, told, lambda table: table in wanted)
        return OpenCapture.resume(CaptureParts(self.publisher, catalog, cast("Replay", Statements()), "schemas"), epoch)


def test_it_stops_where_it_was_left_out_and_says_so_until_its_rows_are_read_again(publisher: MemoryPublisher) -> None:
    capture = Capture(publisher)
    capture.begin(2, USERS).advance(replace(START, lsn=START.lsn + 10))

    again = capture.begin(3, USERS, ORDERS)

    assert set(again.stopped) == {"shop.orders", "shop.notes"}
    why = again.stopped["shop.orders"]
    assert why.error == (
        "table shop.orders was left out of `tables` at 5/0: its changes from there on were not carried"
    )
    assert why.hint.startswith("type: penstock snapshot FILE shop.orders;")
    assert CaptureRecord.from_mapping(publisher.records[-1]).stopped == again.stopped


def test_one_that_was_altered_meanwhile_stops_no_other(publisher: MemoryPublisher) -> None:
    capture = Capture(publisher)
    capture.begin(2, USERS)

    again = capture.begin(3, USERS, ORDERS, altered=ORDERS)

    assert "shop.users" not in again.stopped
    assert "shop.orders" in again.stopped


@pytest.mark.parametrize(
    ("connector", "hint"),
    [
        ("mysql", "type: penstock snapshot FILE shop.notes --full-lock;"),
        ("postgres", "give shop.notes a primary key, and type: penstock snapshot FILE shop.notes;"),
    ],
)
def test_one_without_a_key_comes_back_as_its_kind_of_source_can_read_it(
    publisher: MemoryPublisher, monkeypatch: pytest.MonkeyPatch, connector: str, hint: str
) -> None:
    monkeypatch.setattr(KnownTables, "connector", connector)

    opened = Capture(publisher).begin(2, USERS, ORDERS)

    assert opened.stopped["shop.notes"].hint.startswith(hint)


def test_a_table_that_had_stopped_keeps_its_reason(publisher: MemoryPublisher) -> None:
    capture = Capture(publisher)
    why = StoppedTable("4/0", "a type", "change it")
    publisher.records.append(CaptureRecord(START, 1, 0, stopped={"shop.orders": why}).to_mapping())

    assert capture.begin(2, USERS, NOTES).stopped == {"shop.orders": why}


def test_nothing_stops_where_all_tables_are_carried(publisher: MemoryPublisher) -> None:
    opened = Capture(publisher).begin(2, *SHAPES)

    assert opened.stopped == {}
    assert not opened.stops_more

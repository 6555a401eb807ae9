"""A change that is skipped is kept without values that the link hides, whatever their columns are called by now."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.servers.kinds import first, on_targets
from tests.servers.sink_case import TABLE
from tests.servers.test_sink_columns import ANN, PEOPLE, RULES, Row, batch, renamed, rules

from penstock.core.schema_changes import Move
from penstock.core.tables import Column, TableId, TextType
from penstock.core.transforms.column_rules import Drop
from penstock.core.warehouse.moved_names import MovedNames
from penstock.links.warehouse.moved_tables import MovedTables
from penstock.links.warehouse.skipping import HIDDEN, ChangeSkipper, FoundChange

if TYPE_CHECKING:
    from tests.servers.sink_case import Place

    from penstock.core.batches import Batch
    from penstock.core.tables import TableSchema
    from penstock.links.warehouse.sink import SqlSink

on_targets_with_unique_indexes = pytest.mark.parametrize("place", first(1, "duckdb", "postgres"), indirect=True)

NAMES = (("email", "contact"), ("phone", "mobile"), ("code", "secret"))
CITY = Column("city", TextType(30, "utf8mb4"), nullable=True)
SHOWN = replace(PEOPLE, columns=(*PEOPLE.columns, CITY))


def skip(place: Place, sink: SqlSink, refused: Batch, schema: TableSchema) -> Row:
    """Skip the change that `sink` refuses, and return its row as it is kept, without our own columns."""
    found: list[FoundChange] = []
    table = refused.table

    def hides(column: str) -> bool:
        return any(rule.patterns.matches(table, column) for rule in RULES.columns.rules)

    skipper = ChangeSkipper("link", sink, place.objects, found.append, hides)
    passed = skipper.skip([refused], lambda _: {refused.schema_id: schema}, None)
    assert "skipped the change" in passed.told
    (row,) = json.loads(found[0].row)
    return {name: value for name, value in row.items() if not name.startswith("__")}


@on_targets_with_unique_indexes
def test_values_of_columns_with_another_name_are_hidden_in_a_change_that_is_skipped(place: Place) -> None:
    after = SHOWN.with_columns_renamed(NAMES)
    sink = place.open(rules=RULES)
    sink.load(TABLE, [batch(place, 0, 1, SHOWN, [ANN])], {1: SHOWN})
    sink.load(TABLE, [renamed(place, 1, 2, after, [{"id": 2}], *NAMES)], {2: after})
    place.do("CREATE UNIQUE INDEX one ON shop.orders (contact)")
    again: Row = {"id": 3, "contact": ANN["email"], "mobile": "0123456", "secret": 7, "city": "Ulm"}

    kept = skip(place, sink, batch(place, 2, 2, after, [again]), after)

    assert kept == {"id": 3, "contact": HIDDEN, "mobile": HIDDEN, "secret": HIDDEN, "city": "Ulm"}


@on_targets_with_unique_indexes
def test_values_of_a_table_with_another_name_are_hidden_in_a_change_that_is_skipped(place: Place) -> None:
    clients = replace(SHOWN, table=TableId("shop", "clients"))
    sink = place.open(rules=RULES)
    sink.load(TABLE, [batch(place, 0, 1, SHOWN, [ANN])], {1: SHOWN})
    sink.rename([Move("shop.orders", "shop.clients", 2)], (2, 0, 0), {2: clients})
    place.do("CREATE UNIQUE INDEX one ON shop.clients (email)")

    kept = skip(place, sink, batch(place, 1, 2, clients, [{**ANN, "id": 3, "city": "Ulm"}]), clients)

    assert kept == {"id": 3, "email": HIDDEN, "phone": HIDDEN, "code": HIDDEN, "city": "Ulm"}


@on_targets("duckdb")
def test_what_is_done_to_columns_of_a_link_with_a_schema_is_told_by_the_names_of_the_source(place: Place) -> None:
    sink = MovedTables(place.open(rules=rules(crm__orders__email=Drop())), MovedNames("shop", "crm"))

    sink.load(TABLE, [batch(place, 0, 1, PEOPLE, [ANN])], {1: PEOPLE})

    assert sink.treated(TABLE) == {"id": "", "email": "drop", "phone": "", "code": ""}

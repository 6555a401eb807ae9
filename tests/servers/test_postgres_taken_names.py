"""PostgreSQL as a target: a table that takes the name of another one, as gh-ost and pt-online-schema-change have it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.servers.sink_case import FIRST, SCHEMAS, TABLE, Place, PostgresTarget, rows_in, schema_change

from penstock.core.errors import TableStoppedError
from penstock.core.schema_changes import Move, SchemaChangeKind
from penstock.core.tables import TableId
from penstock.core.warehouse.attributes import Grant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.links.warehouse.sink import SqlSink

pytestmark = pytest.mark.parametrize("place", ["postgres"], indirect=True)


@pytest.fixture
def reader(place: Place) -> Iterator[str]:
    """A role that may read whatever is made in the schema `shop`."""
    assert isinstance(place.target, PostgresTarget)
    name = f"reader_{place.target.server.database}"
    place.do(f"CREATE ROLE {name}", "CREATE SCHEMA shop")
    place.do(f"ALTER DEFAULT PRIVILEGES IN SCHEMA shop GRANT SELECT ON TABLES TO {name}")
    yield name
    place.do(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


ORDERS_OLD, ORDERS_NEW = (TableId("shop", name) for name in ("orders_old", "orders_new"))
SWAP = (Move(str(ORDERS_NEW), str(TABLE), 12), Move(str(TABLE), str(ORDERS_OLD), 13))
SWAPPED = {number: replace(FIRST, table=table) for number, table in ((11, ORDERS_NEW), (12, TABLE), (13, ORDERS_OLD))}


def swap(sink: SqlSink) -> None:
    """Give `orders` the rows of another table, as pt-online-schema-change does it."""
    sink.rename(SWAP, (1, 9, 0), SWAPPED)


def fill_both(place: Place, sink: SqlSink) -> None:
    sink.load(TABLE, [place.batch(0, [("c", "old", 1)])], SCHEMAS)
    shadow = replace(place.batch(0, [("c", "new", 1)], topic="t.new"), table=ORDERS_NEW, schema_id=11)
    sink.load(ORDERS_NEW, [shadow], SWAPPED)


@pytest.mark.parametrize(("added", "named", "mend"), [
    ("ALTER TABLE shop.orders ENABLE ROW LEVEL SECURITY", "lose what somebody added to it: row level security",
     "ALTER TABLE shop.orders DISABLE ROW LEVEL SECURITY"),
    ("CREATE POLICY own ON shop.orders USING (qty > 1)", "lose what somebody added to it: policy own",
     "DROP POLICY own ON shop.orders"),
    ("CREATE VIEW shop.report AS SELECT qty FROM shop.orders", r"depends on it: view shop\.report",
     "DROP VIEW shop.report"),
    ("ALTER TABLE shop.orders ADD COLUMN theirs INTEGER", "lose what somebody added to it: column theirs",
     "ALTER TABLE shop.orders DROP COLUMN theirs"),
])  # fmt: skip
def test_a_name_takes_the_rows_of_another_table_only_if_nothing_is_left_behind(
    place: Place, added: str, named: str, mend: str
) -> None:
    sink = place.open()
    fill_both(place, sink)
    place.do(added)

    with pytest.raises(TableStoppedError, match=rf"shop\.orders .*{named}"):
        swap(sink)
    assert place.tables().count("shop.orders_new") == 1
    place.do(mend)
    swap(sink)

    assert rows_in(sink) == [("new", 1)]
    assert rows_in(sink, "SELECT id FROM shop.orders_old") == [("old",)]


def test_default_privileges_give_nobody_what_was_taken_from_a_table(place: Place, reader: str) -> None:
    sink = place.open()
    fill_both(place, sink)
    place.do(f"REVOKE ALL ON shop.orders FROM {reader}", "GRANT SELECT (qty) ON shop.orders TO PUBLIC")

    sink.load(TABLE, [replace(schema_change(1, 3), kind=SchemaChangeKind.CREATE)], SCHEMAS)
    anew = sink._warehouse.attributes(TABLE).grants
    swap(sink)

    assert anew == sink._warehouse.attributes(TABLE).grants == (Grant("SELECT", "PUBLIC", "qty"),)

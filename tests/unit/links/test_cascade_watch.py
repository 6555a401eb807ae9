"""Which tables rows of others change behind the log, where not everything is to be seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.bench.known_tables import KnownTables
from penstock.core.changes import Op
from penstock.core.mysql.statements.foreign_keys import Cascade, KeysAbove
from penstock.core.mysql.types.logged_rows import RowsLogged, TableMap
from penstock.core.publication import StoppedTable
from penstock.core.tables import Column, IntegerType, TableId, TableSchema
from penstock.links.capture.mysql.cascades import CascadeWatch

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

CUSTOMERS, ORDERS, LINES, OTHERS = (TableId("shop", name) for name in ("customers", "orders", "lines", "others"))
ID = Column("id", IntegerType(32, unsigned=False), nullable=False, declaration="int(11)")
OF_ORDERS = Cascade(LINES, "of_order", ORDERS, ("o",), ("id",), on_delete="CASCADE")
OF_CUSTOMERS = Cascade(ORDERS, "of_customer", CUSTOMERS, ("c",), ("id",), on_delete="CASCADE")
GRANT = "GRANT SELECT ON `shop`.`orders` TO modest"


class Family(KnownTables):
    """Tables of which some change with others."""

    def __init__(self, tables: Sequence[TableId], found: Sequence[Cascade]) -> None:
        super().__init__({table: TableSchema(table, (ID,), ("id",)) for table in tables})
        self._found = found

    def cascades(self) -> Sequence[Cascade]:
        return self._found


def deleted(table: TableId, *, cascades_logged: bool = False) -> dict[TableId, list[RowsLogged]]:
    table_map = TableMap(table, (3,), (0,), (False,), ("id",), ())
    event = RowsLogged(table_map, Op.DELETE, b"", "binlog.000001", 100, 0, "", 1, cascades_logged=cascades_logged)
    return {table: [event]}


def watch(family: Family, above: KeysAbove, asked: list[Collection[TableId]] | None = None) -> CascadeWatch:
    def keys_above(tables: Collection[TableId]) -> KeysAbove:
        if asked is not None:
            asked.append(tables)
        return above

    return CascadeWatch(family, lambda table: table != ORDERS, keys_above)


def test_what_the_server_did_itself_stops_nothing_and_what_its_engine_did_does() -> None:
    family = watch(Family([CUSTOMERS, ORDERS, LINES], [OF_CUSTOMERS, OF_ORDERS]), KeysAbove())

    assert family.effects(deleted(CUSTOMERS, cascades_logged=True), "here") == {}
    assert family.effects(deleted(LINES), "here") == {}
    assert set(family.effects(deleted(CUSTOMERS), "here")) == {LINES}


def test_a_parent_that_only_the_source_shows_is_looked_through() -> None:
    asked: list[Collection[TableId]] = []
    family = watch(Family([CUSTOMERS, LINES], [OF_ORDERS]), KeysAbove((OF_CUSTOMERS,)), asked)

    assert family.watches(CUSTOMERS)
    assert set(family.effects(deleted(CUSTOMERS), "here")) == {LINES}
    assert family.effects(deleted(OTHERS), "here") == {}
    assert asked == [{ORDERS}]
    # A statement may have given the parent another foreign key.
    family.forget()
    assert family.watches(CUSTOMERS)
    assert asked == [{ORDERS}, {ORDERS}]


def test_below_a_parent_that_nobody_shows_a_table_stops_with_the_first_rows_of_any() -> None:
    family = watch(Family([CUSTOMERS, LINES, OTHERS], [OF_ORDERS]), KeysAbove((), {ORDERS: GRANT}))

    logged = family.effects(deleted(OTHERS, cascades_logged=True), "here")
    found = family.effects(deleted(OTHERS), "here")

    assert logged == {}
    assert set(found) == {LINES}
    why = found[LINES]
    assert isinstance(why, StoppedTable)
    assert why.hint.startswith(f"{GRANT}, start the pipeline again, and type once: penstock snapshot FILE shop.lines")


def test_a_parent_that_is_not_there_stops_nothing_until_rows_of_it_are() -> None:
    family = watch(Family([CUSTOMERS, LINES], [OF_ORDERS]), KeysAbove())

    assert family.effects(deleted(CUSTOMERS), "here") == {}
    assert set(family.effects(deleted(ORDERS), "here")) == {LINES}


def test_of_parents_that_no_wanted_table_hangs_on_nobody_is_asked() -> None:
    asked: list[Collection[TableId]] = []
    family = watch(Family([CUSTOMERS, ORDERS], [OF_CUSTOMERS, Cascade(ORDERS, "k", OTHERS)]), KeysAbove(), asked)

    assert family.effects(deleted(CUSTOMERS), "here") == {}
    assert asked == []

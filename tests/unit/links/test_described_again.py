"""PostgreSQL's log describes tables anew to each reader: a start in the middle of a transaction passes nothing by."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.servers.followed_log import MemoryRegistry
from tests.unit.postgres_log import pgoutput_encoding as encoding

from penstock.core.log_items import RowsRead, StatementRead, TransactionsRead
from penstock.core.positions import WalPosition, wal_position
from penstock.core.postgres.catalog import CatalogColumn, CatalogTable
from penstock.core.postgres.log_items import RowLogged
from penstock.core.postgres.scan import PgoutputScanner
from penstock.core.postgres.types import TypeInfo
from penstock.core.tables import Column, IntegerType, TableId, TableSchema
from penstock.links.capture.postgres.log_reading import PostgresReading, tables_changed
from penstock.links.capture.postgres.registered_catalog import RegisteredCatalog
from penstock.links.capture.table_catalog import TableCatalog

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.core.postgres.messages import Relation

_COLUMN = Column("id", IntegerType(32, unsigned=False), nullable=False, declaration="integer", number=1)
_ALTERED = encoding.relation([("id", encoding.INT4), ("added", encoding.INT4)])
_STOPPED = [replace(_ALTERED, oid=16400 + number, name=f"stopped_{number}") for number in range(8)]
_LAST = replace(encoding.relation([("id", encoding.INT4)], oid=16500), name="last")
_INSERTS = [
    part
    for table in _STOPPED
    for part in (encoding.encode_relation(table), encoding.encode_insert(table.oid, (b"1", b"2")))
]
_LAST_ROW = [encoding.encode_relation(_LAST), encoding.encode_insert(_LAST.oid, (b"1",))]
_LAST_EMPTIED = [
    *map(encoding.encode_relation, [*_STOPPED, _LAST]),
    encoding.encode_truncate([*(table.oid for table in _STOPPED), _LAST.oid]),
]


class _Catalog:
    """See ports/relations.RelationCatalog: of a source that has the table `found` alone."""

    def __init__(self, found: CatalogTable | None = None) -> None:
        self._found = found

    def table(self, oid: int, xid: int) -> CatalogTable | None:
        del xid
        return self._found if self._found is not None and self._found.oid == oid else None

    def types(self, relation: Relation) -> Mapping[int, TypeInfo]:
        del relation
        return {encoding.INT4: TypeInfo("int4")}

    def close(self) -> None:
        """Nothing is open."""


def _pass(
    catalog: TableCatalog, registered: RegisteredCatalog, start: WalPosition, messages: list[bytes]
) -> WalPosition:
    """Read up to the description of the last table, which is not to be registered now; return the committed place."""
    scanner = PgoutputScanner(start)
    items = [item for message in messages for item in scanner.take(message)]
    place = start
    for step in PostgresReading(start, registered, catalog.wanted).steps(items):
        if isinstance(step, StatementRead):
            if [each.name for each in tables_changed(step.statement).relations] == ["last"]:
                break
            place = tables_changed(step.statement).end
    return place


def _open() -> tuple[TableCatalog, RegisteredCatalog]:
    registered = RegisteredCatalog(_Catalog(), "stop")
    catalog = TableCatalog("src", registered, MemoryRegistry(), [], lambda _: True)
    registered.follow(catalog.announced_schema, catalog.with_number)
    for table in _STOPPED:
        name = TableId("public", table.name)
        schema = TableSchema(name, (_COLUMN,), ("id",), partial_rows=True, number=table.oid, published=5)
        catalog.announce(catalog.event_of(schema, catalog.register(schema, ""), WalPosition(50).order))
    return catalog, registered


@pytest.mark.parametrize("messages", [[*_INSERTS, *_LAST_ROW], _LAST_EMPTIED, [*_LAST_ROW, *_INSERTS, *_LAST_EMPTIED]])
def test_starts_pass_nothing_by_however_often_stopped_tables_are_described(messages: list[bytes]) -> None:
    catalog, registered = _open()
    log = [encoding.encode_begin(200), *messages, encoding.encode_commit(200, 250)]

    place = WalPosition(100, tables_from=16500)
    for _ in range(30):
        place = _pass(catalog, registered, place, log)

    scanner = PgoutputScanner(place)
    items = [item for message in log for item in scanner.take(message)]
    steps = list(PostgresReading(place, registered, catalog.wanted).steps(items))
    rows = [step.rows for step in steps if isinstance(step, RowsRead)]
    emptied = [
        tables_changed(step.statement).relations[-1].name
        for step in steps
        if isinstance(step, StatementRead) and tables_changed(step.statement).after is None
    ]
    told = ["last" for row in rows if isinstance(row, RowLogged) and row.relation.name == "last"]
    assert told == ["last"] * (_LAST_ROW[1] in messages)
    assert emptied == ["last"] * (_LAST_EMPTIED[-1] in messages)


def test_a_table_that_was_renamed_and_is_gone_by_now_is_what_it_was_under_its_old_name() -> None:
    _, registered = _open()
    renamed = replace(encoding.relation([("id", encoding.INT4)]), name="renamed")

    shape = registered.shape(renamed, 7)

    # Its place in the publication: another one says that rows may lack.
    assert (shape.table.name, shape.published, shape.columns[0].number) == ("renamed", 5, 1)


_OLD, _NEW = (
    encoding.relation([("id", encoding.INT4)]),
    encoding.relation([("id", encoding.INT4), ("c", encoding.INT4)]),
)


@pytest.mark.parametrize(
    ("old", "new"), [(_OLD, _NEW), (_NEW, _OLD), (replace(_NEW, name="old"), _NEW), (replace(_NEW, oid=16399), _NEW)]
)
@pytest.mark.parametrize("first", ["row", "TRUNCATE"])
def test_what_tables_looked_like_for_what_was_passed_in_a_transaction_is_no_news(
    old: Relation, new: Relation, first: str
) -> None:
    columns = (CatalogColumn(1, "id"), CatalogColumn(2, "c"))
    registered = RegisteredCatalog(_Catalog(CatalogTable(new.oid, "public", "t", columns, ("id",))), "stop")
    catalog = TableCatalog("src", registered, MemoryRegistry(), [], lambda _: True)
    registered.follow(catalog.announced_schema, catalog.with_number)
    shape = registered.shape(new, 7)
    catalog.announce(catalog.event_of(shape, catalog.register(shape, ""), WalPosition(200, 4).order))
    before = encoding.encode_insert(old.oid, (b"1",) * len(old.columns))
    if first == "TRUNCATE":
        before = encoding.encode_truncate([old.oid])
    row = encoding.encode_insert(new.oid, (b"2",) * len(new.columns))
    described = [encoding.encode_relation(table) for table in (old, new)]
    log = [encoding.encode_begin(200), described[0], before, described[1], row, row, encoding.encode_commit(200, 250)]

    # Behind what was before, and the first row of what the table is now.
    scanner = PgoutputScanner(start := WalPosition(200, 8))
    items = [item for message in log for item in scanner.take(message)]
    steps = list(PostgresReading(start, registered, catalog.wanted).steps(items))

    assert [type(step) for step in steps] == [RowsRead, TransactionsRead]


def test_places_in_a_transaction_are_in_the_timeline_that_it_was_read_in() -> None:
    catalog, registered = _open()
    committed = WalPosition(100, tables_from=16500, server_timeline=1)
    scanner = PgoutputScanner(replace(committed, server_timeline=2, timeline_from=90))
    log = [encoding.encode_begin(200), *_LAST_ROW, encoding.encode_commit(200, 250)]
    reading = PostgresReading(committed, registered, catalog.wanted)

    found = []
    for step in reading.steps([item for message in log for item in scanner.take(message)]):
        if isinstance(step, StatementRead):
            found.append(tables_changed(step.statement).end)
        if isinstance(step, RowsRead) and (inside := reading.behind_rows(committed)) is not None:
            found.append(inside)

    stands = [(place.lsn, place.server_timeline, place.timeline_from) for place in map(wal_position, found)]
    assert stands == [(200, 2, 90), (200, 2, 90)]
